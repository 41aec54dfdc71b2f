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
  markLoading();
}).observe(element, {childList: true, subtree: true, attributes: true, attributeFilter: ['src', 'class']});
// A finished picture is still marked as being drawn until it is loaded: it would be empty, or as it was before.
const markLoading = () => element.querySelectorAll('.drawing li:is(.finished, .blocked) img').forEach((image) => {
  const {classList} = image.closest('li');
  if (image.complete === !classList.contains('loading')) return;
  classList.toggle('loading', !image.complete);
  if (!image.complete) for (const kind of ['load', 'error']) image.addEventListener(kind, markLoading, {once: true});
});
