// Where the slider stands is kept from seed to seed; an update of the page draws it anew.
let cut = '50';
const sync = () => element.querySelectorAll('input[type=range]').forEach((range) => {
  if (range.value !== cut) range.value = cut;
});
element.addEventListener('input', (event) => {
  if (!event.target.matches('input[type=range]')) return;
  cut = event.target.value;
  element.style.setProperty('--cut', cut + '%');
});
new MutationObserver(sync).observe(element, {childList: true, subtree: true});
