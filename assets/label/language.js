// The rater's page in the rater's language. Each text that comes to stand on the page, and each attribute that is read
// aloud, is looked up in languages/<code>.json, whole or sentence by sentence. {name} in an entry stands for any words,
// {n} or another letter for a number. What is not found stays English; so do the words of the task's owner.

const KEPT = 't2i-bias-language';
const ATTRIBUTES = ['aria-label', 'alt', 'data-label'];
const page = document.documentElement;

const codes = ['en', ...page.dataset.languages.split(' ')];
const known = (tag) => codes.find((code) => code === tag?.toLowerCase().split('-')[0]);
const keep = (value) => {
  try {
    if (value) localStorage.setItem(KEPT, value);
    return localStorage.getItem(KEPT);
  } catch { return value; }
};
const asked = known(new URLSearchParams(location.search).get('lang'));
page.lang = asked || known(keep()) || navigator.languages.map(known).find(Boolean) || 'en';
if (asked) keep(asked);

function build(phrases) {
  const words = new Map(Object.entries(phrases)), looked = new Map();
  const patterns = Object.entries(phrases).filter(([english]) => english.includes('{')).map(([english, own]) => ({
    own,
    names: [...english.matchAll(/\{[a-z]+\}/g)].map(([place]) => place),
    fixed: english.replace(/\{[a-z]+\}/g, '').length,
    form: new RegExp(`^${english.replace(/[.*+?^$()|[\]\\]/g, '\\$&')
      .replace(/\{[a-z]+\}/g, (place) => (place.length === 3 ? '([\\d.,]+)' : '(.+?)'))}$`),
  })).sort((one, other) => other.fixed - one.fixed);  // the one that says most is tried first
  // "1,248" is less than 2 to many readers: thousands stand apart, as ISO 80000 has it.
  const inPlace = (text) => (/^[\d,]+$/.test(text) ? text.replaceAll(',', '\u202f') : say(text));
  const filled = (text) => {
    for (const {own, names, form} of patterns) {
      const match = form.exec(text);
      if (match) return names.reduce((all, name, i) => all.replaceAll(name, () => inPlace(match[i + 1])), own);
    }
    return text;
  };
  // Half of several sentences that stand together would be worse than English.
  const sentences = (text) => {
    const parts = text.split(/(?<=[.!?]) (?=[\p{Lu}\d“])/u), own = parts.map((part) => words.get(part) ?? filled(part));
    return own.some((part, i) => part === parts[i]) ? filled(text) : own.join(' ');
  };
  const say = (text) => {
    const key = text.replace(/\s+/g, ' ').trim();
    if (!/\p{L}{2}/u.test(key)) return text;
    if (!looked.has(key)) looked.set(key, words.get(key) ?? sentences(key));
    const own = looked.get(key);
    return own === key ? text : text.match(/^\s*/)[0] + own + text.match(/\s*$/)[0];
  };
  return say;
}

function follow(say) {
  const change = (english, write) => {
    const own = say(english);
    if (own !== english) write(own);
  };
  const sayText = (node) => change(node.data, (own) => { node.data = own; });
  const sayAttribute = (element, name) => {
    if (element.hasAttribute(name)) change(element.getAttribute(name), (own) => element.setAttribute(name, own));
  };
  const sayAll = (node) => {
    if (node.nodeType === Node.TEXT_NODE) sayText(node);
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    for (const name of ATTRIBUTES) sayAttribute(node, name);
    node.childNodes.forEach(sayAll);
  };
  const observer = new MutationObserver((changes) => {
    for (const {type, target, addedNodes, attributeName} of changes) {
      if (type === 'childList') addedNodes.forEach(sayAll);
      else if (type === 'attributes') sayAttribute(target, attributeName);
      else sayText(target);
    }
    observer.takeRecords();  // what was written just now
  });
  sayAll(page);
  observer.observe(page, {childList: true, subtree: true, characterData: true, attributeFilter: ATTRIBUTES});
}

if (page.lang !== 'en')
  fetch(`label/languages/${page.lang}.json`).then((answer) => answer.json()).then((phrases) => follow(build(phrases)));
