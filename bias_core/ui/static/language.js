// The page in the visitor's language. Whatever comes to stand on it, built at first or written later by a handler, is
// looked up in the dictionary of assets/languages: the text between two tags, a whole sentence with its inline tags, or
// an attribute. {name} in an entry stands for any words, {n} or another letter for a number. What is not there stays
// English, its numbers too; so does what a model is given (values of fields, code), what is marked with lang or
// translate="no", and {section}: 5.1 is no number.
{
  const KEPT = 't2i-bias-language';
  const LEFT_OUT = 'svg:not(.plot), math, .math, code, pre, script, style, textarea, [translate=no], .english, [lang]:not(html)';
  const SENTENCES = 'p, li, dt, dd, td, th, h1, h2, h3, h4, summary, figcaption, label, legend';
  const NOT_INLINE = ':not(a, abbr, b, br, code, em, i, kbd, small, span, strong, sub, sup)';
  const ATTRIBUTES = ['aria-label', 'title', 'placeholder', 'alt', 'data-label'];
  const CHOICES = 'input[role=combobox]';
  const TYPED = '[role=grid]';  // numbers there are a visitor's own
  const RATERS = "Rater's page";  // what only that page says: answers such as "old" are names of attributes elsewhere

  const keep = (value) => {
    try {
      if (value) localStorage.setItem(KEPT, value);
      return localStorage.getItem(KEPT);
    } catch { return value; }
  };
  const known = (tag) => Object.keys(languages).find((code) => code === tag?.toLowerCase().split('-')[0]);
  const asked = known(new URL(location.href).searchParams.get('lang'));
  const language = asked || known(keep()) || navigator.languages.map(known).find(Boolean) || 'en';
  if (asked) keep(asked);
  document.documentElement.lang = language;

  const ready = (code) => fetch(`languages/${code}.json`).then((answer) => answer.json());
  const words = new Map(), patterns = [];
  // "1,248" is 1.248 to many readers: thousands stand apart, as ISO 80000 has it. "[0.2, 0.4]" is [0,2; 0,4] to them.
  const decimal = (0.5).toLocaleString(language)[1];
  const NUMBER = /(?<![\p{L}\d.,])\d+(,\d{3})*(\.\d+)?(e[−+-]?\d+)?(?![\p{L}\d]|[.,]\d)/gu;
  const isWords = (text) => /\p{L}{2}/u.test(text.replace(/\b([kMG]B\b|[A-Z]{2,4}(?= [=−]))/g, ''));  // "TT = 0.04"
  const ENDS = /(\[[^[\]]*?), (?=[^[\]]*\])/g;  // of an interval
  const numbers = (text) => (isWords(text) ? text : text
    .replace(ENDS, decimal === ',' ? '$1; ' : '$1, ')
    .replace(NUMBER, (number) => number.replaceAll(',', '\u202f').replace('.', decimal)));
  const plain = (text) => text.replace(/\s+/g, ' ').trim();
  const learn = (groups) => {
    for (const [english, own] of Object.values(groups).flatMap(Object.entries)) {
      words.set(english, own);
      const names = [...english.matchAll(/\{([a-z]+)\}/g)].map((match) => match[1]);
      if (!names.length) continue;
      const form = english.replace(/[.*+?^$()|[\]\\]/g, '\\$&')
        .replace(/\{[a-z]+\}/g, (place) => (place.length === 3 ? '([\\d.,]+)' : '([^<]+?)'));
      patterns.push({names, own, form: new RegExp(`^${form}$`), fixed: english.replace(/\{[a-z]+\}/g, '').length});
    }
    patterns.sort((one, other) => other.fixed - one.fixed);  // the one that says most is tried first
  };
  const inPlace = (name, english) => (name.startsWith('section') ? english : items(english));
  const filled = (text) => {
    for (const {names, own, form} of patterns) {
      const match = form.exec(text);
      if (match) return names.reduce((all, name, i) => all.replaceAll(`{${name}}`, () => inPlace(name, match[i + 1])), own);
    }
    return text;
  };
  // Several sentences that stand together are looked up one by one; half of them would be worse than English.
  const sentences = (text) => {
    const parts = text.split(/(?<=[.!?]) (?=[\p{Lu}\d“])/u), own = parts.map((part) => words.get(part) ?? filled(part));
    return own.some((part, i) => part === parts[i]) ? filled(text) : own.join(' ');
  };
  const LISTS = [/(; )/, /(, (?![+−\d]))/];
  const items = (text, [mark, ...finer] = LISTS) => {
    if (!mark) return say(text);
    const some = text.split(mark), own = some.map((part, i) => (i % 2 ? part : items(part, finer)));
    const whole = own.some((part, i) => part === some[i] && !(i % 2)) ? say(text) : text;
    return whole === text ? own.join('') : whole;
  };
  // A title that is put together, as "man: share of variance, extreme − fair": its parts, and names stay as they are.
  const PARTS = [/(: | · |; )/, /(, (?![+−\d]))/, /( − )/];
  const parts = (text, [mark, ...finer] = PARTS) => {
    if (!mark || /<|[.!?]( |$)/.test(text)) return text;
    const known = (part) => {
      const own = words.get(part) ?? filled(part);
      return own === part ? parts(part, finer) : own;
    };
    const some = text.split(mark), own = some.map((part, i) => (i % 2 ? part : known(part)));
    if (own.every((part, i) => part === some[i])) return text;
    return own.map((part, i) => (part === some[i] ? numbers(part) : part)).join('');
  };
  const looked = new Map();
  const say = (text) => {
    const key = plain(text);
    if (!isWords(key)) return numbers(text);
    let own = looked.get(key);
    if (own === undefined) {
      own = words.get(key) ?? sentences(key);
      if (own === key) own = parts(key);
      looked.set(key, own);
    }
    return own === key ? text : text.match(/^\s*/)[0] + own + text.match(/\s*$/)[0];
  };

  // The name of a row of a figure is narrower where it would begin left of the drawing.
  let ruler;
  const fit = (line) => {
    const room = parseFloat(line.getAttribute('transform')?.split('(')[1]) - 2;
    ruler ??= document.createElement('canvas').getContext('2d');
    ruler.font = `${line.style.fontSize} ${getComputedStyle(document.body).fontFamily}`;
    if (!(room > 0 && ruler.measureText(line.textContent).width > room)) return;
    line.setAttribute('textLength', room);
    line.setAttribute('lengthAdjust', 'spacingAndGlyphs');
  };
  const said = new WeakMap();  // what texts were made of: "0,580" is no thousands where its text comes by again
  const sayText = (node) => {
    if (said.get(node) === node.data || (!isWords(node.data) && node.parentElement?.closest(TYPED))) return;
    const own = say(node.data);
    if (own === node.data) return;
    said.set(node, own);
    node.data = own;
    if (node.parentElement?.style.textAnchor === 'end') fit(node.parentElement);
  };
  const keepTexts = (element) => {
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) said.set(texts.currentNode, texts.currentNode.data);
  };
  const sayAttribute = (element, name) => {
    const english = element.getAttribute(name), own = english && isWords(english) ? say(english) : english;
    if (own !== english) element.setAttribute(name, own);
  };
  // A field that shows the name of a choice: Gradio reads and writes English, the visitor sees the other language.
  const value = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');
  const sayChoice = (input) => {
    let english = value.get.call(input), own = english;
    const show = (text) => { [english, own] = [text, say(String(text))]; value.set.call(input, own); };
    Object.defineProperty(input, 'value', {
      configurable: true,
      get: () => { const shown = value.get.call(input); return shown === own ? english : shown; },
      set: show,
    });
    show(english);
  };
  // The name of a row of a figure, which is looked up whole and parted into as many lines as it has.
  const sayLines = (group) => {
    const name = group.dataset.inLines, own = say(name), lines = [...group.children];
    for (const line of lines) for (const one of ATTRIBUTES) if (line.hasAttribute(one)) sayAttribute(line, one);
    if (own === name) return;
    const all = own.split(' ');
    lines.forEach((line, i) => {
      const length = all.join(' ').length / (lines.length - i), here = all.splice(0, 1);
      while (all.length && [...here, all[0]].join(' ').length <= length + all[0].length / 2) here.push(all.shift());
      line.textContent = here.join(' ');
      fit(line);
    });
    keepTexts(group);
  };
  const isSentence = (element) => element.childElementCount && element.matches(SENTENCES)
    && !element.querySelector(NOT_INLINE) && [...element.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
  const sayElement = (element) => {
    if (element.matches(LEFT_OUT)) return;
    for (const name of ATTRIBUTES) if (element.hasAttribute(name)) sayAttribute(element, name);
    if (element.matches(CHOICES) && !Object.hasOwn(element, 'value')) sayChoice(element);
    if (element.dataset?.inLines) {
      sayLines(element);
      return;
    }
    if (isSentence(element)) {
      const key = plain(element.innerHTML), own = say(key);
      if (own !== key) {
        element.innerHTML = own;
        keepTexts(element);
        return;
      }
    }
    for (const child of [...element.childNodes]) sayNode(child);
  };
  const sayNode = (node) => {
    if (node.nodeType === 1) sayElement(node);
    else if (node.nodeType === 3) sayText(node);
  };
  const isLeftOut = (node) => {  // as are the parts of a sentence in which the glossary has marked a symbol
    const element = node.nodeType === 1 ? node : node.parentElement;
    return !element?.isConnected || element.closest(LEFT_OUT)
      || (element !== node && element.querySelector(':scope > .term'));
  };
  const look = (changes) => {
    for (const {type, target, addedNodes, attributeName} of changes) {
      if (type === 'childList') [...addedNodes].filter((node) => !isLeftOut(node)).forEach(sayNode);
      else if (isLeftOut(target)) continue;
      else if (type === 'attributes') sayAttribute(target, attributeName);
      else sayText(target);
    }
  };
  window.inLanguage = say;
  if (language !== 'en')
    ready(language).then(({phrases}) => {
      const {[RATERS]: ofRaters, ...others} = phrases;
      learn(document.body.dataset.phrases === RATERS ? phrases : others);
      looked.clear();
      const observer = new MutationObserver((changes) => {
        look(changes);
        observer.takeRecords();  // what was written just now
      });
      sayNode(document.documentElement);
      observer.observe(document.documentElement,
        {childList: true, subtree: true, characterData: true, attributeFilter: ATTRIBUTES});
    });

  window.chooseLanguage = (code) => {
    const address = new URL(location.href);
    keep(code);
    address.searchParams.delete('lang');
    history.replaceState(history.state, '', address);
    location.reload();
  };
}
