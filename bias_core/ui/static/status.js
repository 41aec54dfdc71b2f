// A message that names a part of the page brings it into view, but not on a page that was only just opened.
watch('value', () => {
  const view = element.querySelector('[data-view]')?.dataset.view;
  if (view && window.isUsed) setTimeout(() => window.showRun(view), 80);
});
