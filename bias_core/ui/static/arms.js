element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-remove]');
  if (node) trigger('select', {remove: node.dataset.remove});
});
