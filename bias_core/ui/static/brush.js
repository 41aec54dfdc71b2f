// One listener on the component survives every redraw of its inside. Arrow keys walk through the map, so
// that hundreds of points are a single stop of the Tab key.
const value = (node, name, otherwise) => Number(node.dataset[name] ?? otherwise);
const choose = (node) => trigger('select', {
  group: value(node, 'group', -1), number: value(node, 'number', 0), numbers: '',
});
// A frame that is drawn over the map chooses the pictures in it; a press without a drag is a click.
const XMLNS = 'http://www.w3.org/2000/svg';
let frame = null, dragged = false;
const at = (map, event) => {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  return [point.x, point.y];
};
const inside = ({from, to}, point) => {
  const {e, f} = point.transform.baseVal.consolidate().matrix;
  const within = (value, i) => value >= Math.min(from[i], to[i]) && value <= Math.max(from[i], to[i]);
  return within(e, 0) && within(f, 1);
};
element.addEventListener('pointerdown', (event) => {
  const map = event.target.closest('svg.map');
  dragged = false;
  if (!map || event.button) return;
  event.preventDefault();
  const from = at(map, event);
  frame = {map, from, to: from, box: null};
});
addEventListener('pointermove', (event) => {
  if (!frame) return;
  if (!frame.map.isConnected) { frame = null; return; }
  frame.to = at(frame.map, event);
  const size = [0, 1].map((i) => Math.abs(frame.to[i] - frame.from[i]));
  if (!frame.box && Math.max(...size) < 6) return;
  frame.box ||= frame.map.appendChild(document.createElementNS(XMLNS, 'rect'));
  const low = [0, 1].map((i) => Math.min(frame.to[i], frame.from[i]));
  const facts = {class: 'brush', x: low[0], y: low[1], width: size[0], height: size[1]};
  for (const [name, value] of Object.entries(facts)) frame.box.setAttribute(name, value);
  frame.map.querySelectorAll('.point').forEach((one) => one.classList.toggle('dim', !inside(frame, one)));
});
addEventListener('pointerup', () => {
  const drawn = frame;
  frame = null;
  if (!drawn?.box) return;
  dragged = true;
  drawn.box.remove();
  const chosen = [...drawn.map.querySelectorAll('.point')].filter((one) => inside(drawn, one));
  trigger('select', {group: -1, number: 0, numbers: chosen.map((one) => one.dataset.number).join(',')});
});
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-number], [data-group]');
  if (node && !dragged) choose(node);
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
