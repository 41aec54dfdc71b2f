// The parts of a tab are made when it is first shown. On a busy machine the page may lose what is said at once: it is
// said again as long as the tab shows neither a result nor a run at work.
const shown = (name) => Boolean(document.querySelector(name)?.offsetParent);
const isEmpty = () => !shown(`#${key}-results`) && !shown(`#${key}-stop`);
for (const delay of [50, 1500, 4000, 9000]) setTimeout(() => { if (isEmpty()) trigger('select', {again: delay > 2000}); }, delay);
