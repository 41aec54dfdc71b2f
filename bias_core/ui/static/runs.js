// A run opens or is watched (expand), runs again (submit), or is stopped, kept, shared, described and deleted (select).
const runOf = (node) => node.closest('[data-run]').dataset.run;
const events = {open: 'expand', watch: 'expand', again: 'submit'};
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-act]');
  if (node) trigger(events[node.dataset.act] || 'select', {act: node.dataset.act, run: runOf(node)});
});
element.addEventListener('change', ({target}) => {
  const {field} = target.dataset;
  if (field) trigger('select', {act: field, run: runOf(target), text: target.value});
});
element.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && event.target.dataset.field === 'name') event.target.blur();
});
// While a run is at work or waits, the list is read anew; not while a name or note is typed.
setInterval(() => {
  const isBusy = element.offsetParent && element.querySelector('[data-act=watch]');
  if (isBusy && !element.contains(document.activeElement)) trigger('edit', {});
}, 2000);

// The filter works here, on every word of a line; it stays when the list is made anew, which may keep the box and show
// every line again. It writes only what differs, because it watches its own list.
let wanted = '';
const words = (line) => [line.textContent, ...[...line.querySelectorAll('[data-field]')]
  .flatMap((field) => [field.value, field.placeholder])].join(' ').toLowerCase();
const filter = () => {
  const box = element.querySelector('#lab-filter');
  if (!box) return;
  if (box.value !== wanted) box.value = wanted;
  const parts = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const lines = [...element.querySelectorAll('.lab-book > li')];
  const shown = lines.filter((line) => {
    const text = parts.length ? words(line) : '';
    const hidden = !parts.every((part) => text.includes(part));
    if (line.hidden !== hidden) line.hidden = hidden;
    return !hidden;
  });
  const count = parts.length ? `${shown.length} of ${lines.length} runs` : '', place = box.nextElementSibling;
  if (place.textContent !== count) place.textContent = count;
};
element.addEventListener('input', ({target}) => {
  if (target.id !== 'lab-filter') return;
  wanted = target.value;
  filter();
});
new MutationObserver(() => { if (wanted) filter(); })
  .observe(element, {childList: true, subtree: true, attributes: true, attributeFilter: ['hidden']});
