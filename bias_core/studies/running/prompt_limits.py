"""What is to be said of a run's drawing: settings without effect, prompts that are not read to their end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bias_core.studies.kit.services import StudyServices
    from bias_core.types import ImageRow, PromptLimit, StoredImage

_MOST_WARNINGS = 3


def before_drawing(services: StudyServices, rows: Sequence[ImageRow]) -> list[str]:
    """What is to be said of the settings and the prompts of a run, once each."""
    distinct = {(r.model, r.guidance_scale, bool(r.negative_prompt), r.width): r for r in rows}.values()
    notes = [note for row in distinct for note in services.setting_notes(row)]
    prompts = list(dict.fromkeys(row.prompt for row in rows))
    return [*dict.fromkeys(notes), *(sentences(services.prompt_limits(rows[0].model, prompts)) if rows else [])]


def while_drawing(images: Iterable[StoredImage]) -> list[str]:
    """What models said while they drew these pictures: their warnings, and prompts that they rewrote."""
    drawn = [image.drawn for image in images if image.drawn]
    told = Counter(text for record in drawn for text in record.get("warnings", ()))
    rewritten = [record["revised_prompt"] for record in drawn if record.get("revised_prompt")]
    found = [
        f"Of {n} of {len(drawn)} pictures the model's pipeline said: {_short(text)}"
        for text, n in told.most_common(_MOST_WARNINGS)
    ]
    if rewritten:
        found.append(
            f"{len(rewritten)} of {len(drawn)} pictures were drawn from a prompt that the model rewrote, as "
            f"“{_short(rewritten[0])}”."
        )
    return found


def sentences(limits: Sequence[PromptLimit]) -> list[str]:
    """A sentence per text encoder that does not see the whole of some prompts.

    >>> from bias_core.types import PromptLimit
    >>> known = {"prompt": "a very long story", "n_tokens": 90}
    >>> print(*sentences([PromptLimit(reader="CLIP", limit=77, cut="long story", **known),
    ...                   PromptLimit(reader="T5", limit=256, cut="", **known)]))
    The prompt is longer than CLIP reads (90 tokens where 77 fit): “long story” was not seen by it; T5 sees
    all.
    """
    readers = list(dict.fromkeys(limit.reader for limit in limits))
    cut = {name: [x for x in limits if x.reader == name and x.cut] for name in readers}
    whole = [name for name in readers if not cut[name]]
    sees_all = f"; {' and '.join(whole)} {'sees' if len(whole) == 1 else 'see'} all" if whole else ""
    n_prompts = len({limit.prompt for limit in limits})
    found = []
    for reader, lost in cut.items():
        if lost:
            longest = max(lost, key=lambda limit: limit.n_tokens)
            prompts = len({limit.prompt for limit in lost})
            which = "The prompt is" if n_prompts == 1 else f"{prompts} of {n_prompts} prompts are"
            found.append(
                f"{which} longer than {reader} reads ({longest.n_tokens} tokens where {longest.limit} fit): "
                f"“{_short(longest.cut)}” was not seen by it{sees_all}."
            )
    return found


def _short(text: str, n: int = 120) -> str:
    return text if len(text) <= n else f"{text[:n].rstrip()} …"
