"""What can be measured on imported pictures: which studies ask for their prompts, and how many there are."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bias_core.exchange.imports import ImportedImages, key
from bias_core.studies.explore.options import KIND
from bias_core.studies.kit.designs import find_design, list_designs, program_of
from bias_core.studies.kit.types import Design, StudySettings
from bias_core.studies.running.run import with_options

_OF_THIS_WORLD = "validity"  # these studies need the calibration renderer's own record
_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How an import fits a study."""

    design: Design  # of the study
    # n_found, n_asked: pictures that it would take, and asks for at full size; `n_asked` 0: it takes all
    n_found: int
    n_asked: int
    examples: tuple[str, ...] = ()  # some of the prompts that it asks for


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What was found in an upload."""

    # path, name: of the zip
    path: Path
    name: str
    counts: Mapping[str, int]  # pictures per prompt
    rejected: tuple[str, ...]  # files that were left out, and why
    fits: tuple[Fit, ...]  # every study, those that can run first


def look_through(path: Path) -> Imported:
    """What a folder or zip holds, no picture read; InvalidInput says why it cannot be used."""
    source = ImportedImages(path)
    n = sum(source.counts.values())
    fits = [Fit(design=find_design(KIND), n_found=n, n_asked=0)]
    fits += [
        _fit(design, source.counts)
        for design in list_designs()
        if design.kind != KIND and not design.kind.startswith(_OF_THIS_WORLD)
    ]
    fits.sort(key=lambda fit: (fit.n_found == 0, fit.n_asked > 0))
    return Imported(
        path=path, name=source.name, counts=source.counts, rejected=tuple(source.rejected), fits=tuple(fits)
    )


def _fit(design: Design, counts: Mapping[str, int]) -> Fit:
    shots = program_of(design).shots(design, with_options(design, StudySettings()))
    if not shots:
        return Fit(design=design, n_found=sum(counts.values()), n_asked=0)
    there: dict[str, int] = {}
    for prompt, n in counts.items():
        there[key(prompt)] = there.get(key(prompt), 0) + n
    n_found = sum(min(shot.n, there.get(key(shot.prompt), 0)) for shot in shots)
    return Fit(
        design=design,
        n_found=n_found,
        n_asked=sum(shot.n for shot in shots),
        examples=tuple(dict.fromkeys(shot.prompt for shot in shots))[:_EXAMPLES],
    )
