// The pictures come one after the other without the server, which is asked once: with all answers.
const demo = () => element.querySelector('.demo');
let answers = [];
const show = () => {
  const pictures = [...demo().querySelectorAll('.demo-picture img')];
  const isDone = answers.length === pictures.length;
  const at = Math.min(answers.length, pictures.length - 1);
  pictures.forEach((picture, i) => { picture.hidden = i !== at; });
  demo().querySelector('[role=status]').textContent =
    isDone ? 'All answered: see below.' : `picture ${at + 1} of ${pictures.length}`;
  demo().querySelectorAll('[data-answer]').forEach((button) => { button.disabled = isDone; });
  demo().querySelector('[data-back]').disabled = !answers.length || isDone;
  demo().querySelector('[data-again]').disabled = !answers.length;
  if (isDone) {
    demo().querySelector('[data-again]').focus();
    trigger('select', {answers: answers.join(',')});
  }
};
const say = (key) => {
  if (answers.length === demo().querySelectorAll('.demo-picture img').length) return;
  answers.push(key);
  show();
};
element.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (!button || button.disabled) return;
  if (button.dataset.answer) say(button.dataset.answer);
  else if ('back' in button.dataset) { answers.pop(); show(); }
  else if ('again' in button.dataset) { answers = []; show(); demo().querySelector('[data-answer]').focus(); }
});
element.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const key = demo().dataset.answers.split(',')[Number(event.key) - 1];
  if (key) say(key);
  else if (event.key === 'Backspace' && answers.length) { answers.pop(); show(); }
});
