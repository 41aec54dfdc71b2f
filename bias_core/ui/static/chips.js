// A preset that is pressed is chosen (select), an example shown (submit).
element.addEventListener('click', ({target}) => {
  const chip = target.closest('[data-chip]'), example = target.closest('[data-example]');
  if (chip) trigger('select', {chip: chip.dataset.chip});
  if (example) trigger('submit', {example: example.dataset.example});
});
