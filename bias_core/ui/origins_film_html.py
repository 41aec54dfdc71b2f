"""SPI over the steps of a generation, linked with the picture that each step is heading for.

Everything is in the page: moving over a step, dragging the slider, the arrow keys and Play ask the server
for nothing.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.studies.number_text import format_estimate, format_interval, format_number
from bias_core.ui.groups import N_COLOURS
from bias_core.ui.origins_film import films
from bias_core.ui.pictures import data_uri
from bias_core.ui.study_html import TAKE_JS, takes_html
from bias_core.ui.take import FIGURE_FORMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bias_core.studies.study_types import StudyReport
    from bias_core.types import Estimate
    from bias_core.ui.origins_film import Film, Line

_PIXELS = 112  # of a picture in the page
_TICKS = 5

FILM_JS = (
    TAKE_JS
    + """
const show = (film, wanted) => {
  const last = Number(film.dataset.steps) + 1;
  const step = Math.min(Math.max(Math.round(wanted), 1), last);
  const name = step === last ? 'finished' : `step ${step} of ${last - 1}`;
  const slider = film.querySelector('input[type=range]');
  film.style.setProperty('--at', (step - 0.5) / last);
  slider.value = step;
  slider.setAttribute('aria-valuetext', name);
  film.querySelector('output').textContent = name;
  film.querySelectorAll('[data-at]').forEach((node) => { node.hidden = Number(node.dataset.at) !== step; });
  film.querySelectorAll('[data-seed]').forEach((seed) => {
    const strip = [...film.querySelectorAll(`[data-strip="${seed.dataset.seed}"] img`)];
    const here = strip.filter((image) => Number(image.dataset.step) <= step).pop() ?? strip[0];
    strip.forEach((image) => image.classList.toggle('here', image === here));
    seed.querySelector('img').src = here.src;
  });
};
const now = (film) => Number(film.querySelector('input[type=range]').value);
const pause = (film) => {
  clearInterval(film.timer);
  film.timer = undefined;
  film.querySelector('.film-play').textContent = 'Play';
};
const play = (film) => {
  const last = Number(film.dataset.steps) + 1;
  film.querySelector('.film-play').textContent = 'Pause';
  if (now(film) === last) show(film, 1);
  film.timer = setInterval(() => {
    if (!film.isConnected || now(film) === last) pause(film); else show(film, now(film) + 1);
  }, 450);
};
const follow = (event) => {
  const film = event.target.closest('.film');
  const over = event.target.closest('.film-plot, .film-strip');
  if (!film || !over || film.timer) return;
  const box = over.getBoundingClientRect();
  show(film, (event.clientX - box.left) / box.width * (Number(film.dataset.steps) + 1) + 0.5);
};
element.addEventListener('pointermove', follow);
element.addEventListener('pointerdown', (event) => {
  const film = event.target.closest('.film');
  if (!event.target.closest('.film-plot, .film-strip')) return;
  if (film.timer) pause(film);
  follow(event);
  setTimeout(() => film.querySelector('input[type=range]').focus(), 0);
});
element.addEventListener('input', (event) => {
  const film = event.target.closest('.film');
  if (film.timer) pause(film);
  show(film, Number(event.target.value));
});
element.addEventListener('click', (event) => {
  const film = event.target.closest('.film');
  const line = event.target.closest('[data-line]');
  if (event.target.closest('.film-play')) (film.timer ? pause : play)(film);
  if (line) {
    const shown = line.getAttribute('aria-pressed') !== 'true';
    line.setAttribute('aria-pressed', shown);
    const drawn = film.querySelectorAll(`.line-${line.dataset.line}`);
    drawn.forEach((node) => node.classList.toggle('off', !shown));
  }
});
"""
)


def films_html(report: StudyReport) -> str:
    """All concepts of an SPI report, one below the other."""
    return "".join(film_html(film) for film in films(report))


def film_html(film: Film) -> str:
    """Curves, filmstrips, the pictures of the chosen step and what that step does."""
    last = film.n_steps + 1
    name = escape(film.concept)
    return (
        f'<section class="film card" data-steps="{film.n_steps}" style="--at:{0.5 / last:.4f}" '
        f'aria-label="{name}: steps and predicted pictures">'
        f"<h3>{name}: what each denoising step adds, and where it is heading</h3>"
        f'<p class="quiet">{escape(film.velocities)}</p>{_tools(film)}'
        f'<div class="film-axes"><span class="film-unit">SPI</span>{_plot(film)}'
        f"{''.join(_strip(seed, cells, last) for seed, cells in film.strips.items())}</div>"
        f'<div class="film-now">{_pictures(film)}{_readouts(film)}</div>'
        f"<h4>At which step is an attribute decided?</h4>{_decided(film)}"
        f"{takes_html('figure', film.key, FIGURE_FORMS, 'The curves:')}"
        f"{takes_html('figure', film.predicted, FIGURE_FORMS, 'The filmstrips:')}</section>"
    )


def _tools(film: Film) -> str:
    lines = "".join(
        f'<button type="button" class="film-line {line.classes.split()[0]}" data-line="{line.number}" '
        f'aria-pressed="true">{escape(line.name)}</button>'
        for line in film.lines
    )
    return (
        '<div class="film-tools"><button type="button" class="film-play">Play</button>'
        f'<label>Step <input type="range" min="1" max="{film.n_steps + 1}" value="1" step="1" '
        f'aria-label="Denoising step of {escape(film.concept)}" aria-valuetext="step 1 of {film.n_steps}">'
        f"<output>step 1 of {film.n_steps}</output></label>"
        f'<span class="film-lines" role="group" aria-label="Show attributes">{lines}</span></div>'
    )


def _plot(film: Film) -> str:
    low, high = _reach(film)
    width = film.n_steps + 1  # one column a step, and one for the finished picture

    def y(value: float) -> float:
        return 100 * (high - value) / (high - low)

    drawn = "".join(_curves(line, y) for line in film.lines)
    ticks = "".join(
        f'<span class="film-tick" style="top:{y(value):.2f}%">{value:g}</span>' for value in _ticks(low, high)
    )
    marks = "".join(_mark(line, width, y) for line in film.lines if line.clear is not None)
    every = max(1, math.ceil(film.n_steps / 12))
    steps = "".join(
        f'<span class="film-step" style="left:{100 * (i + 0.5) / width:.2f}%">{i + 1}</span>'
        for i in range(0, film.n_steps, every)
    )
    return (
        f'<div class="film-plot"><svg viewBox="0 0 {width} 100" preserveAspectRatio="none" '
        f'aria-hidden="true"><path class="zero" d="M0 {y(0):.2f}H{width}"/>{drawn}</svg>{ticks}{marks}'
        f'<span class="film-end">end</span>{steps}<i class="film-cursor"></i></div>'
    )


def _reach(film: Film) -> tuple[float, float]:
    """What the axis spans: bands, single seeds and 0."""
    values = [0.0]
    for line in film.lines:
        values += [v for step in line.band for v in (step.value, step.low, step.high) if math.isfinite(v)]
        values += [float(v) for single in line.singles.values() for v in single]
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.1
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within the axis, 0 among them.

    Examples
    --------
    >>> _ticks(-0.23, 0.41)
    [-0.2, 0.0, 0.2, 0.4]
    """
    rough = (high - low) / _TICKS
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
    return [round(k * step, 10) + 0.0 for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _curves(line: Line, y: Any) -> str:
    def path(values: Sequence[float]) -> str:
        return " ".join(f"{i + 0.5:g},{y(v):.2f}" for i, v in enumerate(values))

    single = "".join(
        f'<polyline class="single" points="{path(values.tolist())}"/>' for values in line.singles.values()
    )
    band = ""
    if all(math.isfinite(step.low) and math.isfinite(step.high) for step in line.band):
        there = path([step.high for step in line.band])
        back = " ".join(reversed(path([step.low for step in line.band]).split(" ")))
        band = f'<polygon class="band" points="{there} {back}"/>'
    mean = f'<polyline class="mean" points="{path([step.value for step in line.band])}"/>'
    return f'<g class="{line.classes}">{band}{single}{mean}</g>'


def _mark(line: Line, width: int, y: Any) -> str:
    step = line.clear or 0
    at = f"left:{100 * (step + 0.5) / width:.2f}%;top:{y(line.band[step].value):.2f}%"
    title = f"{line.name}: first interval that excludes 0, step {step + 1}"
    return f'<i class="film-mark {line.classes}" style="{at}" title="{escape(title)}"></i>'


def _strip(seed: str, cells: Sequence[tuple[int, Path]], last: int) -> str:
    """The predicted pictures of a seed below their steps; one stands until the next is there."""
    starts = [1, *(step for step, _ in cells[1:])]
    ends = [*starts[1:], last + 1]
    images = "".join(
        f'<img src="{data_uri(path, _PIXELS)}" alt="" data-step="{start}" '
        f'class="{"here" if i == 0 else ""}" style="grid-column:{start}/{end}">'
        for i, ((_, path), start, end) in enumerate(zip(cells, starts, ends, strict=True))
    )
    return (
        f'<span class="film-name" title="seed {escape(seed)}">{escape(seed)}</span>'
        f'<div class="film-strip" data-strip="{escape(seed)}" aria-hidden="true" '
        f'style="grid-template-columns:repeat({last},minmax(0,1fr))">{images}</div>'
    )


def _pictures(film: Film) -> str:
    """The chosen step, every seed beside the others, with the finished picture in the corner."""
    figures = []
    for seed, cells in film.strips.items():
        first, finished = data_uri(cells[0][1], _PIXELS), data_uri(cells[-1][1], _PIXELS)
        figures.append(
            f'<figure data-seed="{escape(seed)}"><img class="large pixels" src="{first}" '
            f'alt="Predicted picture of seed {escape(seed)} at the chosen step">'
            f'<img class="corner" src="{finished}" alt="Finished picture of seed {escape(seed)}">'
            f"<figcaption>seed {escape(seed)}</figcaption></figure>"
        )
    note = "Large: the picture that the chosen step is heading for. Small: what became of it."
    return f'<div><div class="film-seeds">{"".join(figures)}</div><p class="quiet">{note}</p></div>'


def _readouts(film: Film) -> str:
    """What each step does, one table a step; only that of the chosen step is shown."""
    tables = []
    for i in range(film.n_steps):
        rows = "".join(_reading(line, i) for line in film.lines)
        tables.append(
            f'<div data-at="{i + 1}"{" hidden" if i else ""}><table class="scores plain film-table"><caption>'
            f"Step {i + 1} of {film.n_steps}</caption><thead><tr><th scope='col'>attribute</th>"
            f"<th scope='col'>this step</th><th scope='col'>SPI, mean of {film.n_seeds}</th>"
            f"<th scope='col'>interval</th></tr></thead><tbody>{rows}</tbody></table></div>"
        )
    end = (
        f'<div data-at="{film.n_steps + 1}" hidden><p>The finished pictures: nothing is left to add or to '
        "take away, so there is no SPI.</p></div>"
    )
    return f'<div class="film-read">{"".join(tables)}{end}</div>'


def _reading(line: Line, i: int) -> str:
    step = line.band[i]
    value = format_number(step.value, step.low, step.high, n=step.n)
    sign, interval = "+" if step.value > 0 else "", format_interval(step.low, step.high)
    return (
        f'<tr class="c{line.number % N_COLOURS}"><th scope="row">{escape(line.name)}</th>'
        f"<td>{_does(step)}</td><td>{sign}{value}</td><td>{interval}</td></tr>"
    )


def _does(step: Estimate) -> str:
    if math.isnan(step.low):
        return "one seed: not known"
    if step.low > 0:
        return "towards it"
    return "away from it" if step.high < 0 else "neither clearly"


def _decided(film: Film) -> str:
    lines = "".join(f"<li>{_sentence(line, film.n_steps)}</li>" for line in film.lines)
    n = film.n_steps * len(film.lines)
    chance = n * (1 - film.confidence)
    return (
        f'<ul class="keep film-decided">{lines}</ul><p class="quiet">Read as: the first step at which the '
        f"mean of {film.n_seeds} seeds is told apart from 0 (the ring on its curve). Each step is judged on "
        f"its own: where nothing is added or taken away, about {chance:.0f} of these {n} intervals would "
        f"exclude 0 by chance. {_NOT}</p>"
    )


_NOT = (
    "SPI is a direction, not an amount: a step above 0 need not leave the attribute in the finished picture, "
    "and once the attribute is there, later steps may well read 0 or below. It does not say that stopping or "
    "changing that step would change the outcome."
)


def _sentence(line: Line, n_steps: int) -> str:
    name, end = f"<b>{escape(line.name)}</b>", line.finished
    shown = (
        f"In the end it is read in {format_estimate(end.value, end.low, end.high, n=end.n)} of the pictures."
    )
    if math.isnan(line.band[0].low):
        return f"{name}: one seed has no interval, so this cannot be told. {shown}"
    if line.clear is None:
        return f"{name}: at none of the {n_steps} steps, which is no proof that it is never added. {shown}"
    step = line.band[line.clear]
    way = "moves towards it" if step.value > 0 else "moves away from it"
    early = "from pure noise" if line.clear == 0 else f"{100 * line.clear / n_steps:.0f} % of the way"
    return (
        f"{name}: step {line.clear + 1} of {n_steps} ({early}) {way}, SPI {step.value:+.3f} "
        f"[{step.low:+.3f}, {step.high:+.3f}]. {shown}"
    )
