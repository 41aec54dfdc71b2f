// The page filters by itself: nothing is asked of the server. A card is opened by its key.
const search = element.querySelector('input'), paper = element.querySelector('select');
const filter = () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  element.querySelectorAll('.paper').forEach((group) => {
    let here = 0;
    group.querySelectorAll('.measure').forEach((card) => {
      const fits = (!paper.value || paper.value === card.dataset.paper)
        && words.every((word) => card.dataset.text.includes(word) || card.textContent.toLowerCase().includes(word));
      card.hidden = !fits;
      here += fits;
    });
    group.hidden = !here;
    n += here;
  });
  const text = n ? `${n} ${n === 1 ? 'measure' : 'measures'}` : 'No measure contains all these words.';
  element.querySelector('[role=status]').textContent = text;
};
search.addEventListener('input', filter);
paper.addEventListener('change', filter);
element.querySelectorAll('button[data-go]').forEach((button) => {
  button.hidden = !(button.dataset.go in window.tabGroups);
});
const open = (key) => {
  const card = key && element.querySelector(`#measure-${CSS.escape(key)}`);
  if (!card) return;
  search.value = paper.value = '';
  filter();
  card.querySelector('details').open = true;
  card.scrollIntoView({block: 'start'});
  card.focus({preventScroll: true});
};
document.addEventListener('open-measure', (event) => open(event.detail));
setTimeout(() => open(window.wantedMeasure || new URLSearchParams(location.search).get('measure')), 60);
