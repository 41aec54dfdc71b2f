// The answer to the question about the run at work.
element.addEventListener('click', ({target}) => {
  if (target.closest('[data-replace]')) trigger('select', {replace: true});
  if (target.closest('[data-leave]')) element.querySelector('.at-work')?.remove();
});
// Another form asks another question.
element.closest('[role=tabpanel]').addEventListener('input', () => element.querySelector('.at-work')?.remove());
// It is asked where it can be seen.
new MutationObserver(() => element.querySelector('.at-work')?.scrollIntoView({block: 'nearest'}))
  .observe(element, {childList: true, subtree: true});
