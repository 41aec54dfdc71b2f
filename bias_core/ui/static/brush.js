// One listener on the component survives every redraw of its inside. Arrow keys walk through the map, so
// that hundreds of points are a single stop of the Tab key.
const value = (node, name, otherwise) => Number(node.dataset[name] ?? otherwise);
const choose = (node) => trigger('select', {
  group: value(node, 'group', -1), number: value(node, 'number', 0), numbers: '',
});
// What had the focus has it again once its component was drawn anew.
let last = '';
element.addEventListener('focusin', ({target}) => {
  const {number, group} = target.dataset;
  last = number ? `[data-number="${number}"]` : group ? `button[data-group="${group}"]` : '';
});
new MutationObserver(() => {
  if (last && document.activeElement === document.body) element.querySelector(last)?.focus({preventScroll: true});
}).observe(element, {childList: true, subtree: true});
element.addEventListener('focusout', ({target, relatedTarget}) => { if (target.isConnected && relatedTarget) last = ''; });
// A frame that is drawn over the map, or grows around a picture with Shift and the arrow keys, chooses the pictures
// in it; a press without a drag is a click.
const XMLNS = 'http://www.w3.org/2000/svg';
let frame = null, dragged = false;
const at = (map, event) => {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
  return [point.x, point.y];
};
const place = (point) => {
  const {e, f} = point.transform.baseVal.consolidate().matrix;
  return [e, f];
};
const inside = ({from, to}, point) => {
  const [e, f] = place(point);
  const within = (value, i) => value >= Math.min(from[i], to[i]) && value <= Math.max(from[i], to[i]);
  return within(e, 0) && within(f, 1);
};
element.addEventListener('pointerdown', (event) => {
  const map = event.target.closest('svg.map');
  dragged = false;
  if (!map || event.button) return;
  event.preventDefault();
  drop();
  const from = at(map, event);
  frame = {map, from, to: from, box: null};
});
const draw = () => {
  const size = [0, 1].map((i) => Math.abs(frame.to[i] - frame.from[i]));
  if (!frame.box && Math.max(...size) < 6) return;
  frame.box ||= frame.map.appendChild(document.createElementNS(XMLNS, 'rect'));
  const low = [0, 1].map((i) => Math.min(frame.to[i], frame.from[i]));
  const facts = {class: 'brush', x: low[0], y: low[1], width: size[0], height: size[1]};
  for (const [name, value] of Object.entries(facts)) frame.box.setAttribute(name, value);
  frame.map.querySelectorAll('.point').forEach((one) => one.classList.toggle('dim', !inside(frame, one)));
};
addEventListener('pointermove', (event) => {
  if (!frame || frame.around) return;
  if (!frame.map.isConnected) { frame = null; return; }
  frame.to = at(frame.map, event);
  draw();
});
const drop = () => {
  frame?.box?.remove();
  frame?.dim?.forEach((was, one) => one.classList.toggle('dim', was));
  frame = null;
};
const grow = (node, step) => {
  if (frame?.around !== node) {
    drop();
    const map = node.ownerSVGElement, points = [...map.querySelectorAll('.point')];
    const dim = new Map(points.map((one) => [one, one.classList.contains('dim')]));
    frame = {map, around: node, reach: 0, box: null, dim};
  }
  frame.reach = Math.max(10, frame.reach + 40 * step);
  frame.from = place(node).map((value) => value - frame.reach);
  frame.to = place(node).map((value) => value + frame.reach);
  draw();
};
const take = () => {
  const drawn = frame;
  frame = null;
  if (!drawn?.box) return;
  drawn.box.remove();
  const chosen = [...drawn.map.querySelectorAll('.point')].filter((one) => inside(drawn, one));
  trigger('select', {group: -1, number: 0, numbers: chosen.map((one) => one.dataset.number).join(',')});
};
addEventListener('pointerup', () => {
  if (frame?.around) return;
  dragged = Boolean(frame?.box);
  take();
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
  if (step && event.shiftKey) { event.preventDefault(); grow(node, step); return; }
  if (step || event.key === 'Escape') drop();
  if (step) {
    event.preventDefault();
    points[(points.indexOf(node) + step + points.length) % points.length].focus();
  }
  if (event.key === 'Enter' || event.key === ' ') {
    event.preventDefault();
    if (frame?.around === node && frame.box) take(); else choose(node);
  }
});
