() => {  // the picture that was opened, which may have been closed before
  for (const closed of document.querySelectorAll('.closed'))
    if (closed.closest('.pictures')?.offsetParent) closed.classList.remove('closed');
}
