// The form of one more arm: what is written in it goes to the server at once, and once the list has the arm it is empty.
const fields = [...element.querySelectorAll('[name]')];
const menu = element.querySelector('datalist[id$=-condition-menu]');
let isAdded = false;
element.querySelector('button').addEventListener('click', () => {
  isAdded = true;
  trigger('submit', {arm: Object.fromEntries(fields.map((one) => [one.name, one.value]))});
});
element.querySelector('[name=model]').addEventListener('change', ({target}) => {
  const own = conditions[target.value] ?? (target.value ? {} : conditions['']);
  const choices = Object.entries(own).map(([value, label]) => Object.assign(document.createElement('option'), {value, label}));
  menu.replaceChildren(...choices);
  trigger('select', {name: target.value});
});
new MutationObserver(() => {
  if (isAdded) for (const one of fields) one.value = '';
  isAdded = false;
}).observe(document.getElementById(list), {childList: true, subtree: true, characterData: true});
