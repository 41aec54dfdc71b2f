// A picture opens (select), a cell shows all of its pictures (submit); arrow keys walk through the pictures. The size
// of the pictures is the same in all tabs, and this browser remembers it.
const KEPT = 't2i-bias-picture-size';
const resize = (size) => document.documentElement.style.setProperty('--picture', `${size}px`);
const sliders = () => { for (const one of element.querySelectorAll('.size input')) one.value = localStorage.getItem(KEPT) || one.value; };
if (localStorage.getItem(KEPT)) resize(localStorage.getItem(KEPT));
new MutationObserver(sliders).observe(element, {childList: true, subtree: true});
sliders();
element.addEventListener('input', ({target}) => {
  if (!target.matches('.size input')) return;
  localStorage.setItem(KEPT, target.value);
  resize(target.value);
});
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-image], [data-which]');
  if (!node) return;
  if ('which' in node.dataset) { trigger('submit', {which: node.dataset.which}); return; }
  element.querySelectorAll('.selected').forEach((one) => one.classList.remove('selected'));
  node.classList.add('selected');
  trigger('select', {image: node.dataset.image});
});
element.addEventListener('keydown', (event) => {
  const node = event.target.closest('.thumbnail-item');
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!node || !step) return;
  event.preventDefault();
  const all = [...element.querySelectorAll('button.thumbnail-item:not([disabled])')];
  all[(all.indexOf(node) + step + all.length) % all.length].focus();
});
