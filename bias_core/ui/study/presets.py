"""Studies and presets of a tab or paper, found in its folder."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bias_core.models.catalogue import read_yaml
from bias_core.study.design import installed_studies, optional_folders, read_design_names, read_page_layout
from bias_core.study.types import settings_from_dict
from bias_core.values import changed_settings


@dataclass(frozen=True)
class Preset:
    name: str  # on its button
    study: str  # a shipped design
    says: str  # tooltip of its button, and text in the list of examples
    settings: Mapping[str, Any]  # those of :class:`StudySettings` that differ from the defaults


def _read_presets(folder: Path) -> list[Preset]:
    file = folder / "presets.yaml"
    entries = read_yaml(file, list) if file.is_file() else []
    return [
        Preset(**entry | {"settings": changed_settings(settings_from_dict(entry["settings"]))}) for entry in entries
    ]


class HasStudies:
    """A tab or paper with studies: those it names, those in its folder, and those that name it as theirs."""

    key: ClassVar[str]
    studies: ClassVar[Sequence[str]] = ()  # names of designs, the first one chosen
    presets: ClassVar[Sequence[Preset]] = ()  # one click each; those of ``presets.yaml`` in its folder and in beyond

    def __init_subclass__(cls) -> None:
        folder = Path(sys.modules[cls.__module__].__file__ or "").parent
        optional, key = [*optional_folders(), *installed_studies()], getattr(cls, "key", None)
        guests = [place for place in optional if read_page_layout(place).tab == key]
        designs = [name for place in (folder, *guests) for name in read_design_names(place)]
        cls.studies = tuple(dict.fromkeys([*cls.studies, *designs]))
        presets = (preset for place in (folder, *optional) for preset in _read_presets(place))
        cls.presets = tuple(preset for preset in presets if preset.study in cls.studies)
