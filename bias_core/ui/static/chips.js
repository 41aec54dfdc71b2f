// A preset that is pressed is chosen (select), an example shown (submit). Where the buttons are still those of another
// tab than the open one, or the form is still held, the page has lost the answer, and asks again (edit).
const form = element.closest('.ask'), of = () => element.querySelector('[data-of]')?.dataset.of;
if (of() && !window.formIsFilled) window.holdForm(true);
let missed = 0;
setInterval(() => {
  missed = of() && element.offsetParent && (window.openKey() !== of() || form.inert) ? missed + 1 : 0;
  if (missed % 4 === 3) trigger('edit', {});
}, 1000);
element.addEventListener('click', ({target}) => {
  const chip = target.closest('[data-chip]'), example = target.closest('[data-example]');
  if (chip) trigger('select', {chip: chip.dataset.chip});
  if (example) trigger('submit', {example: example.dataset.example});
});
