// A name of a plot, its dot, its row, or a number shows the pictures that make it up (submit).
const show = (node) => {
  trigger('submit', {pictures: node.dataset.pictures});
  const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
  const grid = document.querySelector(`#${key}-pictures`), box = grid?.getBoundingClientRect();
  if (box && (box.top < 0 || box.top > innerHeight - 160)) grid.scrollIntoView({behavior, block: 'start'});
};
const middle = (node) => { const box = node.getBoundingClientRect(); return (box.top + box.bottom) / 2; };
element.addEventListener('click', (event) => {
  const named = event.target.closest('[data-pictures]'), plot = event.target.closest('svg.plot');
  if (named) { show(named); return; }
  const names = plot ? [...plot.querySelectorAll('[data-pictures]')] : [];
  const near = names.filter((one) => Math.abs(middle(one) - event.clientY) < 14);
  if (new Set(near.map((one) => one.dataset.pictures)).size === 1) show(near[0]);  // a name may have two lines
});
element.addEventListener('keydown', (event) => {
  const named = event.target.closest(':is(svg, .lane) [data-pictures]');
  if (named && (event.key === 'Enter' || event.key === ' ')) { event.preventDefault(); show(named); }
});
// A chart of concepts shows one attribute, or the map of all; its rows stand in the chosen order.
element.addEventListener('click', ({target}) => {
  const chosen = target.closest('[data-show]'), chart = target.closest('.concepts-chart');
  if (!chosen) return;
  chart.querySelectorAll('[data-show]').forEach((one) => one.setAttribute('aria-pressed', one === chosen));
  chart.querySelectorAll('[data-part]').forEach((part) => { part.hidden = part.dataset.part !== chosen.dataset.show; });
});
const order = (chart) => {
  const by = chart.querySelector('[data-order]').value, sign = by === 'given' ? 1 : -1;
  const place = ({dataset}) => dataset[by] === '' ? Infinity : sign * dataset[by];  // without a rate: last
  chart.querySelectorAll('[data-part] > tbody').forEach((body) => body.append(
    ...[...body.children].sort((one, other) => place(one) - place(other) || one.dataset.given - other.dataset.given)));
};
element.addEventListener('change', ({target}) => {
  const chart = target.closest('.concepts-chart');
  if (target.matches('[data-order]')) order(chart);
  if (target.name !== 'more') return;
  const boxes = [...chart.querySelectorAll('[name=more]')];
  boxes.forEach((one) => { if (one.value === target.value) one.checked = target.checked; });
  const cells = [...new Set(boxes.filter((one) => one.checked).map((one) => one.value))];
  const width = element.closest('[role=tabpanel]').querySelector('[data-step=pictures] ~ label select')?.value ?? '';
  clearTimeout(chart.counting);
  chart.counting = setTimeout(() => trigger('select', {cells, width}), 200);  // the menu counts the pictures of these
});
const orderNew = () => element.querySelectorAll('.concepts-chart').forEach((chart) => {
  if (chart.orderedFor === chart.dataset.run) return;
  chart.orderedFor = chart.dataset.run;
  chart.querySelectorAll('[name=more]').forEach((one) => { one.checked = false; });  // they were those of other rows
  order(chart);
});
orderNew();
new MutationObserver(orderNew).observe(element, {childList: true, subtree: true, attributes: true, attributeFilter: ['data-run']});
