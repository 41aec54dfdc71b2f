// The first pictures of a run that begins are brought into view, once: on a phone they would form below the form.
// No farther than that, so that Stop stays in view where there is room for both.
let isShown = false;
new MutationObserver(() => {
  const pictures = element.querySelector('.drawing ol');
  if (pictures && !isShown) {
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    pictures.scrollIntoView({behavior: calm ? 'auto' : 'smooth', block: 'nearest'});
  }
  isShown = Boolean(pictures);
}).observe(element, {childList: true, subtree: true});
