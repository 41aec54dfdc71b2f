"""The paired pictures of a comparison: one seed under a slider, and a strip of all that changed."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.studies.compare_report import SEED_GIVES_ANOTHER
from bias_core.studies.number_text import format_number
from bias_core.ui.pictures import data_uri

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.study_types import StudyReport

IN_STRIP = 40
_LARGE, _SMALL = 512, 64  # pixels
_SMOOTH = 256  # from this size on a picture is enlarged smoothly
_PLAIN = ("first", "second", "seed", "change", "first picture", "second picture")

# Where the slider stands is kept from seed to seed; an update of the page draws it anew.
SLIDE_JS = """
let cut = '50';
const sync = () => element.querySelectorAll('input[type=range]').forEach((range) => {
  if (range.value !== cut) range.value = cut;
});
element.addEventListener('input', (event) => {
  if (!event.target.matches('input[type=range]')) return;
  cut = event.target.value;
  element.style.setProperty('--cut', cut + '%');
});
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-seed]');
  if (node) trigger('select', {seed: node.dataset.seed});
});
new MutationObserver(sync).observe(element, {childList: true, subtree: true});
"""


def pair_choices(report: StudyReport) -> list[tuple[str, str]]:
    """The pairs of arms, as choices of a menu."""
    pairs = _seeds(report)[["first", "second"]].drop_duplicates().itertuples(index=False)
    return [(f"{first} and {second}", str(i)) for i, (first, second) in enumerate(pairs)]


def seed_choices(report: StudyReport, pair: str) -> list[tuple[str, str]]:
    """The seeds of a pair, the most changed first."""
    return [
        (f"seed {row['seed']}, change {format_number(row['change'])}{_flips(row)}", str(row["seed"]))
        for _, row in rows_of(report, pair).iterrows()
    ]


def rows_of(report: StudyReport, pair: str) -> pd.DataFrame:
    """The seeds of a pair of arms whose pictures are still there, the most changed first."""
    frame = _seeds(report)
    pairs = list(frame[["first", "second"]].drop_duplicates().itertuples(index=False, name=None))
    first, second = pairs[int(pair)] if pair.isdigit() and int(pair) < len(pairs) else pairs[0]
    there = frame["first picture"].isin(list(report.stored)) & frame["second picture"].isin(
        list(report.stored)
    )
    return frame[(frame["first"] == first) & (frame["second"] == second) & there]


def slide_html(report: StudyReport, pair: str, seed: str) -> str:
    """The two pictures of a seed over each other, and what the reader sees in each."""
    rows = rows_of(report, pair)
    chosen = rows[rows["seed"].astype(str) == str(seed)]
    if chosen.empty:
        return '<p class="quiet">The pictures of this seed are no longer stored.</p>'
    row = chosen.iloc[0]
    first, second = (report.stored[row[f"{side} picture"]] for side in ("first", "second"))
    names = escape(str(row["first"])), escape(str(row["second"]))
    small = " pixels" if max(first.row.width, second.row.width) < _SMOOTH else ""
    images = "".join(
        f'<img class="{side}{small}" src="{data_uri(stored.path, _LARGE)}" '
        f'alt="Seed {row["seed"]} in “{escape(str(row[side]))}”: {escape(stored.row.prompt)}">'
        for side, stored in (("second", second), ("first", first))
    )
    return (
        f'<article class="compared" aria-label="Seed {row["seed"]}"><div class="slide">'
        f'<div class="stack">{images}</div>'
        '<input type="range" min="0" max="100" value="50" '
        f'aria-label="How much of “{names[0]}” is uncovered, in percent">'
        f'<p class="ends"><span>◧ {names[0]}</span><span>{names[1]} ◨</span></p>'
        f"</div><div>{_facts(report, row)}</div></article>"
    )


def _facts(report: StudyReport, row: pd.Series[Any]) -> str:
    first, second = (report.stored[row[f"{side} picture"]].row for side in ("first", "second"))
    facts = {"Seed": str(row["seed"]), "Change": f"{format_number(row['change'])}, one minus the cosine"}
    if first.prompt == second.prompt:
        facts["Prompt of both"] = first.prompt
    else:
        facts |= {f"Prompt of {row['first']}": first.prompt, f"Prompt of {row['second']}": second.prompt}
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    seen = "".join(_seen(str(name), str(row[name])) for name in attributes_of(row))
    head = "".join(
        f'<th scope="col">{escape(text)}</th>'
        for text in ("perceived", str(row["first"]), str(row["second"]))
    )
    return (
        f"<dl>{listed}</dl>"
        f'<table class="scores plain"><thead><tr>{head}</tr></thead><tbody>{seen}</tbody></table>'
    )


def _seen(name: str, both: str) -> str:
    before, _, after = both.partition(" → ")
    changed = ' class="flipped"' if before != after else ""
    return f'<tr{changed}><th scope="row">{escape(name)}</th><td>{before}</td><td>{after}</td></tr>'


def strip_html(report: StudyReport, pair: str, seed: str) -> str:
    """A button for each of the most changed seeds with both pictures, one above the other."""
    rows = rows_of(report, pair)
    buttons = "".join(_button(report, row, seed) for _, row in rows.head(IN_STRIP).iterrows())
    cut = len(rows) - IN_STRIP
    more = f" The {IN_STRIP} most changed of {len(rows)}; the menu has them all." if cut > 0 else ""
    first, second = (
        (escape(str(rows.iloc[0][side])) for side in ("first", "second")) if len(rows) else ("", "")
    )
    alike = "".join(
        f'<p class="notes">{escape(note)}</p>'
        for note in report.results.notes
        if note.startswith(SEED_GIVES_ANOTHER) and f"“{first}” and “{second}”" in escape(note)
    )
    return (
        f'{alike}<p class="quiet">Above “{first}”, below “{second}”, the most changed first.{more} '
        "A mark: the reader sees an attribute in one of the two only.</p>"
        f'<div class="pairs">{buttons}</div>'
    )


def _button(report: StudyReport, row: pd.Series[Any], seed: str) -> str:
    images = "".join(
        f'<img src="{data_uri(report.stored[row[f"{side} picture"]].path, _SMALL)}" alt="">'
        for side in ("first", "second")
    )
    flips = _flips(row)
    pressed = "true" if str(row["seed"]) == str(seed) else "false"
    name = f"Seed {row['seed']}, change {format_number(row['change'])}{flips}"
    mark = '<b aria-hidden="true">●</b>' if flips else ""
    return (
        f'<button type="button" data-seed="{row["seed"]}" aria-pressed="{pressed}" title="{escape(name)}" '
        f'aria-label="{escape(name)}">{images}<small>{row["seed"]}{mark}</small></button>'
    )


def attributes_of(row: pd.Series[Any]) -> list[str]:
    """The columns that hold whether an attribute is seen."""
    return [str(name) for name in row.index if name not in _PLAIN]


def _flips(row: pd.Series[Any]) -> str:
    changed = [name for name in attributes_of(row) if row[name] in ("no → yes", "yes → no")]
    return "".join(f", {name} {row[name]}" for name in changed)


def _seeds(report: StudyReport) -> pd.DataFrame:
    return next(table.frame for table in report.results.tables if table.key == "seeds")
