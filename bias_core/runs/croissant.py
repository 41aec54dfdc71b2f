"""Croissant (JSON-LD) for an export: the same facts as its card, for programs, with the RAI vocabulary.

Vocabularies: http://mlcommons.org/croissant/1.0 and http://mlcommons.org/croissant/RAI/1.0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bias_core.runs.dataset_card import BIASES, SENSITIVE, USES

if TYPE_CHECKING:
    from bias_core.runs.dataset_card import DatasetFacts

METADATA = "train/metadata.jsonl"
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES = {bool: "sc:Boolean", int: "sc:Integer", float: "sc:Float"}
COLUMNS: Mapping[str, str] = {
    "file_name": "name of the picture beside the metadata",
    "prompt": "text given to the model",
    "negative_prompt": "text of what the model should avoid",
    "seed": "seed of this picture",
    "model": "that drew the picture",
    "revision": "of the model's weights, or digest of an imported file",
    "condition": "bias planted in the calibration world; empty for other models",
    "group": "part of the study that the picture belongs to",
    "num_inference_steps": "denoising steps",
    "guidance_scale": "guidance of the sampler",
    "width": "pixels",
    "height": "pixels",
    "number": "number of the picture in its group",
    "blocked": "whether a safety checker blanked it; such pictures are never scored",
}
"""What the columns hold that every export has."""


def column_kinds(lines: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Croissant's type of each column, from its values; text where there is doubt."""
    kinds: dict[str, set[str]] = {}
    for line in lines:
        for name, value in line.items():
            found = kinds.setdefault(name, set())
            if value is not None:
                found.add(_TYPES.get(type(value), "sc:Text"))
    return {name: _joined(found) for name, found in kinds.items()}


def described(names: Iterable[str]) -> dict[str, str]:
    """Each column and what it holds."""
    return {name: COLUMNS.get(name, "what the study knows of, or found in, the picture") for name in names}


def croissant(facts: DatasetFacts, metadata: bytes, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The description; ``metadata`` is the content of ``train/metadata.jsonl``, ``kinds`` of its columns."""
    licence = f"https://spdx.org/licenses/{facts.licence}.html" if facts.licence else facts.licence_note
    values = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": facts.key,
        "alternateName": facts.title,
        "description": f"{facts.title}. {facts.summary}",
        "license": licence,
        "creator": {"@type": "sc:Organization", "name": "Whoever ran T2I Bias Explorer"},
        "datePublished": facts.date,
        "version": "1.0.0",
        "inLanguage": "en",
        "isLiveDataset": False,
        "keywords": ["text-to-image", "bias", "evaluation", "synthetic pictures"],
        "citeAs": facts.reference,
        "distribution": _files(metadata),
        "recordSet": _records(kinds),
        **_responsible(facts),
    }
    if not facts.n_pictures:
        values |= {"distribution": [], "recordSet": []}
    return {key: value for key, value in values.items() if value not in ("", [])}


def _files(metadata: bytes) -> list[dict[str, Any]]:
    return [
        {
            "@type": "cr:FileObject",
            "@id": "metadata",
            "name": "metadata",
            "description": "One line per picture: its prompt, seed, model and what the study found.",
            "contentUrl": METADATA,
            "contentSize": f"{len(metadata)} B",
            "encodingFormat": "application/jsonlines",
            "sha256": hashlib.sha256(metadata).hexdigest(),
        },
        {
            "@type": "cr:FileSet",
            "@id": "pictures",
            "name": "pictures",
            "description": "The original pictures; each PNG also carries its own record as text.",
            "encodingFormat": "image/png",
            "includes": "train/*.png",
        },
    ]


def _records(kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    texts = described(kinds)
    lines = [
        _field("lines", name, kind, texts[name], {"fileObject": "metadata", "column": name})
        for name, kind in kinds.items()
    ]
    name = _field(
        "images",
        "file_name",
        "sc:Text",
        "name of the file",
        {"fileSet": "pictures", "fileProperty": "filename"},
    )
    name["references"] = {"field": {"@id": "lines/file_name"}}
    picture = _field(
        "images", "image", "sc:ImageObject", "the picture", {"fileSet": "pictures", "fileProperty": "content"}
    )
    return [
        {
            "@type": "cr:RecordSet",
            "@id": "lines",
            "name": "lines",
            "description": "What is known of each picture.",
            "key": {"@id": "lines/file_name"},
            "field": lines,
        },
        {
            "@type": "cr:RecordSet",
            "@id": "images",
            "name": "images",
            "description": "The pictures.",
            "key": {"@id": "images/file_name"},
            "field": [name, picture],
        },
    ]


def _field(records: str, name: str, kind: str, text: str, source: Mapping[str, str]) -> dict[str, Any]:
    ((place, of), (what, value)) = source.items()
    return {
        "@type": "cr:Field",
        "@id": f"{records}/{name}",
        "name": name,
        "description": text,
        "dataType": kind,
        "source": {place: {"@id": of}, "extract": {what: value}},
    }


def _responsible(facts: DatasetFacts) -> dict[str, Any]:
    kind = "Others" if facts.model == "" else "Machine-generated"
    return {
        "rai:dataCollection": facts.collection,
        "rai:dataCollectionType": [kind],
        "rai:dataCollectionMissingData": _missing(facts.notes),
        "rai:dataAnnotationProtocol": facts.annotation,
        "rai:machineAnnotationTools": list(facts.readers),
        "rai:annotationsPerItem": "1 per attribute and reader" if facts.readers else "",
        "rai:dataBiases": [BIASES],
        "rai:dataLimitations": [facts.limits, *facts.notes],
        "rai:dataUseCases": [USES],
        "rai:dataSocialImpact": (
            "Meant to make stereotypes of text-to-image models visible and countable. Shown without its "
            "numbers and limits, a picture can spread the stereotype that it was drawn to measure."
        ),
        "rai:personalSensitiveInformation": [SENSITIVE],
        "rai:dataReleaseMaintenancePlan": "A single export; it is not maintained. Run the command again.",
    }


def _missing(notes: Sequence[str]) -> str:
    told = [note for note in notes if "missing" in note or "blank" in note or "could not" in note]
    return " ".join(told) or "None was noticed."


def _joined(kinds: set[str]) -> str:
    if kinds == {"sc:Integer", "sc:Float"}:
        return "sc:Float"
    return next(iter(kinds)) if len(kinds) == 1 else "sc:Text"
