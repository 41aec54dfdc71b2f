// The rater's screen. A picture is followed by another only when the server has said that the answer is kept;
// until then the answer stays in this browser and is sent again, under the same id, so that it counts once.

const BREAK_AFTER = Number(document.body.dataset.breakAfter);
const PATIENCE_MS = 20000;  // for one request
const LONGEST_PAUSE_MS = 15000;  // between two tries
const SMALL_PICTURE = 256;  // pixels: below, a picture is enlarged without smoothing
const TOO_SOON_MS = 200;  // a second tap of the same finger is no answer to the next picture

const $ = (id) => document.getElementById(id);
const params = new URLSearchParams(location.search);
const link = params.get('task') || '';
// What a crowd platform says of this rater in the link; sent only to a task that has its codes.
const idOf = (name) => (/^[A-Za-z0-9_-]{1,64}$/.test(params.get(name) || '') ? params.get(name) : '');
const crowdIds = {participant: idOf('PROLIFIC_PID'), study: idOf('STUDY_ID'), session: idOf('SESSION_ID')};
const clickable = (id, act) => $(id).addEventListener('click', act);

// What this browser remembers of the link: the rater's code, and an act that is not acknowledged yet.
const PLACE = `t2i-label:${link}${crowdIds.participant && `:${crowdIds.participant}`}`;
let mine = {code: '', pending: null};
try { mine = {...mine, ...JSON.parse(localStorage.getItem(PLACE) || '{}')}; } catch { /* storage is forbidden */ }

let isStored = false;  // where storage is forbidden this page remembers, and a reload asks for the code
function remember(changes) {
  mine = {...mine, ...changes};
  try {
    if (mine.code) localStorage.setItem(PLACE, JSON.stringify(mine));
    else localStorage.removeItem(PLACE);
    isStored = true;
  } catch { isStored = false; }
}

let task = null;  // its texts
let turn = null;  // what is on the screen
let chosen = {};  // answers to the positions of this picture so far
let view = 'loading';
let busy = false;
let answeredSinceBreak = 0;
let shownAt = 0;

// How long the picture was looked at; not while the page is in the background or a text covers the picture.
const watch = {
  total: 0, since: null,
  start() { this.since ??= performance.now(); },
  stop() { this.total += this.since === null ? 0 : performance.now() - this.since; this.since = null; },
  reset() { this.total = 0; this.since = null; },
};
document.addEventListener('visibilitychange', () => {
  if (document.hidden) watch.stop(); else if (view === 'rate') watch.start();
});

// Views and words.

function open(name) {
  const changed = view !== name;
  view = name;
  for (const section of document.querySelectorAll('main > section')) section.hidden = section.id !== name;
  $('tools').hidden = !(mine.code && task) || name === 'gone';
  if (name !== 'rate') watch.stop();
  document.body.dataset.view = name;
  if (!changed) return;
  scrollTo(0, 0);
  $(name).querySelector('h1')?.focus({preventScroll: true});
}

function warn(text, canRetry = false) {
  $('alert').hidden = !text;
  $('alert-text').textContent = text;
  $('again').hidden = !canRetry;
}

function announce(text) { $('live').textContent = text; }

function paragraphs(node, text) {
  node.replaceChildren(...text.split(/\n\s*\n/).filter((part) => part.trim()).map((part) => {
    const p = document.createElement('p');
    p.textContent = part;
    p.style.whiteSpace = 'pre-line';
    return p;
  }));
}

function count(n, word) { return `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`; }

function tell(newTask) {
  task = newTask;
  document.title = task.title;
  $('task-title').textContent = $('welcome-title').textContent = task.title;
  paragraphs($('consent'), task.consent);
  paragraphs($('content-note'), task.content_note);
  $('content-note').hidden = !task.content_note;
  leadTo('decline', task.decline);
  $('crowd-note').hidden = !(task.of_a_crowd && crowdIds.participant);
  const text = task.instructions || 'Look at the picture and answer the question. Skip what you cannot answer.';
  for (const node of document.querySelectorAll('.instructions')) paragraphs(node, text);
}

// A link back to the crowd platform, where there is one.
function leadTo(id, address) {
  $(id).hidden = !address;
  if (address) $(id).href = address;
}

// The network.

let wake = () => {};
function pause(ms) {
  return new Promise((done) => { wake = done; setTimeout(done, ms); });
}
window.addEventListener('online', () => wake());
clickable('again', () => wake());

async function ask(method, path, body) {
  const headers = {};
  if (mine.code) headers['X-Rater-Code'] = mine.code;
  if (body) headers['Content-Type'] = 'application/json';
  const reply = await fetch(path, {
    method, headers, body: body && JSON.stringify(body), cache: 'no-store', credentials: 'same-origin',
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const retryMs = 1000 * Number(reply.headers.get('Retry-After'));  // 0 if the server does not say
  return {status: reply.status, said: await reply.json(), retryMs};
}

// Until the server has decided; what may work later is tried again.
async function persist(method, path, body) {
  for (let wait = 1000; ; wait = Math.min(2 * wait, LONGEST_PAUSE_MS)) {
    let reason = 'There is no connection.';
    let retryMs = 0;
    try {
      const reply = await ask(method, path, body);
      if (reply.status !== 429 && reply.status < 500) {
        warn('');
        return reply;
      }
      retryMs = reply.retryMs;
      reason = reply.status === 429 ? `The server is busy: ${reply.said.error}.` : 'The server is not ready.';
    } catch { /* no network, or no JSON from something between here and the server */ }
    const kept = mine.pending ? ' Your answer is kept on this device and will be sent again.' : ' Trying again …';
    warn(reason + kept, true);
    await pause(retryMs || wait);
  }
}

// One thing at a time: a key pressed meanwhile does nothing.
async function alone(work) {
  if (busy) return;
  busy = true;
  $('rate').setAttribute('aria-busy', 'true');
  try { await work(); } finally {
    busy = false;
    $('rate').removeAttribute('aria-busy');
  }
}

// What a rater does.

function newId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

function act(path, body) {
  return alone(async () => {
    const started = performance.now();
    remember({pending: {path, body: {id: newId(), ...body}}});
    await deliver();
    performance.measure('answer', {start: started});
  });
}

async function deliver() {
  const {path, body} = mine.pending;
  const reply = await persist('POST', path, body);
  if (reply.status === 403 && (await persist('GET', 'label/mine')).status !== 200) {
    return forget(reply.said.error);  // nobody has this code now
  }
  remember({pending: null});
  if (reply.status === 200) {
    answeredSinceBreak += path === 'label/answer' ? 1 : 0;
    await show(reply.said);
  } else {
    await next();
    warn(reply.said.error);
  }
}

async function next() {
  const reply = await persist('GET', 'label/next');
  if (reply.status === 200) await show(reply.said);
  else forget(reply.said.error);
}

// The browser keeps the code and what was not acknowledged, until somebody joins anew: the server may have
// lost sight of the answers for a while.
function forget(text) {
  mine = {...mine, code: ''};
  if (task && link) open('welcome');
  else lost();
  warn(text);
}

async function show(newTurn) {
  turn = newTurn;
  chosen = {};
  watch.reset();
  if (turn.done) return finish();
  if (turn.about) return askAboutRater();
  place(await fetchedPicture(turn.picture));
  if (answeredSinceBreak < BREAK_AFTER) return reveal();
  answeredSinceBreak = 0;
  $('rest-text').textContent = `You have answered ${count(turn.progress.answered, 'picture')}. Thank you!`;
  open('rest');
}

// Questions about the rater, each with a way not to say.
function askAboutRater() {
  $('about-questions').replaceChildren(...turn.about.questions.map(({text, answers}, i) => {
    const group = document.createElement('fieldset');
    const legend = document.createElement('legend');
    legend.textContent = text;
    group.append(legend, ...[...answers, 'prefer not to say'].map((answer, place) => {
      const label = document.createElement('label');
      const choice = document.createElement('input');
      choice.type = 'radio';
      choice.name = `about-${i}`;
      choice.value = place < answers.length ? place : -1;
      label.append(choice, ` ${answer}`);
      return label;
    }));
    return group;
  }));
  open('about');
}

function tellAboutRater() {
  const {version, questions} = turn.about;
  const choices = questions.map((_, i) => Number(document.querySelector(`[name="about-${i}"]:checked`)?.value ?? -1));
  return alone(async () => {
    const reply = await persist('POST', 'label/about', {version, choices});
    if (reply.status === 200) return show(reply.said);
    await next();
    warn(reply.said.error);
  });
}

function reveal() {
  const {answered, left} = turn.progress;
  $('bar-done').max = answered + left;
  $('bar-done').value = answered;
  $('counts').textContent = `${answered.toLocaleString('en')} answered, ${left.toLocaleString('en')} left`;
  open('rate');
  tellQuestion(`Picture ${answered + 1} of ${answered + left}. `);
  shownAt = performance.now();
  watch.start();
}

// Decoded before it is shown, so that no question stands beside the picture before.
async function fetchedPicture(source) {
  for (let wait = 1000; ; wait = Math.min(2 * wait, LONGEST_PAUSE_MS)) {
    const picture = new Image();
    picture.src = wait === 1000 ? source : `${source}?again=${wait}`;
    try {
      await picture.decode();
      if (wait > 1000) warn('');
      return picture;
    } catch {
      warn('Your answer is saved, but the next picture has not arrived yet. Trying again …', true);
      await pause(wait);
    }
  }
}

function place(picture) {
  const {naturalWidth: width, naturalHeight: height} = picture;
  picture.id = 'picture';
  picture.alt = 'The picture that is asked about';
  picture.className = Math.max(width, height) < SMALL_PICTURE ? 'pixels' : '';
  $('picture').replaceWith(picture);
  $('frame').style.setProperty('--ratio', width / height);
}

function tellQuestion(before = '') {
  const question = turn.questions.find(({position}) => !(position in chosen));
  $('question').textContent = question.text;
  const sided = ['left', 'right'].includes(question.position) && turn.questions.length > 1;
  if (sided) $('frame').dataset.side = question.position;
  else delete $('frame').dataset.side;
  tellSteps(question);
  tellAnswers(question);
  tellKeys();
  $('undo').setAttribute('aria-disabled', String(!canUndo()));
  announce(before + question.text);
}

function tellSteps(question) {
  $('steps').hidden = turn.questions.length < 2;
  $('steps').replaceChildren(...turn.questions.map(({position}) => {
    const step = document.createElement('li');
    const said = turn.answers.find(({key}) => key === chosen[position]);
    step.append(position.replaceAll('_', ' '), ...(said ? [': ', said.label] : []));  // texts of their own: each is looked up by language.js
    if (position === question.position) step.setAttribute('aria-current', 'step');
    return step;
  }));
}

// The buttons stay the same ones while the answers do, so that the keyboard's focus stays where it is.
let buttonsOf = '';
function tellAnswers(question) {
  const {answers} = turn;
  const wanted = JSON.stringify(answers);
  if (buttonsOf !== wanted) {
    buttonsOf = wanted;
    $('answers').replaceChildren(...answers.map(answerButton));
  }
  [...$('answers').children].forEach((button, i) => {
    const before = turn.chosen[question.position] === answers[i].key;
    button.classList.toggle('before', before);
  });
}

function answerButton(answer, i) {
  const button = document.createElement('button');
  const text = document.createElement('span');
  const key = document.createElement('kbd');
  button.type = 'button';
  text.textContent = answer.label;
  text.dataset.label = 'your answer before';
  key.ariaHidden = 'true';
  key.textContent = keyOf(answer, i);
  if (answer.colour) {  // beside its name: nobody has to tell colours apart
    const swatch = document.createElement('i');
    swatch.className = 'swatch';
    swatch.ariaHidden = 'true';
    swatch.style.background = answer.colour;
    button.append(swatch);
  }
  button.append(text);
  if (key.textContent) {
    button.prepend(key);
    button.setAttribute('aria-keyshortcuts', key.textContent);
  }
  button.addEventListener('click', (event) => {
    if (event.detail && performance.now() - shownAt < TOO_SOON_MS) return;
    choose(turn.answers[i]);
  });
  return button;
}

function keyOf(answer, i) {
  if (answer.shortcut) return answer.shortcut.toLowerCase();
  const digit = String(i + 1);
  return i < 9 && !turn.answers.some(({shortcut}) => shortcut === digit) ? digit : '';
}

// A letter that gives an answer does nothing else.
const KEYS = {undo: ['u', 'backspace'], skip: ['s'], 'open-instructions': ['i']};
const freeKeys = (id) => KEYS[id].filter((key) => !turn.answers.some((one, i) => keyOf(one, i) === key));

function tellKeys() {
  for (const id of Object.keys(KEYS)) {
    const keys = freeKeys(id), kbd = $(id).querySelector('kbd');
    $(id).setAttribute('aria-keyshortcuts', keys.join(' '));
    if (kbd) kbd.textContent = keys[0] === 'backspace' ? '⌫' : (keys[0] || '').toUpperCase();
    if (kbd) kbd.hidden = !keys.length;
  }
}

function choose(answer) {
  if (busy) return;
  const question = turn.questions.find(({position}) => !(position in chosen));
  chosen[question.position] = answer.key;
  if (answer.whole) for (const {position} of turn.questions) chosen[position] = answer.key;
  if (turn.questions.some(({position}) => !(position in chosen))) {
    tellQuestion();
    return;
  }
  watch.stop();
  act('label/answer', {item: turn.item, choices: chosen, duration_ms: Math.round(watch.total)});
}

function canUndo() { return turn.can_undo || Object.keys(chosen).length > 0; }

function undo() {
  if (busy || !canUndo()) return;
  if (Object.keys(chosen).length) {  // of this picture, nothing was sent yet
    delete chosen[Object.keys(chosen).at(-1)];
    tellQuestion('Taken back. ');
  } else act('label/undo', {});
}

function skip() { if (!busy) act('label/skip', {item: turn.item}); }

function finish() {
  const said = `You have answered ${count(turn.progress.answered, 'picture')}.`;
  const words = {
    all: ['Thank you!', `${said} There is no other picture for you. Come back for more if you were told so.`],
    paused: ['A pause', `The person who made this task has paused it. ${said} They are safe; come back later with this link.`],
    excluded: ['Your part is over', `The person who made this task has ended your part in it. ${said} They are kept; you can delete them under “Your answers”.`],
    closed: ['This task is closed', `${said} Thank you! Nothing more is needed.`],
    draft: ['Not open yet', 'This task has not begun. Come back later with this link.'],
  }[turn.done];
  [$('done-title').textContent, $('done-text').textContent] = words;
  leadTo('crowd', turn.crowd);
  $('undo-last').hidden = !turn.can_undo;
  $('look-again').hidden = ['closed', 'excluded'].includes(turn.done);
  open('done');
  announce(words[1]);
}

// Coming and going.

async function start() {
  if (!mine.code && !link) return lost();
  const reply = await persist('GET', mine.code ? 'label/mine' : `label/task/${encodeURIComponent(link)}`);
  if (reply.status !== 200 && mine.code) {  // the answers were deleted: the link still stands
    mine = {...mine, code: ''};
    await start();
    return warn(reply.said.error);
  }
  if (reply.status !== 200) return lost(reply.said.error);
  tell(reply.said);
  if (mine.code) return alone(mine.pending ? deliver : next);
  open('welcome');
  if (task.status !== 'open') {
    const word = {draft: 'not open yet', paused: 'paused', closed: 'closed'}[task.status];
    warn(`This task is ${word}: no one can join now.`);
  }
}

function lost(text = 'Open the link that you were given, or go on with your code.') {
  $('lost-text').textContent = text;
  open('lost');
}

async function joinTask() {
  if (!$('agreed').checked) {
    warn('Tick the box to take part. Until you do, nothing is asked and nothing is kept.');
    return $('agreed').focus();
  }
  await alone(async () => {
    const crowd = task.of_a_crowd && crowdIds.participant ? {crowd: crowdIds} : {};
    const join = () => persist('POST', 'label/join', {task: link, agreed: true, page: task.page || '', ...crowd});
    let reply = await join();
    if (reply.status === 403) {  // this page may be of yesterday: read it again
      const fresh = await persist('GET', `label/task/${encodeURIComponent(link)}`);
      if (fresh.status === 200) {
        tell(fresh.said);
        reply = await join();
      }
    }
    if (reply.status !== 200) return warn(reply.said.error);
    remember({code: reply.said.code, pending: null});
    tell(reply.said.task);
    $('new-code').textContent = mine.code;
    open('joined');
  });
}

async function resume(field) {
  const code = $(field).value.trim();
  if (!code) return $(field).focus();
  mine.code = code;
  const reply = await persist('GET', 'label/mine');
  if (reply.status !== 200) {
    mine.code = '';
    warn(reply.said.error);
    return $(field).focus();
  }
  remember({code, pending: null});
  tell(reply.said);
  await alone(next);
}

async function copy(id, button) {
  try {
    await navigator.clipboard.writeText($(id).textContent);
  } catch {  // a page without https has no clipboard: what is selected can be copied by hand
    getSelection().selectAllChildren($(id));
    if (!document.execCommand('copy')) return;
  }
  button.textContent = 'Copied';
  announce('Copied');
}

function openDialog(id) {
  watch.stop();
  $(id).showModal();
}

clickable('join', joinTask);
clickable('begin', () => alone(next));
clickable('about-done', tellAboutRater);
clickable('rested', reveal);
clickable('undo', undo);
clickable('skip', skip);
clickable('undo-last', undo);
clickable('look-again', () => alone(next));
clickable('resume', () => resume('code-again'));
clickable('resume-lost', () => resume('code-lost'));
clickable('copy-new', (event) => copy('new-code', event.target));
clickable('copy-mine', (event) => copy('my-code', event.target));
clickable('open-instructions', () => openDialog('instructions'));
clickable('open-mine', () => {
  const n = turn ? turn.progress.answered : 0;
  $('mine-text').textContent = `${count(n, 'picture')} answered so far; every answer is saved.`;
  $('my-code').textContent = mine.code;
  openDialog('mine');
});
clickable('leave', () => {
  remember({code: '', pending: null});
  location.reload();
});
clickable('delete', () => alone(async () => {
  $('mine').close();
  const reply = await persist('DELETE', 'label/mine');
  if (reply.status !== 200) return warn(reply.said.error);
  remember({code: '', pending: null});
  const said = reply.said.deleted;
  $('gone-text').textContent = `${count(said, 'answer')} ${said === 1 ? 'is' : 'are'} gone, and your code with ${said === 1 ? 'it' : 'them'}.`;
  open('gone');
}));
for (const dialog of document.querySelectorAll('dialog')) {
  dialog.querySelector('.close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => { if (view === 'rate' && !document.hidden) watch.start(); });
}

document.addEventListener('keydown', (event) => {
  if (view !== 'rate' || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (document.querySelector('dialog[open]')) return;
  const key = event.key.toLowerCase();
  const answer = turn.answers.find((one, i) => keyOf(one, i) === key);
  const action = Object.keys(KEYS).find((id) => freeKeys(id).includes(key));
  const wanted = answer ? () => choose(answer) : action && (() => $(action).click());
  if (!wanted) return;
  event.preventDefault();
  wanted();
});
window.addEventListener('beforeunload', (event) => { if (mine.pending && !isStored) event.preventDefault(); });

start();
