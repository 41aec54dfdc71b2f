() => {  // the picture that was opened, which may have been closed before
  for (const closed of document.querySelectorAll('.closed'))
    if (closed.closest('.pictures')?.offsetParent) closed.classList.remove('closed');
  const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
  setTimeout(() => [...document.querySelectorAll('article.picture')].find((one) => one.offsetParent)
    ?.scrollIntoView({behavior, block: 'nearest'}), 60);
}
