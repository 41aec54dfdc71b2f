// The parts of a tab are made when it is first shown. On a busy machine the page may lose what is said at once: it is
// said again as long as the tab is open and shows neither a result nor a run at work.
const panel = element.closest('[role=tabpanel]');
const isEmpty = () => panel?.offsetParent
  && ![...panel.querySelectorAll('[id$="results"], [id$="stop"]')].some((part) => part.offsetParent);
for (const delay of delays) setTimeout(() => { if (isEmpty()) trigger('select', {again: delay > 2000}); }, delay);
