"""Blocked pictures: counted once each, and in no score.

A picture is blocked if its model or host refused to draw it, or if it is blanked: black, of one colour, or blurred by a
safety checker. ``models/hosted_images.py``, ``models/diffusers_t2i.py`` and ``store/found_pictures.py`` mark it, and
``Run.add_finished`` leaves it out. Runs, reports, the page and commands take its number, share and sentences from here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bias_core.models.catalogue import hosted_name
from bias_core.report.picture_facts import DrawnPicture
from bias_core.report.stop_rules import ShareValues
from bias_core.study.types import Finding, Results, StudySettings, StudyTable, columns, table
from bias_core.types import BLOCK_REASON, PictureRecord, StoredImage

TITLE = "Blocked pictures"
CELL_TITLE = "Blocked: counted, not scored"
_KEY = "refused"  # of the finding, also in reports that are kept


def get_block_reason(image: PictureRecord) -> str:
    """Return why a picture is blocked; "" if it is not."""
    if not image.blocked:
        return ""
    return str((image.drawn or {}).get(BLOCK_REASON) or "blanked by the model's safety checker")


def count_blocked(images: Iterable[PictureRecord]) -> int:
    """Return the number of blocked pictures; one that several prompts or arms share counts once."""
    return len({image.row.id for image in images if image.blocked})


def describe_count(n_blocked: int) -> str:
    """Return the count as every report, page and command words it."""
    return f"{n_blocked:,} blocked"


def describe_picture(image: PictureRecord) -> str:
    """Return the sentence on one blocked picture; "" if it is not blocked."""
    reason = get_block_reason(image)
    return f"Blocked: {reason}. It is counted, not scored." if reason else ""


def describe_share(images: Iterable[PictureRecord]) -> str:
    """Return the sentence of a report on its finished pictures, blocked ones included."""
    distinct = {image.row.id: image for image in images}
    return (
        f"{count_blocked(distinct.values()):,} of {len(distinct):,} pictures were blocked (refused by the model or its "
        "host, or blanked); they are counted, never scored."
    )


def may_refuse(settings: StudySettings) -> bool:
    """Return True for hosted models: their share of blocked pictures is reported even at 0."""
    return not settings.images and hosted_name(settings.model) is not None


def watched_share(images: Mapping[str, StoredImage], settings: StudySettings) -> ShareValues:
    """Return the share of blocked pictures while a run draws; ``images`` by id."""
    return ShareValues(
        name=TITLE,
        image_ids=tuple(images),
        values=np.array([image.blocked for image in images.values()], dtype=float),
        hidden_at_zero=not may_refuse(settings),
    )


def measure_blocked(pictures: Sequence[DrawnPicture], confidence: float, *, fixed_n: bool = True) -> Results:
    """Return the share of blocked pictures with its interval, and tables of it by group and by reason."""
    from bias_core.measures.sequential import share_interval  # loads scipy, which help does without
    from bias_core.report.arm_comparison import mean_sample

    distinct = list({picture.image.row.id: picture for picture in pictures}.values())
    if not distinct:
        return Results()
    images = [picture.image for picture in distinct]
    finding = Finding(
        key=_KEY,
        title=TITLE,
        metric="refused_share",
        estimate=share_interval(count_blocked(images), len(images), fixed_n=fixed_n, confidence=confidence),
        says=describe_share(images),
        sample=mean_sample([picture.unit for picture in distinct], [image.blocked for image in images]),
    )
    return Results(findings=(finding,), tables=tuple(_tables(distinct, confidence, fixed_n)))


def _tables(pictures: Sequence[DrawnPicture], confidence: float, fixed_n: bool) -> Iterator[StudyTable]:
    from bias_core.measures.sequential import share_interval

    rows = list[dict[str, Any]]()
    for group in dict.fromkeys(picture.group for picture in pictures):
        images = [picture.image for picture in pictures if picture.group == group]
        n_blocked = count_blocked(images)
        share = share_interval(n_blocked, len(images), fixed_n=fixed_n, confidence=confidence)
        rows.append({"group": group, "pictures": len(images), "blocked": n_blocked, **columns("share", share, ends="")})
    intervals = "exact intervals" if fixed_n else "intervals that hold at any time"
    yield table("blocked_by_group", f"{TITLE}, by group", rows, f"The share of each group, with {intervals}.")
    reasons = Counter(get_block_reason(picture.image) for picture in pictures if picture.image.blocked)
    if reasons:
        reason_rows = [{"reason": reason, "pictures": n} for reason, n in reasons.most_common()]
        yield table("block_reasons", "Why pictures were blocked", reason_rows, "As the model or its host words it.")
