"""Reports on pictures that were blanked or refused, and on prompts that were rewritten or cut.

``Run.add_finished`` (``study_run.py``) leaves blanked pictures out of every score; this module counts them.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from bias_core.measures.sequential import share_interval
from bias_core.report.arm_comparison import mean_sample
from bias_core.report.picture_facts import REFUSED, drawn_prompt, get_refusal_reason
from bias_core.run.limits import REFUSED as REFUSED_PICTURES
from bias_core.run.study_run import DrawnPicture
from bias_core.study.types import Finding, Results, StudyTable, columns, table
from bias_core.types import StoredImage
from bias_core.wording import shorten

_MOST_WARNINGS = 3
_MOST_WORDS = 15  # words that a rewriter adds most often, and as many that it removes
_WORD = re.compile(r"[^\W\d_][\w'’-]*")


def refusals(pictures: Sequence[DrawnPicture], confidence: float, *, fixed_n: bool = True) -> Results:
    """Return the share of requests without a picture as a finding, and tables of it by group and by reason."""
    distinct = list({picture.image.row.id: picture for picture in pictures}.values())
    if not distinct:
        return Results()
    blocked = [picture.image.blocked for picture in distinct]
    finding = Finding(
        key=REFUSED,
        title=REFUSED_PICTURES,
        metric="refused_share",
        estimate=share_interval(sum(blocked), len(blocked), fixed_n=fixed_n, confidence=confidence),
        says=f"{sum(blocked):,} of {len(blocked):,} requests ended without a picture; they are counted, never scored.",
        sample=mean_sample([picture.unit for picture in distinct], blocked),
    )
    return Results(findings=(finding,), tables=tuple(_refusal_tables(distinct, confidence, fixed_n)))


def _refusal_tables(pictures: Sequence[DrawnPicture], confidence: float, fixed_n: bool) -> Iterator[StudyTable]:
    groups = {
        name: [picture.image.blocked for picture in pictures if picture.group == name]
        for name in dict.fromkeys(picture.group for picture in pictures)
    }
    options: dict[str, Any] = {"fixed_n": fixed_n, "confidence": confidence}
    shares = {name: share_interval(sum(of), len(of), **options) for name, of in groups.items()}
    yield table(
        "refused_by_group",
        "Refused or blanked, by group",
        [
            {"group": name, "requests": len(of), "refused": sum(of), **columns("share", shares[name], ends="")}
            for name, of in groups.items()
        ],
        "Requests that ended without a picture, with "
        + ("exact intervals." if fixed_n else "intervals that hold at any time."),
    )
    reasons = Counter(get_refusal_reason(picture.image) for picture in pictures if picture.image.blocked)
    if reasons:
        rows = [{"reason": reason, "pictures": n} for reason, n in reasons.most_common()]
        yield table("refusal_reasons", "Why pictures were refused", rows, "As the model or its host words it.")


def rewritten_prompts(pictures: Sequence[DrawnPicture]) -> tuple[StudyTable, ...]:
    """Return a table of the words most often added to prompts or removed; () if no prompt was rewritten."""
    distinct = list({picture.image.row.id: picture for picture in pictures if not picture.image.blocked}.values())
    changed = [picture for picture in distinct if drawn_prompt(picture.image) not in ("", picture.prompt)]
    if not changed:
        return ()
    added, removed = Counter[str](), Counter[str]()
    for picture in changed:
        before, after = _split_words(picture.prompt), _split_words(drawn_prompt(picture.image))
        added.update(after - before)
        removed.update(before - after)
    words = dict.fromkeys([*_most(added), *_most(removed)])
    rows = [
        {"word": word, "added": added[word], "taken away": removed[word], "share of rewritten": max(
            added[word], removed[word]) / len(changed)}
        for word in words
    ]  # fmt: skip
    first = changed[0]
    note = (
        f"{len(changed):,} of {len(distinct):,} pictures were drawn from a rewritten prompt, such as "
        f"“{shorten(drawn_prompt(first.image))}” instead of “{shorten(first.prompt)}”. The table counts pictures "
        "in whose prompt the word was added or taken away."
    )
    return (table("rewritten_prompts", "What rewriting did to the prompts", rows, note),)


def _split_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _most(counts: Counter[str]) -> list[str]:
    """Return the most frequent words, ties in alphabetical order."""
    return sorted(counts, key=lambda word: (-counts[word], word))[:_MOST_WORDS]


def other_sizes(images: Iterable[StoredImage]) -> list[str]:
    """Return a sentence if hosted models returned pictures of another size than requested."""
    records = [
        (image.row, image.drawn) for image in images if image.drawn and not image.blocked and "provider" in image.drawn
    ]
    sizes = Counter(
        f"{drawn['width']}x{drawn['height']} for {row.width}x{row.height}"
        for row, drawn in records
        if (drawn["width"], drawn["height"]) != (row.width, row.height)
    )
    if not sizes:
        return []
    example, _ = sizes.most_common(1)[0]
    return [
        f"{sizes.total():,} of {len(records):,} pictures have another size than requested, such as {example} pixels; "
        "they are measured as they are."
    ]


def while_drawing(images: Collection[StoredImage]) -> list[str]:
    """Return notes on the drawing of these pictures: warnings of models, and prompts that they rewrote."""
    drawn = [image.drawn for image in images if image.drawn]
    warnings = Counter(text for record in drawn for text in record.get("warnings", ()))
    rewritten = [record["revised_prompt"] for record in drawn if record.get("revised_prompt")]
    notes = [
        f"The model's pipeline warned for {n} of {len(drawn)} pictures: {shorten(text)}"
        for text, n in warnings.most_common(_MOST_WARNINGS)
    ]
    if rewritten:
        notes.append(
            f"{len(rewritten)} of {len(drawn)} pictures were drawn from a prompt that the model rewrote, such as "
            f"“{shorten(rewritten[0])}”."
        )
    return notes + other_sizes(images)
