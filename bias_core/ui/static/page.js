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
  showTab();
  nameResult();
  holdPaper();
};
let isDue = false;
const nameOnce = () => { if (isDue) { isDue = false; name(); } };
const soon = () => {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(nameOnce);
  setTimeout(nameOnce, 500);  // a page that is not drawn, as on a busy machine, has no frames
};
new MutationObserver(() => { soon(); isHere(); }).observe(document.body, {childList: true, subtree: true, attributes: true,
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
// On a phone a row of tabs scrolls sideways: the open one is brought into view.
let lastTab;
const showTab = () => {
  const tab = tabOf(window.openKey() ?? '');
  if (tab === lastTab) return;
  lastTab = tab;
  if (tab) tab.closest('.tab-wrapper').scrollLeft = Math.max(0, tab.offsetLeft - 40);
};

// The papers' form takes no input until it is filled for the open paper: an answer would replace what was typed meanwhile.
// While form and result are those of another paper, an outline stands in place of the result.
let isHeld = false, awaited = '';
const holdPaper = () => {
  const form = document.getElementById('paper-ask'), of = form?.querySelector('[data-of]');
  const isOfAnother = Boolean(of?.offsetParent) && of.dataset.of !== window.openKey();
  awaited = isOfAnother ? window.openKey() : '';
  document.documentElement.classList.toggle('awaits-paper', isOfAnother);
  if (form) form.inert = isHeld || isOfAnother;
};
// Before the next frame, which would have to lay out the page a second time.
const isHere = () => awaited && document.querySelector('#paper-ask [data-of]')?.dataset.of === awaited && holdPaper();
window.holdForm = (held) => {
  const form = document.getElementById('paper-ask');
  if (!form) return;
  isHeld = held;
  holdPaper();
  window.formIsFilled ||= !held && form.offsetParent !== null;
};

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

// The page gets longer, and its parts come in one after the other: a part that was asked for stays at the top until
// something is pressed or scrolled.
const keepAtTop = (node) => {
  const watch = new ResizeObserver(() => node.scrollIntoView());
  const end = () => watch.disconnect();
  watch.observe(node.closest('[role=tabpanel]'));
  for (const kind of ['wheel', 'touchmove', 'pointerdown', 'keydown']) addEventListener(kind, end, {once: true});
  setTimeout(end, 10_000);
};
const unfold = async ({unfold, published}) => {
  let fold;
  for (let i = 0; i < 100 && !fold?.offsetParent; i++) {
    await new Promise((done) => setTimeout(done, 50));
    fold = document.getElementById(unfold);
  }
  const button = fold?.querySelector('button');
  if (!button) return;
  window.wantedPublished = published;
  if (published && button.classList.contains('open')) button.click();  // it is read when it opens
  setTimeout(() => { if (!button.classList.contains('open')) button.click(); }, 50);
  keepAtTop(fold);
};
document.addEventListener('click', (event) => {
  const link = event.target.closest('[data-go]');
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  window.wantedMeasure = link.dataset.measure;
  window.openTab(link.dataset.go);
  document.dispatchEvent(new CustomEvent('open-measure', {detail: link.dataset.measure}));
  if (link.dataset.unfold) unfold(link.dataset);
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
window.lastPress = () => pressed;

// Forms in which somebody was: a saved run does not fill them in.
window.usedForms = new Set();
document.addEventListener('focusin', ({target}) => {
  if (target.matches?.('.ask :is(input, textarea, select)')) window.usedForms.add(window.openKey());
});

// The address names the open tab and the result that is shown there: each is an entry to which Back and Forward lead.
// While a run is at work it names no result, so that a reload follows the run. The settings of a link go when its tab is
// left. Gradio also says "chosen" of the tab that a page opens with: nothing is done before the link is read.
const addressOf = (key, run) => {
  const address = new URL(location.href);
  for (const name of [...address.searchParams.keys()])
    if (linkNames.includes(name) || name.startsWith(optionPrefix)) address.searchParams.delete(name);
  address.searchParams.set('tab', key);
  if (run) address.searchParams.set('run', run);
  return address;
};
const inSight = (selector) => [...document.querySelectorAll(selector)].find((node) => node.offsetParent);
const linkedRun = () => new URLSearchParams(location.search).get('run');
const hasTab = () => new URLSearchParams(location.search).has('tab');  // a link to a result need not have it
const linkedTab = () => new URLSearchParams(location.search).get('tab') || 'explore';
let leftRun;  // the result that the address named before the run at work
let wantedRun;  // the result of the entry that Back or Forward led to
let askedRun;  // the last one that the server was asked for
const failures = () => [...document.querySelectorAll('.status.error')].filter((node) => node.offsetParent);
const nameResult = () => {
  const key = window.openKey();
  if (!window.linkIsRead || !(key in groups)) return;
  const result = inSight(`[data-result][data-tab="${key}"]`), drawing = inSight('.drawing');
  if (result || drawing || document.querySelector('.status.error') || inSight('#link-notice')) showLinked(result);
  const run = result ? result.dataset.result : drawing ? null : linkedRun();
  if (linkedTab() !== key && (hasTab() || !linkedRun())) return;  // it is named when it is chosen
  const isRefused = wantedRun === askedRun && failures().some((node) => !('before' in node.dataset));
  if (drawing || isRefused || run === wantedRun && result) wantedRun = askedRun = null;
  if (wantedRun && result) openWanted();
  if (wantedRun || run === linkedRun()) return;
  if (!run) leftRun = linkedRun();
  const before = run && (linkedRun() ?? leftRun);
  if (run) leftRun = null;
  if (before && before !== run) {
    history.replaceState(history.state, '', addressOf(key, before));
    history.pushState(history.state, '', addressOf(key, run));
  } else {
    history.replaceState(history.state, '', addressOf(key, run));
  }
};
const openWanted = () => {
  const key = window.openKey();
  if (!wantedRun || wantedRun === askedRun || key !== linkedTab()) return;
  askedRun = wantedRun;
  failures().forEach((node) => { node.dataset.before = ''; });
  trigger('expand', {tab: key, run: wantedRun, form: !inSight('[id$="-other-settings"] .old-result')});  // a changed form stays
};
// A page that a link to a result opens hides the forms until the result is there.
const root = document.documentElement;
root.classList.toggle('awaits-result', Boolean(linkedRun()));
const showLinked = (result) => {
  if (!root.classList.contains('awaits-result')) return;
  root.classList.remove('awaits-result');
  const [{type} = {}] = performance.getEntriesByType('navigation');
  if (type === 'navigate') setTimeout(() => result?.closest('[id$="header"]').scrollIntoView(), 100);
};
setTimeout(showLinked, 30_000);
window.nameTab = () => setTimeout(() => {
  const key = window.openKey();
  if (!window.linkIsRead || !(key in groups)) return;
  if (linkedRun() && !hasTab()) {  // the link has opened its tab
    history.replaceState(history.state, '', addressOf(key, linkedRun()));
  } else if (linkedTab() !== key) {
    leftRun = wantedRun = null;
    history.pushState(history.state, '', addressOf(key));
  }
  nameResult();
}, 50);
addEventListener('popstate', () => {
  leftRun = null;
  [wantedRun, askedRun] = [linkedRun(), null];
  window.openTab(linkedTab());
  soon();
  setTimeout(openWanted, 3000);  // where no result is shown
});

// The head of a column sorts its table, and a second press turns it around; what is empty comes last.
const cellOf = (row, place) => row.children[place]?.textContent.trim().replaceAll(',', '').replaceAll('−', '-') ?? '';
const order = (a, b) => {
  const [x, y] = [a, b].map((text) => parseFloat(text.replace(/^[<>≈±+\s]+/, '')));
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, {numeric: true}) : x - y;
};
document.addEventListener('click', ({target}) => {
  const head = target.closest?.('.sort')?.closest('th');
  if (!head) return;
  const down = head.getAttribute('aria-sort') === 'ascending', body = head.closest('table').tBodies[0];
  for (const one of head.parentElement.children) one.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const rows = [...body.rows].map((row) => [cellOf(row, head.cellIndex), row]);
  rows.sort(([a], [b]) => (!a - !b) || (down ? -1 : 1) * order(a, b));
  body.append(...rows.map(([, row]) => row));
});

// The menu of downloads closes when something else is pressed, or one of them.
document.addEventListener('click', ({target}) => {
  for (const menu of document.querySelectorAll('.result-tools details[open]'))
    if (!menu.contains(target) || target.closest('[data-take]')) menu.open = false;
});
document.addEventListener('keydown', ({key, target}) => {
  const menu = key === 'Escape' && target.closest?.('.result-tools details[open]');
  if (!menu) return;
  menu.open = false;
  menu.querySelector('summary').focus();
});

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
