// Says when what stands in the form around it is another than before, whoever changed it: one listener for the page to
// look up in place of one for each field. Another result is said, too, once form and result are of the same answer.
// Each listener has an event of its own: Gradio repeats an event whose listener was busy for all of its listeners, and two
// that keep each other busy would be asked for ever.
const form = element.closest('.ask');
const written = () => [
  ...[...form.querySelectorAll('input:not([type=file]), textarea, select')].map((one) => one.type === 'checkbox' ? one.checked : one.value),
  ...[...form.querySelectorAll('[id$=-arms-list]')].map((one) => one.textContent),
].join('\n');
const shown = () => form.closest('[role=tabpanel]')?.querySelector('[data-result]')?.dataset.result ?? '';
let before = '', shownBefore = '';
setInterval(() => {
  if (!form.offsetParent) return;  // of an empty number nothing is shown
  const now = written(), run = shown();
  const isEdited = before && now !== before, isOther = run !== shownBefore;
  [before, shownBefore] = [now, run];
  for (const name of isEdited ? ['edit', 'submit', 'expand'] : isOther ? ['expand'] : []) trigger(name, {});
}, 300);
