// A result says so where the form asks for something else than it was made with: its own fields are compared with those
// of the form, at each look, because menus change without an event. The form need not ask for an example at first: its
// field is compared with what it was then, too.
const first = new WeakMap();
setInterval(() => {
  const mark = element.querySelector('.old-result');
  if (!mark || !element.offsetParent) return;
  const differs = ([id, value]) => {
    const field = document.querySelector(`#${id} :is(input, textarea)`);
    const shown = field?.value.trim();  // a menu may add a description: "fair: no planted bias"
    if (mark.hasAttribute('data-example') && !first.has(mark)) first.set(mark, shown);
    return field && shown !== first.get(mark) && shown !== value && shown.split(':')[0] !== value;
  };
  mark.hidden = !Object.entries(JSON.parse(mark.dataset.form)).some(differs);
}, 400);
