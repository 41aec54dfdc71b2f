// Words in place of each symbol, with a note for pointer, keyboard and finger; the switch in the header shows symbols.
// `words` of this program have a note where they first stand on a page.
// Only what gr.HTML shows is touched: other text belongs to components, which may write it anew.
{
  const KEPT = 't2i-bias-words';
  const ROOTS = '.html-container';
  const LEFT_OUT = 'svg, math, .math, code, pre, script, style, textarea, input, select, .term, [translate=no], '
    + '[lang]:not(html)';  // a title in Italian has an e of its own
  const PART_OF = 'button, a, summary, label, [role=button]';  // what has a focus of its own
  const NEAR = '.card, table, details, .html-container';  // within it a symbol takes the keyboard's focus once
  const entries = new Map(terms.map((term) => [term.symbol, term]));
  const quoted = [...entries.keys()].sort((a, b) => b.length - a.length)
    .map((symbol) => symbol.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|');
  // Whole tokens only: no part of an id, a model's name, a file or an address, such as the e of dall-e-3.
  const pattern = new RegExp(
    `(?<![\\p{L}\\p{N}_*\\-./\\\\@#?&~:=])(${quoted})(?![\\p{L}\\p{N}_′*(\\-/\\\\@]|[.:][\\p{L}\\p{N}/])`, 'gu');
  // Letters that are also words of other languages ("medico e infermiera") count only alone, or after their own name.
  const isLetter = (symbol) => /^[a-z]$/.test(symbol);

  const note = document.createElement('div');
  note.id = 'term-note';
  note.setAttribute('role', 'tooltip');
  note.hidden = true;
  document.body.append(note);
  const hide = () => { note.hidden = true; };
  const show = (abbr) => {
    const term = entries.get(abbr.dataset.symbol);
    note.replaceChildren(abbr.dataset.note ?? '');  // a mark of a chart has a note of its own
    const {word} = abbr.dataset;
    if (term || word) {
      const title = document.createElement('b');
      title.append(term ? `${term.symbol}: ${term.words}` : word);
      note.append(title, ' ', term ? `${term.says} ${term.reads}` : words[word]);
    }
    note.hidden = false;
    const place = abbr.getBoundingClientRect();
    const left = Math.min(Math.max(8, place.left), innerWidth - note.offsetWidth - 8);
    const below = place.bottom + 6 + note.offsetHeight < innerHeight;
    note.style.left = `${left}px`;
    note.style.top = `${below ? place.bottom + 6 : place.top - note.offsetHeight - 6}px`;
  };
  for (const [kind, act] of [['pointerover', show], ['focusin', show], ['click', show], ['pointerout', hide],
    ['focusout', hide]]) {
    document.addEventListener(kind, ({target}) => {
      const abbr = target.closest?.('.term, [data-note]');
      if (abbr) act(abbr); else if (kind === 'click') hide();
    });
  }
  document.addEventListener('keydown', ({key}) => { if (key === 'Escape') hide(); });
  document.addEventListener('scroll', hide, {passive: true, capture: true});

  const piece = (name, text) => {
    const span = document.createElement('span');
    span.className = name;
    span.textContent = text;
    return span;
  };
  const isNamed = (before, {names}) => names.some((name) => before.endsWith(name.toLowerCase())
    && !/\p{L}/u.test(before.at(-name.length - 1) ?? ''));
  const toldBefore = (node, match) => node.data.slice(0, match.index).replace(/[\s,(]+$/, '').toLowerCase();
  const wrap = (node) => {
    const isAlone = (match) => !node.data.replace(match[1], '').trim();
    const found = [...node.data.matchAll(pattern)].filter((match) => !isLetter(match[1]) || isAlone(match)
      || isNamed(toldBefore(node, match), entries.get(match[1])));
    if (!found.length) return;
    const parent = node.parentElement, parts = [];
    let end = 0;
    for (const match of found) {
      const term = entries.get(match[1]), before = toldBefore(node, match);
      const abbr = document.createElement('abbr');
      abbr.className = 'term';
      abbr.dataset.symbol = term.symbol;
      const again = isNamed(before, term);
      const begins = /(^|[.!?]\s+)$/.test(node.data.slice(0, match.index)) && !node.previousSibling;
      const words = begins ? term.words[0].toUpperCase() + term.words.slice(1) : term.words;
      // After its own words a symbol goes, with what joins it to them: "score Ψ", "score (Ψ)" and "score, Ψ" read "score".
      const lead = node.data.slice(end, match.index), after = match.index + match[1].length;
      const isAside = /\($/.test(lead) && node.data[after] === ')';
      const joins = again && (isAside || !lead.endsWith('('));
      const joint = joins ? /[\s,]*\(?$/.exec(lead)[0] : '';
      abbr.append(piece('in-symbols', joint + term.symbol + (again && isAside ? ')' : '')),
        piece('in-words', again ? '' : words));
      const near = parent.closest(NEAR);
      if (!parent.closest(PART_OF) && !near?.querySelector(`.term[tabindex][data-symbol="${CSS.escape(term.symbol)}"]`)) {
        abbr.tabIndex = 0;
        abbr.setAttribute('aria-describedby', note.id);
      }
      parts.push(lead.slice(0, lead.length - joint.length), abbr);
      end = after + (again && isAside ? 1 : 0);
    }
    node.replaceWith(...parts, node.data.slice(end));
  };
  const pageOf = (node) => node.parentElement?.closest('[role=tabpanel]');
  const explain = (nodes) => {
    for (const word of Object.keys(words)) {
      const pattern = new RegExp(`(?<![\\p{L}-])${word}s?(?![\\p{L}-])`, 'iu');
      for (const node of nodes) {
        const match = pattern.exec(node.data), page = pageOf(node), parent = node.parentElement;
        if (!match || !page || parent.closest(PART_OF) || !parent.checkVisibility()) continue;
        if (/flex|grid/.test(getComputedStyle(parent).display)) continue;  // the word would stand apart from its sentence
        if (page.querySelector(`.term[data-word="${word}"]`)) continue;
        const abbr = piece('term', match[0]);
        Object.assign(abbr.dataset, {word});
        abbr.tabIndex = 0;
        abbr.setAttribute('aria-describedby', note.id);
        node.replaceWith(node.data.slice(0, match.index), abbr, node.data.slice(match.index + match[0].length));
      }
    }
  };
  const look = () => {
    for (const root of document.querySelectorAll(ROOTS)) {
      const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), nodes = [];
      while (texts.nextNode())
        if (!texts.currentNode.parentElement.closest(LEFT_OUT)) nodes.push(texts.currentNode);
      nodes.forEach(wrap);
      explain(nodes.filter((node) => node.isConnected));
    }
    const page = [...document.querySelectorAll('[role=tabpanel]')].find((panel) => panel.checkVisibility());
    button.style.display = page?.querySelector('.term[data-symbol]') ? '' : 'none';
  };
  let due = 0;
  const later = () => { due ||= setTimeout(() => { due = 0; look(); }, 120); };
  const button = element.querySelector('#words-switch');
  new MutationObserver(later).observe(document.body, {childList: true, subtree: true});
  document.addEventListener('click', later);
  document.addEventListener('keyup', later);
  later();

  const keep = (value) => {
    try {
      if (value) localStorage.setItem(KEPT, value);
      return localStorage.getItem(KEPT);
    } catch { return value; }
  };
  const choose = (symbols) => {
    const page = document.documentElement;
    page.dataset.words = symbols ? 'symbols' : 'plain';
    page.style.setProperty('--symbols', symbols ? 'inline' : 'none');
    page.style.setProperty('--words', symbols ? 'none' : 'inline');
    button.setAttribute('aria-checked', symbols);
  };
  choose(keep() === 'symbols');
  button.addEventListener('click', () => {
    const symbols = document.documentElement.dataset.words !== 'symbols';
    keep(symbols ? 'symbols' : 'plain');
    choose(symbols);
  });
}
