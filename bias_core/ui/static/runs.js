// A run opens or is watched (expand), runs again (submit), or is stopped, kept and deleted (select).
const events = {open: 'expand', watch: 'expand', again: 'submit'};
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-act]');
  if (node) trigger(events[node.dataset.act] || 'select', {act: node.dataset.act, run: node.dataset.run});
});
