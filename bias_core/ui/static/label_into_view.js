() => { setTimeout(() => {  // the task stands below the form: what is said of it is brought into view
  const status = document.querySelector('#label-status'), task = document.querySelector('#label-owned');
  (status?.textContent.trim() ? status : task)?.scrollIntoView();
}, 150); }
