// A result says so where the form asks for something else than it was made with: its own fields are compared with those
// of the form, at each look, because menus change without an event. An untouched form need not ask for the example.
// Where a visitor's own pictures are chosen, a result of others is hidden until they are measured.
const untouched = new Map();
let run, measured;  // the run of this result, and the visitor's pictures when it came
setInterval(() => {
  if (!element.offsetParent) return;
  const fields = element.closest('[role=tabpanel]')?.querySelectorAll('.ask :is(input, textarea)') || [];
  if (!untouched.size) fields.forEach((field) => untouched.set(field, field.value.trim()));
  const mark = element.querySelector('[data-form]'), ofOthers = element.querySelector('[data-run]');
  const arrived = document.querySelector(`#${key}-found`)?.textContent ?? '';
  if (ofOthers && run !== ofOthers.dataset.run) [run, measured] = [ofOthers.dataset.run, arrived];
  const usesOwn = document.querySelector(`#${key}-source input:checked`)?.value === 'own';
  const isOfOthers = Boolean(ofOthers) && usesOwn && !('own' in ofOthers.dataset && measured === arrived);
  if (ofOthers) ofOthers.hidden = !isOfOthers;
  element.closest('[role=tabpanel]')?.classList.toggle('shows-others', isOfOthers);
  const failed = element.querySelector('[data-failed]');
  if (failed) failed.hidden = !element.closest('[role=tabpanel]').querySelector('.error[data-of-run]');
  if (!mark) return;
  const differs = ([id, value]) => {
    const field = document.querySelector(`#${id} :is(input, textarea)`);
    const shown = field?.value.trim();  // a menu may add a description: "fair: no planted bias"
    if (mark.hasAttribute('data-example') && shown === untouched.get(field)) return false;
    return field && shown !== value && shown.split(':')[0] !== value;
  };
  mark.hidden = usesOwn || !Object.entries(JSON.parse(mark.dataset.form)).some(differs);
}, 400);
// Share asks the server to show the result to everyone (submit); its link is copied at once.
element.addEventListener('click', ({target}) => { if (target.closest('[data-share]')) trigger('submit', {}); });
