"""OASIS with people's labels: δA from labelled pictures (A.2), and the accuracy of the classifier (Tables 4, 5)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from bias_core.annotation.tasks import answer_key
from bias_core.errors import InvalidInput
from bias_core.metrics.direction import image_direction
from bias_core.stats.effects import share_interval
from bias_core.studies.kit.designs import ReportTexts
from bias_core.studies.kit.labels import answers_counted, check_words, majority
from bias_core.studies.kit.types import StudyTable, columns
from bias_core.types import Attribute

TEXTS = ReportTexts(__file__)
Labels = Mapping[str, "pd.Series[float]"]
"""By attribute what people say of each picture, by its id: 1 shown, 0 not shown, nan for ties and what is unclear."""
_ANSWERS = {"yes": 1.0, "no": 0.0, "cannot_tell": np.nan}


def people_labels(
    frame: pd.DataFrame, answers: pd.DataFrame, attributes: Mapping[str, Sequence[Attribute]]
) -> tuple[Labels, str]:
    """The answer of most raters about the pictures of ``frame``, and in words how many answers counted."""
    answers = answers_about(answers, attributes)
    counted, positions = answers["image_id"].isin(frame["image_id"]), dict.fromkeys(frame["image_id"], ())
    says = f"{answers_counted(answers, counted, positions)} P, P − P* and Ψ stay the classifier's."
    by_name = answers[counted].groupby("position", sort=False)
    return {str(name): majority(own).map(_ANSWERS) for name, own in by_name}, says


def answers_about(answers: pd.DataFrame, attributes: Mapping[str, Sequence[Attribute]]) -> pd.DataFrame:
    """People's answers, the position being an attribute's name; of a single attribute it may be left out.

    InvalidInput for other positions and for other answers than yes, no and cannot tell.
    """
    names = {_key(one.name): one.name for own in attributes.values() for one in own}
    check_words(answers, _ANSWERS)
    only = next(iter(names.values())) if len(names) == 1 else None
    about = answers["attribute"].where(answers["attribute"] != "", answers["position"])
    positions = about.map(lambda text: only if only and not text else names.get(_key(text)))
    if positions.isna().any():
        strange = about[positions.isna()].iloc[0]
        where = ", ".join(answers["task"].unique())
        raise InvalidInput(f"positions of answers in {where} are one of {', '.join(names.values())}; got {strange!r}")
    return answers.assign(position=positions)


def _key(text: str) -> str:
    """How a labelling task writes the name of an attribute."""
    return answer_key(text) if any(one.isascii() and one.isalnum() for one in text) else text.lower()


def labelled_directions(
    labels: Labels, frame: pd.DataFrame, rows: np.ndarray, kernel: Literal["linear", "rbf"]
) -> dict[str, np.ndarray]:
    """δA of every attribute with labelled pictures of both kinds [dehdashtian2025oasis, A.2]; ``rows (n, d)``."""
    once = ~frame["image_id"].duplicated().to_numpy()
    directions = {}
    for name, of_pictures in labels.items():
        shown = of_pictures.reindex(frame["image_id"]).to_numpy()
        known = once & ~np.isnan(shown)
        if len(np.unique(shown[known])) == len({0.0, 1.0}):
            directions[name] = image_direction(rows[known], shown[known], kernel=kernel)
    return directions


def accuracy_tables(
    labels: Labels,
    parts: Mapping[str, pd.DataFrame],
    confidence: float,
    published: Callable[[str, str], Mapping[str, float]],
) -> list[StudyTable]:
    """How often the classifier says what people say, by attribute and part of the pictures; none without labels.

    ``published`` are the paper's numbers of a part and an attribute.
    """
    rows: list[dict[str, Any]] = []
    for part, frame in parts.items():
        pictures = frame.drop_duplicates("image_id")
        for name, of_pictures in labels.items():
            if f"{name}: nearer by" not in pictures:  # of a stopped run, which reads what its pictures are of
                continue
            margins = pictures[f"{name}: nearer by"].to_numpy(float)
            shown = of_pictures.reindex(pictures["image_id"]).to_numpy(float)
            known = ~np.isnan(shown) & ~np.isnan(margins)
            if n := int(known.sum()):
                right = share_interval(int(((margins > 0) == shown)[known].sum()), n, confidence=confidence)
                first = {"attribute": name, "pictures": part, **columns("accuracy", right), "labelled": n}
                rows.append({**first, **published(part, name)})
    return [TEXTS.table("accuracy", rows)] if rows else []
