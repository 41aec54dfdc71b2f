// What is in the fields goes to the server as the text of one hidden field.
const write = () => {
  const text = document.querySelector(`#${key}-values :is(textarea, input)`), values = {};
  for (const field of element.querySelectorAll('[name]')) values[field.name] = field.type === 'checkbox' ? field.checked : field.value;
  text.value = JSON.stringify(values);
  text.dispatchEvent(new Event('input', {bubbles: true}));
};
element.addEventListener('input', write);
element.addEventListener('click', ({target}) => {
  if (!target.closest('[data-dice]')) return;
  element.querySelector('[name=seed]').value = Math.floor(Math.random() * 2 ** 31);
  write();
});
