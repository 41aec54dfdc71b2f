// A button with data-copy copies the address of the link with that id.
element.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]');
  if (!button) return;
  const link = element.querySelector('#' + button.dataset.copy);
  try {
    await navigator.clipboard.writeText(link.href);
    const isHere = /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
    button.textContent = isHere ? 'Copied: opens on this computer' : 'Link copied';
  } catch {  // without https there is no clipboard: it can be copied by hand
    link.hidden = false;
    link.textContent = link.href;
    getSelection().selectAllChildren(link);
  }
});
