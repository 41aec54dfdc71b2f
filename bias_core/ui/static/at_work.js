// The question about the run at work, and its answer: what was pressed before it was asked is pressed again.
let asked, press;
element.addEventListener('click', ({target}) => {
  if (target.closest('[data-replace]')) { window.pressAgain = press; trigger('select', {replace: true}); }
  if (target.closest('[data-leave]')) element.querySelector('.at-work')?.remove();
});
// Another form asks another question.
element.closest('[role=tabpanel]').addEventListener('input', () => element.querySelector('.at-work')?.remove());
// It is asked where it can be seen.
new MutationObserver(() => {
  const question = element.querySelector('.at-work');
  if (!question || question.dataset.at === asked) return;
  asked = question.dataset.at;
  press = window.lastPress();
  question.scrollIntoView({block: 'nearest'});
}).observe(element, {childList: true, subtree: true});
