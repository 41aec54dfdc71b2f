"""The internal bias study on targets of a visitor's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bias_core.errors import InvalidInput
from bias_core.prompts import fill_template
from bias_core.studies.designs import find_design
from bias_core.studies.internal_bias import GENDERS
from bias_core.studies.internal_bias_report import UNASSIGNED

if TYPE_CHECKING:
    from bias_core.studies.study_types import Design

NAME = "own-targets"
TEMPLATE = "an image of a {}"
MOST_TARGETS = 40
MOST_PICTURES = 100
_BAR = "|"
_PARTS = 3


def own_targets(text: str, *, n: int = 10, n_attribute: int = 6) -> Design:
    """The design of the study on other targets.

    Parameters
    ----------
    text : a target a line: its keyword, and after bars its prompt and the gender that people expect, both as
        wanted ("Judge | an image of a judge in court | male"); without a prompt "an image of a judge".
    n : pictures of each target.
    n_attribute : pictures of each of the eight prompts of men and women.

    Raises
    ------
    InvalidInput
        For no target, too many, the same one twice, or a line that cannot be read.

    Examples
    --------
    >>> own_targets("judge").data["targets"][0]["prompt"]
    'an image of a judge'
    """
    targets = [_target(line) for line in text.splitlines() if line.strip()]
    keywords = [target["keyword"] for target in targets]
    if not 1 <= len(targets) <= MOST_TARGETS:
        raise InvalidInput(f"write 1 to {MOST_TARGETS} targets, one a line; got {len(targets)}")
    if twice := {keyword for keyword in keywords if keywords.count(keyword) > 1}:
        raise InvalidInput(f"the same target twice: {', '.join(sorted(twice))}")
    for count in (n, n_attribute):
        if not 2 <= count <= MOST_PICTURES:
            raise InvalidInput(f"2 to {MOST_PICTURES} pictures of each prompt; got {count}")
    paper = find_design("internal-bias")
    data = {key: value for key, value in paper.data.items() if key not in ("scores", "summary")}
    data |= {"targets": targets, "settings": data["settings"] | {"images_per_attribute": n_attribute}}
    return replace(
        paper,
        name=NAME,
        title="Bias inside the model, on targets of your own",
        where="Eq. 1 to 5, with targets of your own",
        summary=f"How {', '.join(keywords)} lean between men and women as pictures and as text, and what "
        "drawing adds to what the text already leans to.",
        data=data,
        images_per_prompt=n,
        options={**paper.options, "targets": keywords},
    )


def _target(line: str) -> dict[str, str]:
    parts = [" ".join(part.split()) for part in line.split(_BAR)]
    keyword, prompt, side = [*parts, "", ""][:_PARTS]
    if len(parts) > _PARTS or not keyword or side not in ("", *GENDERS):
        raise InvalidInput(f"write a target as 'keyword | prompt | male or female', got {line.strip()!r}")
    return {
        "category": "own",
        "keyword": keyword,
        "dominated": side or UNASSIGNED,
        "prompt": prompt or fill_template(TEMPLATE, keyword),
    }
