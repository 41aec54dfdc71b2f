// A preset that is pressed is chosen (select), an example shown (submit). Where the buttons are still those of another
// tab than the open one, the page has lost the answer, and asks again (edit).
let missed = 0;
setInterval(() => {
  const of = element.querySelector('[data-of]')?.dataset.of;
  missed = of && element.offsetParent && window.openKey() !== of ? missed + 1 : 0;
  if (missed % 3 === 2) trigger('edit', {});
}, 1000);
element.addEventListener('click', ({target}) => {
  const chip = target.closest('[data-chip]'), example = target.closest('[data-example]');
  if (chip) trigger('select', {chip: chip.dataset.chip});
  if (example) trigger('submit', {example: example.dataset.example});
});
