// A result says so where the form asks for something else than it was made with: its own fields are compared with those
// of the form, at each look, because menus change without an event. An untouched form need not ask for the example.
const untouched = new Map();
setInterval(() => {
  if (!element.offsetParent) return;
  const fields = element.closest('[role=tabpanel]')?.querySelectorAll('.ask :is(input, textarea)') || [];
  if (!untouched.size) fields.forEach((field) => untouched.set(field, field.value.trim()));
  const mark = element.querySelector('.old-result');
  if (!mark) return;
  const differs = ([id, value]) => {
    const field = document.querySelector(`#${id} :is(input, textarea)`);
    const shown = field?.value.trim();  // a menu may add a description: "fair: no planted bias"
    if (mark.hasAttribute('data-example') && shown === untouched.get(field)) return false;
    return field && shown !== value && shown.split(':')[0] !== value;
  };
  mark.hidden = !Object.entries(JSON.parse(mark.dataset.form)).some(differs);
}, 400);
