"""TBYB: what was read in each picture, beside it: its caption, its objects, and how far it strays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.metrics.object_bias import to_person
from bias_core.studies.objects.captions import STRONGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.objects.captions import Reading


def keep_reading(reading: Reading, data: StudyData) -> None:
    """Put the caption and what follows from it into the frame, for the page and the export."""
    folded = [
        (set(to_person(asked)), set(to_person(seen)))
        for asked, seen in zip(reading.prompt_objects, reading.image_objects, strict=True)
    ]
    data.keep(
        data.frame,
        caption=reading.captions,
        objects=[_list(seen) for seen in reading.image_objects],
        added=[_list(sorted(seen - asked)) for asked, seen in folded],
        left_out=[_list(sorted(asked - seen)) for asked, seen in folded],
        H_J=reading.distances,
        p_miss=reading.p_miss[STRONGER],
    )


SEPARATOR = ", "


def _list(words: Iterable[str]) -> str:
    return SEPARATOR.join(words)


def objects_of(cell: str) -> Sequence[str]:
    """The objects that a cell of the frame names."""
    return cell.split(SEPARATOR) if cell else []
