// The large picture lies over the page. A picture of the grid gets the focus, and its arrow keys go on to the next one;
// one that was opened on the map leaves the focus there. Close, Escape and a press outside of it close it.
const small = () => element.closest('.pictures')?.querySelector('.thumbnail-item.selected');
const article = () => element.querySelector('.prose:not(.closed) article');
const isInGrid = () => document.activeElement === document.body || element.closest('.pictures')?.contains(document.activeElement);
const isOnMap = () => Boolean(document.activeElement.closest('svg.map'));
new MutationObserver(() => {
  if (!article() || isOnMap() || !isInGrid() || !small()) return;
  article().tabIndex = -1;
  article().focus({preventScroll: true});
}).observe(element, {childList: true, subtree: true, attributeFilter: ['class']});
const close = () => {  // from sight only: reveal.js shows it again where the same picture is opened next
  if (!isOnMap()) small()?.focus();
  element.querySelector('.close').closest('.prose').classList.add('closed');
};
const next = (step) => {
  const all = [...element.closest('.pictures').querySelectorAll('.thumbnail-item:not([disabled])')];
  const at = all.indexOf(small());
  if (all.length) all[(Math.max(at, step > 0 ? -1 : 0) + step + all.length) % all.length].click();
};
document.addEventListener('click', ({target}) => {
  if (!article()?.offsetParent || target.closest('[data-image], svg.map')) return;
  const by = target.closest('[data-by]')?.dataset.by;
  if (by) next(Number(by));
  else if (target.closest('.close') || !element.contains(target)) close();
});
document.addEventListener('keydown', (event) => {
  if (!article()?.offsetParent) return;
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (event.key === 'Escape') close();
  else if (step && element.contains(document.activeElement)) { event.preventDefault(); next(step); }
});
