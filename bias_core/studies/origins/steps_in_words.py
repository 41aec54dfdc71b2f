"""From which step on an attribute can be seen, and at which it is first seen beside a base prompt, in plain words."""

import numpy as np

from bias_core.metrics.steps_seen import StepsSeen
from bias_core.number_text import format_change
from bias_core.studies.kit.types import Finding, StudyReport, finding
from bias_core.types import Estimate

VISIBLE, FIRST = "visible", "first seen"  # ends of the findings' keys


def step_findings(key: str, title: str, visible: StepsSeen, first: StepsSeen, n_steps: int) -> tuple[Finding, Finding]:
    """The shares of seeds, each with its sentence."""
    return (
        finding(
            f"{key} {VISIBLE}", f"{title}: can be seen", "visible_steps", visible.by_typical,
            visible_sentence(visible, n_steps),
        ),
        finding(
            f"{key} {FIRST}", f"{title}: first seen beside the base prompt", "first_seen_steps", first.by_typical,
            first_sentence(first, n_steps),
        ),
    )  # fmt: skip


def visible_sentence(steps: StepsSeen, n_steps: int) -> str:
    """From which step on it can be seen.

    >>> from bias_core.metrics.steps_seen import visible_steps
    >>> visible_sentence(visible_steps([[-0.1, 0.2], [0.1, 0.1], [-0.2, -0.1]]), 2)
    'It can be seen from the start, by then in 1 of 3 seeds [2 %, 86 %]; by step 2 in all 2 that end with it.'
    >>> visible_sentence(visible_steps([[0.2, -0.1], [0.2, -0.1]]), 2)
    'It cannot be seen: the reader sees it in none of 2 finished pictures.'
    """
    n, n_seen = len(steps.each), steps.n_seen
    if not n_seen:
        return f"It cannot be seen: the reader sees it in none of {n} finished pictures."
    when = f"from step {steps.typical:.0f} of {n_steps} on"
    if steps.typical == 1:
        when = "from the start"
    elif steps.typical == n_steps:
        when = "at the last step only"
    latest = float(np.nanmax(steps.each))
    rest = f"; by step {latest:.0f} in all {n_seen} that end with it" if latest > steps.typical else ""
    if not rest and n_seen < n:
        rest = f"; {n - n_seen} end without it"
    return f"It can be seen {when}, by then in {_share(steps.by_typical)}{rest}."


def first_sentence(steps: StepsSeen, n_steps: int) -> str:
    """At which step it is first seen where the base prompt lacks it.

    >>> from bias_core.metrics.steps_seen import first_seen_steps
    >>> steps = first_seen_steps([[-0.1, -0.1], [0.1, 0.1]], [[-0.1, 0.2], [0.1, 0.1]])
    >>> first_sentence(steps, 2).partition(", by then ")
    ('Where the base prompt lacks it, it is first seen at step 2 of 2', ', by then ', 'in 1 of 2 seeds [3 %, 97 %]; in 1 never.')
    """  # noqa: E501 - one sentence
    n = len(steps.each)
    if not steps.n_seen:
        return f"Where the base prompt lacks it, it is not seen at any step of {n} seeds."
    when = "from the start" if steps.typical == 1 else f"at step {steps.typical:.0f} of {n_steps}"
    never = f"; in {n - steps.n_seen} never" if steps.n_seen < n else ""
    return f"Where the base prompt lacks it, it is first seen {when}, by then in {_share(steps.by_typical)}{never}."


def step_sentences(report: StudyReport, key: str) -> list[str]:
    """Both sentences and that of SPI, of an attribute by its key in a report."""
    says = {one.key: one for one in report.results.findings}
    steps = [says[f"{key} {end}"].says for end in (VISIBLE, FIRST)]
    spi = says.get(f"{key} SPI")
    if spi is None:
        return steps
    value = format_change(spi.estimate.value, spi.estimate.low, spi.estimate.high, n=spi.estimate.n)
    return [*steps, f"SPI of the first step is {value}. {spi.says.removeprefix('As the paper has it. ')}"]


def _share(share: Estimate) -> str:
    return f"{share.value * share.n:.0f} of {share.n} seeds [{100 * share.low:.0f} %, {100 * share.high:.0f} %]"
