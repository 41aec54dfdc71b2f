// The options of a study are plain fields; what is in them goes to the server as the text of one hidden field.
element.addEventListener('input', () => {
  const values = document.querySelector('#paper-option-values :is(textarea, input)'), typed = {};
  for (const field of element.querySelectorAll('[name]')) typed[field.name] = field.type === 'checkbox' ? field.checked : field.value;
  values.value = JSON.stringify(typed);
  values.dispatchEvent(new Event('input', {bubbles: true}));
});
