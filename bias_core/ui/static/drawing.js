// A run that begins is brought into view, once: on a phone its pictures would form below the form.
let isShown = false;
new MutationObserver(() => {
  const shows = Boolean(element.querySelector('.drawing'));
  if (shows && !isShown) {
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    element.scrollIntoView({behavior: calm ? 'auto' : 'smooth', block: 'nearest'});
  }
  isShown = shows;
}).observe(element, {childList: true, subtree: true});
