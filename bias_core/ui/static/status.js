// A message that names a part of the page brings it into view, but not on a page that was only just opened.
// An error marks the field that it is about, or whose name it quotes, and goes once that field changes; one that is about
// no field goes with any change of the form.
// Once Stop is pressed, progress of this run that was on its way does not take “Stopping” away again.
let of, stopping = '', run, stoppedRun;
const form = () => element.closest('[role=tabpanel]').querySelector('.ask');
const forget = () => {
  for (const field of form().querySelectorAll('[aria-invalid]')) field.removeAttribute('aria-invalid');
  of = undefined;
};
watch('value', () => {
  const isStopping = element.textContent.includes('Stopping'), bar = element.querySelector('.bar');
  run = bar?.dataset.run ?? run;
  if (stopping && !isStopping && bar && run === stoppedRun) {
    props.value = stopping;
    return;
  }
  [stopping, stoppedRun] = isStopping ? [props.value, run] : ['', undefined];
  forget();
  const error = element.querySelector('.error');
  const [, name] = error?.textContent.match(/“([^”]+)” must/) || [];
  const label = name && [...form().querySelectorAll('label')].find((one) => one.textContent.trim().startsWith(name));
  const block = error?.dataset.field ? document.getElementById(error.dataset.field) : label;
  block?.querySelector('input, select, textarea')?.setAttribute('aria-invalid', 'true');
  of = error && (block?.closest('.block') || block || form());
  const view = element.querySelector('[data-view]')?.dataset.view;
  if (view && window.isUsed) setTimeout(() => window.showRun(view), 80);
});
for (const kind of ['input', 'change', 'mousedown']) document.addEventListener(kind, ({target}) => {
  if (!of?.contains(target) || (kind === 'mousedown' && !target.closest('[role=option]'))) return;
  element.querySelector('.error')?.remove();
  forget();
}, true);
