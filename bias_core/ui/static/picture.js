// The large picture: what a key opened has the focus, Close and Escape take it away and go back to its small one.
const small = () => element.closest('.pictures')?.querySelector('.thumbnail-item.selected');
new MutationObserver(() => {
  const article = element.querySelector('article');
  if (!article || article.closest('.closed') || !small()?.matches(':focus-visible')) return;
  article.tabIndex = -1;
  article.focus({preventScroll: true});
}).observe(element, {childList: true, subtree: true, attributeFilter: ['class']});
const close = () => {  // from sight only: reveal.js shows it again where the same picture is opened next
  small()?.focus();
  element.querySelector('.close').parentElement.classList.add('closed');
};
element.addEventListener('click', (event) => { if (event.target.closest('.close')) close(); });
element.addEventListener('keydown', (event) => { if (event.key === 'Escape') close(); });
