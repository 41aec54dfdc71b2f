// What is pressed in this tab to be taken along: {take: "table:findings:csv"}.
element.closest('[role=tabpanel]').addEventListener('click', (event) => {
  const node = event.target.closest('[data-take]');
  if (node) trigger('select', {take: node.dataset.take});
});
