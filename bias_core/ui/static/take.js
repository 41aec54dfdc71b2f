// What is pressed in this tab, or in a result within it, to be taken along: {take: "table:findings:csv"}.
element.closest('.result, [role=tabpanel]').addEventListener('click', (event) => {
  const node = event.target.closest('[data-take]');
  if (node) trigger('select', {take: node.dataset.take});
});
