// A text is chosen, to be drawn from.
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-text]');
  if (!node) return;
  element.querySelectorAll('[data-text]').forEach((one) => one.setAttribute('aria-pressed', one === node));
  trigger('submit', {cluster: node.dataset.cluster, text: node.dataset.text});
});
