() => {  // the picture that was opened
  const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
  setTimeout(() => [...document.querySelectorAll('article.picture')].find((one) => one.offsetParent)
    ?.scrollIntoView({behavior, block: 'nearest'}), 60);
}
