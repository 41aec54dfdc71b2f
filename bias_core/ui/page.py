"""What stands above the tabs: the name, a note on content, and what the page itself remembers and does."""

from __future__ import annotations

import json
from collections.abc import Mapping

HEADER = """
<header class="top">
<svg viewBox="0 0 64 32" aria-hidden="true">
<path d="M4 16h56M4 8v16M60 8v16"/><circle cx="38" cy="16" r="7"/></svg>
<div><h1>T2I Bias Explorer</h1>
<p>What does a text-to-image model draw, how far is that from the world, and how sure can you be?</p></div>
</header>
<aside class="content-note" aria-label="Note on content" hidden>
<p>The pictures here can show stereotypes, some of them offensive: that is what is measured. Everything said
of people in them is what a reader of pictures <em>perceives</em>, never what anybody is.</p>
<button type="button">Got it</button></aside>
"""

# Gradio names every thumbnail "Thumbnail 1 of 16" and every upload field otherwise than it reads; a screen
# reader should hear what is seen. On narrow screens some tabs are in Gradio's menu, where only their titles
# tell them apart. A browser may forbid storage; the note then comes again.
_HEADER_JS = """
const rename = (button, text) => {
  if (text && button.getAttribute('aria-label') !== text) button.setAttribute('aria-label', text);
};
const name = () => {
  document.querySelectorAll('.grid .thumbnail-item').forEach((button) =>
    rename(button, button.querySelector('.caption-label')?.textContent.trim()));
  document.querySelectorAll('button.upload-container').forEach((button) =>
    rename(button, button.innerText.replace(/\\s+/g, ' ').trim()));
};
let due = 0;
const soon = () => { due ||= requestAnimationFrame(() => { due = 0; name(); }); };
new MutationObserver(soon).observe(document.body, {childList: true, subtree: true, attributes: true,
  attributeFilter: ['aria-label']});

window.tabTitles = TITLES;
window.openTab = (key) => {
  const inMenu = [...document.querySelectorAll('#tabs .overflow-dropdown button')]
    .find((button) => button.textContent.trim() === window.tabTitles[key]);
  (document.querySelector(`#tabs [data-tab-id="${CSS.escape(key)}"]`) || inMenu)?.click();
};

const tips = TIPS;
const tell = ({target}) => {
  const button = target.closest?.('button[id]');
  if (button && tips[button.id]) button.title = tips[button.id];
};
for (const kind of ['pointerover', 'focusin']) document.addEventListener(kind, tell);

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
});
"""


def header_js(titles: Mapping[str, str], tips: Mapping[str, str]) -> str:
    """What the page does by itself; ``titles`` of the tabs by their keys, ``tips`` of buttons by their id."""
    return _HEADER_JS.replace("TITLES", json.dumps(titles)).replace("TIPS", json.dumps(tips))


def address_js(key: str) -> str:
    """The address names the tab that was chosen; the settings of a link go when its tab is left.

    Gradio also says "chosen" of the tab that a page opens with, so nothing is done before the link is read.
    """
    return f"""() => {{
  const address = new URL(location.href);
  if (!window.linkIsRead || (address.searchParams.get('tab') || 'explore') === '{key}') return;
  for (const name of ['study', 'model', 'condition', 'percent', 'seed', 'concept', 'measure'])
    address.searchParams.delete(name);
  address.searchParams.set('tab', '{key}');
  history.replaceState(history.state, '', address);
}}"""


LINK_IS_READ_JS = "() => { window.linkIsRead = true; }"
ABSOLUTE_JS = "(link) => link && link.startsWith('?') ? new URL(link, location.href).href : link"
