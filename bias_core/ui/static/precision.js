// The width that so many pictures give every share; another width fills the field of their number.
const number = () => document.querySelector(`#${field} input`);
const select = () => element.querySelector('select');
select().addEventListener('change', () => {
  number().value = select().value;
  number().dispatchEvent(new Event('input', {bubbles: true}));
});
setInterval(() => {  // an answer of the server changes the field without an event
  if (!number() || document.activeElement === select()) return;
  select().selectedIndex = [...select().options].findLastIndex(({value}) => Number(value) <= Number(number().value));
}, 300);
