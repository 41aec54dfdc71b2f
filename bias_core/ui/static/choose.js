// A button that is pressed says its data: {take: "table:findings:csv"}, {image: …}, {object: …}, {step: …}, {study: …}.
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-take], [data-image], [data-object], [data-step], [data-study]');
  const choice = node?.closest('.choice')?.querySelector('select');
  // Of a chart of concepts, ticked ones alone get more pictures.
  const ticked = node?.dataset.step ? [...element.closest('[role=tabpanel]').querySelectorAll('.concepts-chart [name=more]:checked')] : [];
  const cells = [...new Set(ticked.map((one) => one.value))];
  if (node) trigger('select', {...node.dataset, ...(choice && {choice: choice.value}), ...(cells.length && {cells})});
});
