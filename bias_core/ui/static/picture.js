// The large picture: what a key opened has the focus, Close and Escape take it away and go back to its small one.
const small = () => element.closest('.pictures')?.querySelector('.thumbnail-item.selected');
new MutationObserver(() => {
  const article = element.querySelector('article');
  if (!article || !small()?.matches(':focus-visible')) return;
  article.tabIndex = -1;
  article.focus({preventScroll: true});
}).observe(element, {childList: true, subtree: true});
const close = () => { small()?.focus(); trigger('select', {}); };
element.addEventListener('click', (event) => { if (event.target.closest('.close')) close(); });
element.addEventListener('keydown', (event) => { if (event.key === 'Escape') close(); });
