// The parts of a tab are made when it is first shown. On a busy machine the page may lose what is said at once: it is
// said again as long as the tab is open and shows neither a result nor a run at work.
const isShown = (part) => Boolean(part?.offsetParent);
const isEmpty = () => isShown(element.closest('[role=tabpanel]'))
  && ![`#${key}-results`, `#${key}-stop`].some((name) => isShown(document.querySelector(name)));
for (const delay of [50, 1500, 4000, 9000]) setTimeout(() => { if (isEmpty()) trigger('select', {again: delay > 2000}); }, delay);
