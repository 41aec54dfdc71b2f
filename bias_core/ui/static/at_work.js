// The answer to the question about the run at work.
element.addEventListener('click', ({target}) => {
  if (target.closest('[data-replace]')) trigger('select', {replace: true});
  if (target.closest('[data-leave]')) element.querySelector('.at-work')?.remove();
});
