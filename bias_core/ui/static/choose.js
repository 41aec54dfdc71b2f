// A button that is pressed says its data: {take: "table:findings:csv"}, {image: …}, {object: …}, {step: …}, {study: …}.
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-take], [data-image], [data-object], [data-step], [data-study]');
  const choice = node?.closest('.choice')?.querySelector('select');
  if (node) trigger('select', {...node.dataset, ...(choice && {choice: choice.value})});
});
