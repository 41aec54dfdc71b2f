// A picture fails as a whole, so the label of the other person follows; the server does the same. The page
// renews attributes only, and a menu that was used no longer heeds them: so it is set by hand.
const menus = (node) => [...node.querySelectorAll('select[data-image]')];
const choose = (menu, answer) => {
  for (const option of menu.options) option.toggleAttribute('selected', option.value === answer);
};
element.addEventListener('change', (event) => {
  const menu = event.target.closest('select[data-image]');
  if (!menu) return;
  const failed = 'not_two_people', sheet = menu.closest('figure'), answer = menu.value;
  for (const other of menus(sheet)) {
    if (other === menu || answer === failed) choose(other, answer);
    else if (other.value === failed) choose(other, 'cannot_identify');
  }
  sheet.classList.add('by-hand');
  trigger('select', {image: menu.dataset.image, position: menu.dataset.position, answer});
});
new MutationObserver(() => {
  for (const menu of menus(element)) {
    const chosen = menu.querySelector('option[selected]');
    if (chosen && menu.value !== chosen.value) menu.value = chosen.value;
  }
}).observe(element, {subtree: true, childList: true, attributes: true,
  attributeFilter: ['selected', 'data-version']});
