// Gradio names every thumbnail "Thumbnail 1 of 16" and every upload field otherwise than it reads; a screen
// reader should hear what is seen. A browser may forbid storage; the note then comes again.
const rename = (button, text) => {
  if (text && button.getAttribute('aria-label') !== text) button.setAttribute('aria-label', text);
};
const name = () => {
  document.querySelectorAll('.grid .thumbnail-item:not([data-image])').forEach((button) =>
    rename(button, button.querySelector('.caption-label')?.textContent.trim()));
  document.querySelectorAll('button.upload-container').forEach((button) =>
    rename(button, button.innerText.replace(/\s+/g, ' ').trim()));
};
let due = 0;
const soon = () => { due ||= requestAnimationFrame(() => { due = 0; name(); }); };
new MutationObserver(soon).observe(document.body, {childList: true, subtree: true, attributes: true,
  attributeFilter: ['aria-label']});

// A tab is opened in its group, whose own tabs are made when it is first shown.
window.tabGroups = groups;
const tabOf = (id) => document.querySelector(`#tabs [role=tab][data-tab-id="${CSS.escape(id)}"]`);
window.openTab = async (key) => {
  const group = groups[key];
  tabOf(group)?.click();
  if (group === key) return;
  for (let i = 0; i < 100 && !tabOf(key); i++) await new Promise((done) => setTimeout(done, 20));
  tabOf(key)?.click();
};
window.openKey = () => [...document.querySelectorAll('#tabs [role=tab][aria-selected=true]')]
  .filter((tab) => tab.offsetParent).at(-1)?.dataset.tabId;

// After a press the run is brought into view, and its result when it is there, unless that can be seen already.
addEventListener('click', ({isTrusted}) => { window.isUsed ||= isTrusted; }, true);
window.showRun = (id) => {
  const node = document.getElementById(id);
  if (!node?.offsetParent) return;
  const top = node.getBoundingClientRect().top;
  const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
  if (top >= 0 && top <= 0.12 * innerHeight) return;
  node.scrollIntoView({behavior, block: 'start'});
  addEventListener('scrollend', () => {  // a line above that went meanwhile would leave its headline cut off
    const cut = node.getBoundingClientRect().top;
    if (cut < 0 && cut > -100) node.scrollIntoView();
  }, {once: true});
};

// Gradio tells of keys, and of what is pasted only once the field is left: the field says so at once.
document.addEventListener('paste', ({target}) => {
  if (target.matches?.('input, textarea')) setTimeout(() => target.dispatchEvent(new FocusEvent('blur')), 50);
});

const tell = ({target}) => {
  const button = target.closest?.('button[id]');
  if (button && tips[button.id]) button.title = tips[button.id];
};
for (const kind of ['pointerover', 'focusin']) document.addEventListener(kind, tell);

// A menu's list scrolls, which makes it a stop of the Tab key; it closes as the focus comes, and the focus would be lost.
document.addEventListener('keydown', ({key, target}) => {
  if (key !== 'Tab' || target.getAttribute?.('role') !== 'combobox') return;
  document.querySelectorAll('[role=listbox], .option-list').forEach((list) => { list.tabIndex = -1; });
}, true);

// Gradio leaves a menu open whose field was left by Tab; it closes by Escape, also from elsewhere.
const closeMenus = (but) => document.querySelectorAll('[role=combobox][aria-expanded=true]').forEach((menu) => {
  if (menu !== but) menu.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
});
for (const kind of ['focusin', 'pointerup']) document.addEventListener(kind, () =>
  setTimeout(() => closeMenus(document.activeElement), 150));
document.addEventListener('keydown', ({key, target, isTrusted}) => {
  if (key === 'Escape' && isTrusted) closeMenus(target);
});

const note = element.querySelector('.content-note');
const remember = (value) => {
  try {
    if (value) localStorage.setItem('t2i-bias-note', value);
    return localStorage.getItem('t2i-bias-note');
  } catch { return value; }
};
note.hidden = remember() === 'read';
note.querySelector('button').addEventListener('click', () => {
  remember('read');
  note.hidden = true;
  document.querySelector('#tabs [role=tab][aria-selected=true]')?.focus();
});

document.addEventListener('click', (event) => {
  const link = event.target.closest('[data-go]');
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  window.wantedMeasure = link.dataset.measure;
  window.openTab(link.dataset.go);
  document.dispatchEvent(new CustomEvent('open-measure', {detail: link.dataset.measure}));
  if (link.dataset.unfold) setTimeout(() => {
    const fold = document.getElementById(link.dataset.unfold), button = fold?.querySelector('button');
    if (button && !button.classList.contains('open')) button.click();
    fold?.scrollIntoView({block: 'start'});
  }, 300);
});

// A restarted server does not know the menus and the result of an open page, so that its presses would fail.
const restarted = element.querySelector('.restarted');
restarted.querySelector('button').addEventListener('click', () => location.reload());
let looked = Date.now();
const look = async () => {
  if (document.hidden || !restarted.hidden || Date.now() - looked < 5000) return;
  looked = Date.now();
  try {
    const answer = await fetch('gradio_api/app_id', {cache: 'no-store'});
    restarted.hidden = !answer.ok || (await answer.json()).app_id === window.gradio_config.app_id;
  } catch { /* the server cannot be reached now */ }
};
for (const kind of ['pointerdown', 'keydown', 'visibilitychange']) document.addEventListener(kind, look, true);
setInterval(look, 30_000);

// A button of an error does what the error advises: it presses another button, or focuses a field.
document.addEventListener('click', ({target}) => {
  const id = target.closest?.('[data-press]')?.dataset.press, node = id && document.getElementById(id);
  if (node?.matches('button')) node.click();
  else node?.querySelector('input, textarea')?.focus();
});

// What was pressed last, by which runs begin: a button, or Enter in a field.
let pressed;
const isOfQuestion = (node) => node?.closest('.at-work');
document.addEventListener('click', ({target}) => {
  const button = target.closest?.('button');
  if (button && !isOfQuestion(button)) pressed = () => button.click();
}, true);
document.addEventListener('keypress', ({key, target}) => {
  if (key === 'Enter' && target.matches('input, textarea'))
    pressed = () => target.dispatchEvent(new KeyboardEvent('keypress', {key, bubbles: true}));
}, true);
window.pressAgain = () => pressed?.();

// Forms in which somebody was: a saved run does not fill them in.
window.usedForms = new Set();
document.addEventListener('focusin', ({target}) => {
  if (target.matches?.('.ask :is(input, textarea, select)')) window.usedForms.add(window.openKey());
});

// The address names the tab that was chosen, so that Back and Forward go through the tabs; the settings of a link go when
// its tab is left. Gradio also says "chosen" of the tab that a page opens with: nothing is done before the link is read.
window.nameTab = () => setTimeout(() => {
  const address = new URL(location.href), key = window.openKey();
  const tab = key && tabOf(key), strip = tab?.closest('.tab-wrapper');  // it scrolls sideways on a phone
  if (strip) strip.scrollLeft = Math.max(0, tab.offsetLeft - 40);
  if (!window.linkIsRead || !(key in groups) || (address.searchParams.get('tab') || 'explore') === key) return;
  for (const name of [...address.searchParams.keys()])
    if (linkNames.includes(name) || name.startsWith(optionPrefix)) address.searchParams.delete(name);
  address.searchParams.set('tab', key);
  history.pushState(history.state, '', address);
}, 50);
addEventListener('popstate', () => window.openTab(new URL(location.href).searchParams.get('tab') || 'explore'));

// The skip link leads to the result of the open tab, or to the tab where it has none yet.
element.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  const results = '#header, [id$="-header"], #calibration-verdicts, #measures, #runs-list';
  const result = [...document.querySelectorAll(results)].find((one) => one.offsetParent);
  const place = result || tabOf(window.openKey());
  if (result) result.tabIndex = -1;
  place.scrollIntoView();
  place.focus({preventScroll: true});
});
