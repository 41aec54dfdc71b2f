// What was asked for goes to the server as "kind:key:form".
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-take]');
  if (node) trigger('select', {take: node.dataset.take});
});
