// A message that names a part of the page brings it into view, but not on a page that was only just opened.
// An error that quotes the name of a field marks it until it is changed.
watch('value', () => {
  const form = element.closest('[role=tabpanel]').querySelector('.ask');
  for (const field of form.querySelectorAll('[aria-invalid]')) field.removeAttribute('aria-invalid');
  const [, name] = element.querySelector('.error')?.textContent.match(/“([^”]+)” must/) || [];
  const label = name && [...form.querySelectorAll('label')].find((one) => one.textContent.trim().startsWith(name));
  const field = label?.querySelector('input, select, textarea');
  field?.setAttribute('aria-invalid', 'true');
  field?.addEventListener('input', () => field.removeAttribute('aria-invalid'), {once: true});
  const view = element.querySelector('[data-view]')?.dataset.view;
  if (view && window.isUsed) setTimeout(() => window.showRun(view), 80);
});
