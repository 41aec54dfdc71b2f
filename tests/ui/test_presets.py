"""Every example of every tab can be run, by a visitor of a Space, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.settings import Settings
from bias_core.studies.designs import find_design
from bias_core.studies.rows import RowMaker
from bias_core.studies.run_study import with_options
from bias_core.studies.study_size import check_size
from bias_core.studies.study_types import StudySettings
from bias_core.ui.build import TABS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.ui.fakes import FakeServices


def test_every_preset_of_a_study_is_within_the_limits_of_a_space(
    fakes: FakeServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/this")
    limits = Settings(data_dir=tmp_path)
    presets = [preset for tab in TABS for preset in getattr(tab, "presets", ())]
    studies = [preset for preset in presets if preset.study != "compare"]
    for preset in studies:
        design = find_design(preset.study)
        settings = with_options(design, StudySettings(**preset.settings))
        check_size(design, settings, limits, RowMaker.build(settings, fakes))
    assert len(studies) > 15
