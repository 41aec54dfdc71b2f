// One listener on the component survives every redraw of its inside. Arrow keys walk through the map, so
// that hundreds of points are a single stop of the Tab key.
const value = (node, name, otherwise) => Number(node.dataset[name] ?? otherwise);
const choose = (node) => trigger('select', {
  group: value(node, 'group', -1), number: value(node, 'number', 0),
});
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-number], [data-group]');
  if (node) choose(node);
});
element.addEventListener('keydown', (event) => {
  const node = event.target.closest('.point');
  if (!node) return;
  const points = [...element.querySelectorAll('.point')];
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (step) {
    event.preventDefault();
    points[(points.indexOf(node) + step + points.length) % points.length].focus();
  }
  if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(node); }
});
