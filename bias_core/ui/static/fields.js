// What is in the fields goes to the server as the text of one hidden field. Gradio keeps a field, with what was typed in
// it, while it puts another form in, so the fields follow that text whenever it changes.
const text = () => document.querySelector(`#${key}-values :is(textarea, input)`);
const fields = () => element.querySelectorAll('[name]');
let last = '';
const write = () => {
  const values = [...fields()].map((field) => [field.name, field.type === 'checkbox' ? field.checked : field.value]);
  text().value = last = JSON.stringify(Object.fromEntries(values));
  text().dispatchEvent(new Event('input', {bubbles: true}));
};
const show = (values) => {
  for (const field of fields()) {
    if (!(field.name in values)) continue;
    if (field.type === 'checkbox') field.checked = values[field.name];
    else field.value = values[field.name] ?? '';
  }
};
setInterval(() => {
  const now = text()?.value;
  if (!now || now === last) return;
  last = now;
  show(JSON.parse(now));
}, 200);
watch('value', () => { last = ''; });
element.addEventListener('input', write);
element.addEventListener('click', ({target}) => {
  if (!target.closest('[data-dice]')) return;
  element.querySelector('[name=seed]').value = Math.floor(Math.random() * 2 ** 31);
  write();
});
