"""The README of an export: a dataset card with what a stranger must know before using the pictures."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

COLLECTED = (
    "Every picture was drawn by a text-to-image model from the prompt and the seed that its line of metadata "
    "names. Nobody was photographed, and no person was asked for data."
)
IMPORTED = (
    "The pictures were brought along by whoever ran the study, with their prompts; how they were made is "
    "known to that person only."
)
BIASES = (
    "The pictures show what a model makes of its prompts, stereotypes included: they are kept to be "
    "measured, not to stand for the world. Attributes (such as perceived gender, age or skin tone) are "
    "what a picture shows to an automatic reader, never what anybody is. The reader errs, and has leanings "
    "of its own."
)
USES = (
    "Assessing and comparing text-to-image models; checking the numbers of the report; labelling by people. "
    "Not for training classifiers of people, and not as evidence about any group of people."
)
SENSITIVE = (
    "No real person's data. Pictures may look like people and may show stereotypes; perceived attributes "
    "may include gender, age, skin tone, religion or disability."
)


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """What the card and the Croissant file say.

    Attributes
    ----------
    key, title, summary : name for programs, name for people, what was asked.
    reference : of the paper that the study follows, "" for none.
    model : that drew, with its condition and revision in words; "" for pictures from elsewhere.
    licence : SPDX id where the pictures' licence is known, "" otherwise.
    licence_note : what is to be said of it.
    annotation : how the pictures were read, and by which program.
    readers : names of the programs that read them.
    limits : what the numbers do not say.
    notes : what was noticed on the way.
    n_pictures, n_prompts : in this export.
    command : that gives the same numbers.
    versions : of the programs and weights.
    """

    key: str
    title: str
    summary: str
    model: str
    annotation: str
    limits: str
    command: str
    n_pictures: int
    n_prompts: int
    reference: str = ""
    licence: str = ""
    licence_note: str = ""
    readers: Sequence[str] = ()
    notes: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%d", time.gmtime()))

    @property
    def collection(self) -> str:
        """How the pictures came to be."""
        return f"{COLLECTED} The model is {self.model}." if self.model else IMPORTED


def dataset_card(facts: DatasetFacts, columns: Mapping[str, str]) -> str:
    """Markdown with the YAML head that dataset hubs read; ``columns`` of the metadata and what they hold."""
    head = yaml.safe_dump(_head(facts), sort_keys=False, allow_unicode=True)
    parts = [f"---\n{head}---", f"# {_line(facts.title)}", facts.summary, *_sections(facts, columns)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _head(facts: DatasetFacts) -> dict[str, object]:
    licence: dict[str, object] = {"license": facts.licence.lower()} if facts.licence else {"license": "other"}
    if not facts.licence:
        licence |= {"license_name": "see-card"}
    n = facts.n_pictures
    return {
        "pretty_name": facts.title,
        **licence,
        "language": ["en"],
        "tags": ["text-to-image", "bias", "evaluation", "synthetic", "t2i-bias-explorer"],
        "size_categories": ["n<1K" if n < 1000 else "1K<n<10K" if n < 10_000 else "10K<n<100K"],
        "configs": [{"config_name": "default", "drop_labels": True, "data_dir": "train"}] if n else [],
    }


def _sections(facts: DatasetFacts, columns: Mapping[str, str]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items() if version)
    found = {
        "What is in it": _contents(facts, columns),
        "How the pictures were made": facts.collection,
        "How they were read": facts.annotation,
        "Biases, and what not to conclude": f"{BIASES}\n\n{facts.limits}",
        "What it is for": USES,
        "Personal and sensitive information": SENSITIVE,
        "Licence": facts.licence_note,
        "The same numbers again": f"```\n{facts.command}\n```\n\nVersions: {versions}." if versions else "",
        "What was noticed on the way": "\n".join(f"- {_line(note)}" for note in facts.notes),
        "Source of the method": facts.reference,
    }
    return [f"## {title}\n\n{text}" for title, text in found.items() if text]


def _contents(facts: DatasetFacts, columns: Mapping[str, str]) -> str:
    lines = [
        f"{facts.n_pictures:,} pictures of {facts.n_prompts:,} prompts, exported on {facts.date}."
        if facts.n_pictures
        else f"Numbers, tables and figures without the pictures, exported on {facts.date}.",
        "`report.json` and `report.md` hold every number with its interval and n; tables stand beside them "
        "as CSV and Parquet; `croissant.json` describes the data for programs.",
    ]
    if facts.n_pictures:
        lines += [
            '`datasets.load_dataset("imagefolder", data_dir="…")` reads the unpacked folder. '
            "Columns of `train/metadata.jsonl`:",
            "\n".join(f"- `{name}`: {_line(what)}" for name, what in columns.items()),
        ]
    return "\n\n".join(lines)


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("<", "&lt;")
