"""Facts that stored pictures record of their drawing: rewritten prompts, warnings, sizes, program and model."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from bias_core.study.types import StudyTable, table
from bias_core.types import StoredImage
from bias_core.wording import shorten

_MOST_WARNINGS = 3
_MOST_WORDS = 15  # words that a rewriter adds most often, and as many that it removes
_WORD = re.compile(r"[^\W\d_][\w'’-]*")


@dataclass(frozen=True, kw_only=True)
class DrawnPicture:
    """A finished picture of a study, which may be blocked."""

    unit: str  # as in :class:`bias_core.run.study_run.Run`
    group: str
    prompt: str  # before any rewriting
    image: StoredImage


def drawn_prompt(image: StoredImage) -> str:
    """Return the prompt that was drawn in the end: the row's, or the model's revision of it."""
    return str((image.drawn or {}).get("revised_prompt") or image.row.prompt)


def prompt_facts(image: StoredImage) -> dict[str, str]:
    """Return facts to show with a picture: the prompt as the model revised it, and its hosted or foreign model."""
    drawn, facts = image.drawn or {}, {}
    if drawn_prompt(image) != image.row.prompt:
        facts["Drawn from"] = drawn_prompt(image)
    if "provider" in drawn:
        facts["Drawn by"] = f"{drawn['provider']}, {drawn['model']}, {str(drawn['date'])[:10]}"
    return facts | {name.capitalize(): text for name, text in get_drawing_facts(image).items()}


def get_drawing_facts(image: StoredImage) -> dict[str, str]:
    """Return program, model, sampler and further texts that an imported picture records."""
    drawn = image.drawn or {}
    named = {"drawn by": drawn.get("program"), "drawn with model": drawn.get("model"), "sampler": drawn.get("sampler")}
    named["also shaped by"] = "; ".join(map(str, drawn.get("further", [])))
    return {name: str(text) for name, text in named.items() if text} if "program" in drawn else {}


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


def _describe_other_sizes(images: Iterable[StoredImage]) -> list[str]:
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


def list_drawing_notes(images: Collection[StoredImage]) -> list[str]:
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
    return notes + _describe_other_sizes(images)
