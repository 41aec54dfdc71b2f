// After a failed run, a result says that it is an earlier one, and the error comes into view. Where a visitor's own
// pictures are chosen, a result of others is hidden until they are measured.
let seenError;
let run, measured;  // the run of this result, and the visitor's pictures when it came
setInterval(() => {
  if (!element.offsetParent) return;
  const panel = element.closest('[role=tabpanel]'), ofOthers = element.querySelector('[data-run]');
  const arrived = document.querySelector(`#${key}-found`)?.textContent ?? '';
  if (ofOthers && run !== ofOthers.dataset.run) [run, measured] = [ofOthers.dataset.run, arrived];
  const usesOwn = document.querySelector(`#${key}-source input:checked`)?.value === 'own';
  const isOfOthers = Boolean(ofOthers) && usesOwn && !('own' in ofOthers.dataset && measured === arrived);
  if (ofOthers) ofOthers.hidden = !isOfOthers;
  panel?.classList.toggle('shows-others', isOfOthers);
  const failed = element.querySelector('[data-failed]');
  const error = panel.querySelector('.error[data-of-run]');
  if (failed) failed.hidden = !error || isOfOthers;
  if (error && error !== seenError) error.scrollIntoView({block: 'nearest'});
  seenError = error;
}, 400);
// Share asks the server to show the result to everyone (submit); its link is copied at once.
element.addEventListener('click', ({target}) => { if (target.closest('[data-share]')) trigger('submit', {}); });
