"""The table of measures as cards to read, search and link to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from bias_core.metrics.cards import Reference, formula, load_references

if TYPE_CHECKING:
    from bias_core.metrics.cards import Card

TITLES: Mapping[str, str] = {
    "explore": "Explore",
    "association": "Association",
    "paired": "Paired",
    "objects": "Objects",
    "internal": "Internal",
    "origins": "Origins",
    "label": "Label",
    "compare": "Compare",
}
PAPERS = ("wang2023t2iat", "wan2024pst", "vice2023tbyb", "mandal2024internal", "dehdashtian2025oasis")
"""Each has a section; what comes from elsewhere stands together in one."""
_TABS_BY_PAPER: Mapping[str, Sequence[str]] = {
    "wang2023t2iat": ("association", "explore"),
    "wan2024pst": ("paired",),
    "vice2023tbyb": ("objects",),
    "pielou1966": ("objects",),
    "gini1912": ("objects",),
    "hill1973": ("objects",),
    "mandal2024internal": ("internal",),
    "dehdashtian2025oasis": ("explore", "origins", "compare"),
}
_TABS_BY_MEASURE: Mapping[str, Sequence[str]] = {
    "stereotype_propagation_index": ("origins",),
    "mean_similarity": ("origins",),
    "model_distance": ("objects", "compare"),
    "kendall_tau": ("association",),
    "prevalence_difference": ("compare",),
    "stereotype_difference": ("compare",),
    "alignment_difference": ("compare",),
    "spread_difference": ("compare",),
}
_RATERS = ("label",)

# The page filters by itself: nothing is asked of the server. A card is opened by its key.
SEARCH_JS = """
const search = element.querySelector('input'), paper = element.querySelector('select');
const filter = () => {
  const words = search.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let n = 0;
  element.querySelectorAll('.paper').forEach((group) => {
    let here = 0;
    group.querySelectorAll('.measure').forEach((card) => {
      const fits = (!paper.value || paper.value === card.dataset.paper)
        && words.every((word) => card.dataset.text.includes(word));
      card.hidden = !fits;
      here += fits;
    });
    group.hidden = !here;
    n += here;
  });
  const text = n ? `${n} ${n === 1 ? 'measure' : 'measures'}` : 'No measure has all of these words.';
  element.querySelector('[role=status]').textContent = text;
};
search.addEventListener('input', filter);
paper.addEventListener('change', filter);
element.querySelectorAll('button[data-go]').forEach((button) => {
  button.hidden = !(button.dataset.go in window.tabTitles);
});
const open = (key) => {
  const card = key && element.querySelector(`#measure-${CSS.escape(key)}`);
  if (!card) return;
  search.value = paper.value = '';
  filter();
  card.scrollIntoView({block: 'start'});
  card.focus({preventScroll: true});
};
document.addEventListener('open-measure', (event) => open(event.detail));
setTimeout(() => open(window.wantedMeasure || new URLSearchParams(location.search).get('measure')), 60);
"""


def methods_html(metrics: Iterable[Card]) -> str:
    """The search field, and every card under its source."""
    measures, works = list(metrics), load_references()
    groups: dict[str, list[Card]] = {}
    for metric in measures:
        groups.setdefault(metric.reference if metric.reference in PAPERS else "", []).append(metric)
    sources = dict.fromkeys(metric.reference for metric in measures)
    choices = "".join(f'<option value="{escape(key)}">{escape(works[key].short)}</option>' for key in sources)
    return (
        '<div class="measures"><div class="find" role="search"><label>Search'
        '<input type="search" placeholder="for example: Ψ, gender, cosine"></label>'
        f'<label>Source<select><option value="">All</option>{choices}</select></label>'
        f'<p role="status">{len(measures)} measures</p></div>'
        f"{''.join(_group(key, members) for key, members in sorted(groups.items(), key=_place))}</div>"
    )


def _place(group: tuple[str, Sequence[Card]]) -> int:
    return PAPERS.index(group[0]) if group[0] in PAPERS else len(PAPERS)


def _group(key: str, members: Sequence[Card]) -> str:
    works = load_references()
    cards = "".join(_card(metric, works[metric.reference]) for metric in members)
    title = escape(works[key].short) if key else "Statistics beside them"
    about = reference_html(works[key]) if key else "Agreement, evenness, order and paired differences."
    return (
        f'<section class="paper"><h3>{title}</h3><p class="quiet">{about}</p>'
        f'<div class="cards">{cards}</div></section>'
    )


def reference_html(work: Reference) -> str:
    """A work as it stands in a list of references, its title linked where an address is known."""
    title = escape(work.title)
    if work.url:
        title = f'<a href="{escape(work.url)}" target="_blank" rel="noopener">{title}</a>'
    where = f" {escape(work.venue)}." if work.venue else ""
    return f"{escape(work.authors)} ({escape(work.year)}). {title}.{where}"


def _card(metric: Card, work: Reference) -> str:
    lines = "".join(f"<p>{math_html(line)}</p>" for line in formula(metric))
    facts = {
        "Range": _range(metric),
        "Higher means": escape(metric.higher_means),
        "Limits": escape(metric.limits),
        "Shown in": _shown_in(metric),
    }
    return (
        f'<article class="measure card" id="measure-{escape(metric.key)}" tabindex="-1" '
        f'data-paper="{escape(work.key)}" data-text="{escape(_searched(metric, work))}">'
        f"<h4>{escape(metric.name)}</h4><p>{escape(metric.summary)}</p>"
        f'<div class="math">{lines}</div>{_listed(facts)}{_more(metric, work)}</article>'
    )


def _more(metric: Card, work: Reference) -> str:
    """What it needs, its source in full and its function, on demand."""
    needs = "".join(f"<li>{escape(entry.means)}</li>" for entry in metric.inputs)
    function = f"{metric.function.__module__}.{metric.function.__name__}"
    field = f", its <code>{escape(metric.field)}</code>" if metric.field else ""
    facts = {
        "Needs": f"<ul>{needs}</ul>",
        "Source": f"{escape(metric.equation)}{' in ' if metric.equation else ''}{reference_html(work)}",
        "In Python": f"<code>{escape(function)}</code>{field}",
    }
    return f"<details><summary>What it needs, its source, in Python</summary>{_listed(facts)}</details>"


def _listed(facts: Mapping[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{value}</dd>' for name, value in facts.items())}</dl>"


def _searched(metric: Card, work: Reference) -> str:
    told = (metric.key, metric.name, metric.summary, metric.limits, metric.higher_means, work.short)
    return " ".join((*told, *(entry.means for entry in metric.inputs), *formula(metric))).lower()


def _shown_in(metric: Card) -> str:
    keys = _TABS_BY_MEASURE.get(metric.key) or _TABS_BY_PAPER.get(metric.reference, _RATERS)
    buttons = "".join(f'<button type="button" data-go="{key}">{TITLES[key]}</button>' for key in keys)
    return f'<span class="takes">{buttons}</span>'


def _range(metric: Card) -> str:
    """The range as a line with its ends, and where "no bias" lies on it."""
    low, high = metric.bounds
    null = metric.null_value
    said = "no value means “no bias”" if null is None else f"no bias reads {null:g}"
    if null is not None and math.isfinite(low) and math.isfinite(high):
        at = f"{4 + 92 * (null - low) / (high - low):.1f}"
    else:
        at = "50" if null is not None and math.isinf(low) else "" if null is None else "12"
    tick = f'<path class="null" d="M{at} 1V13"/>' if at else ""
    line = f'<svg viewBox="0 0 100 14" aria-hidden="true"><path d="M4 7H96"/>{tick}</svg>'
    return f'<span class="range">{_bound(low)} {line} {_bound(high)}</span> {said}'


def _bound(value: float) -> str:
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return f"{value:.3g}".replace("-", "−")


_SIGNS = {" - ": " − ", ">=": "≥", "X~": "X̃", "Y~": "Ỹ", " x ": " × "}


def math_html(line: str) -> str:
    """A formula's line of text with real sub- and superscripts and signs.

    Examples
    --------
    >>> math_html("H_J = 1/N Σ_i x_{i+1} - X^A")
    'H<sub>J</sub> = 1/N Σ<sub>i</sub> x<sub>i+1</sub> − X<sup>A</sup>'
    """
    for text, sign in _SIGNS.items():
        line = line.replace(text, sign)
    line = escape(line, quote=False)
    line = re.sub(
        r"_(?:\{([^}]*)\}|(\w)(?![A-Za-z0-9]))", lambda found: f"<sub>{found[1] or found[2]}</sub>", line
    )
    line = re.sub(r"\^(\w)", r"<sup>\1</sup>", line)
    return re.sub(r"(?<![\w)])-(?=\d)", "−", line)
