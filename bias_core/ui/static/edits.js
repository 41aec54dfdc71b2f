// Says when what stands in the form around it is another than before, whoever changed it: one listener for the page to
// look up in place of one for each field.
const form = element.closest('.ask');
const written = () => [
  ...[...form.querySelectorAll('input:not([type=file]), textarea, select')].map((one) => one.type === 'checkbox' ? one.checked : one.value),
  ...[...form.querySelectorAll('[id$=-arms-list]')].map((one) => one.textContent),
].join('\n');
let before = '';
setInterval(() => {
  if (!form.offsetParent) return;  // of an empty number nothing is shown
  const now = written();
  if (before && now !== before) trigger('edit', {});
  before = now;
}, 300);
