// A link from a result shows the verdicts on its measure alone. They come when the tab is opened.
const show = (key) => {
  const rows = [...element.querySelectorAll('tr[data-measure]')];
  const found = rows.filter((row) => row.dataset.measure === key);
  rows.forEach((row) => { row.hidden = found.length > 0 && row.dataset.measure !== key; });
  element.querySelectorAll('section').forEach((part) => { part.hidden = !part.querySelector('tr[data-measure]:not([hidden])'); });
  const note = element.querySelector('.one-measure');
  if (!note) return;
  note.hidden = !found.length;
  if (!found.length) return;
  found[0].closest('details').open = true;
  note.scrollIntoView({block: 'start'});
};
element.addEventListener('click', (event) => { if (event.target.closest('.one-measure button')) show(''); });
document.addEventListener('open-measure', (event) => { if (event.detail) show(event.detail); });
setTimeout(() => show(window.wantedMeasure || ''), 60);
