"""Every example of every tab can be run, by a visitor of a Space, too."""

import gradio as gr

from bias_core.app.build import TABS
from bias_core.settings import Settings
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.kit.designs import find_design, option_settings
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import with_options
from bias_core.studies.running.size import check_number, check_size, n_asked
from bias_core.ui.study.form import option_updates, read_settings
from bias_core.ui.study.study_tab import StudyTab
from tests.ui.tabs import built


def test_every_preset_of_a_study_is_within_the_limits_of_a_space(fakes, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACE_ID", "somebody/this")
    limits = Settings(data_dir=tmp_path)
    presets = [(tab.key, preset) for tab in TABS for preset in getattr(tab, "presets", ())]
    for key, preset in presets:
        design = find_design(preset.study)
        settings = with_options(design, StudySettings(**preset.settings))
        check_size(design, settings, limits, RowMaker.build(settings, fakes))
        assert 12 <= n_asked(design, settings) <= (500 if key == "origins" else 400), preset  # a minute or two
    assert len(presets) > 15


def test_an_untouched_form_asks_for_the_defaults_and_holds_every_option(fakes):
    for kind in [tab for tab in TABS if issubclass(tab, StudyTab) and tab.studies and tab is not ExploreTab]:
        tab = built(kind, fakes)
        for design in tab.designs.values():
            form = {name: tab.form[name].value for name in tab.fields()} | {"study": design.name}
            form |= {name: update["value"] for name, update in option_updates(design).items()}
            settings = with_options(design, read_settings(form, design))
            assert settings == with_options(design, StudySettings(scale=tab.first_percent / 100)), (kind, design.name)
            if design.name == kind.studies[0]:  # what a visitor finds there fits into one run
                check_number(design, settings, Settings())
            for name, one in option_settings(design).items():
                held = tab.form[f"option.{name}"]
                assert isinstance(held, gr.Number) == (one.kind in (int, float)), (kind, design.name, name)
                assert getattr(held, "choices", None) in (None, [(c or "default", c) for c in one.choices])
        # In the browser an empty gr.Number says 0, which is no "left out".
        assert all(c.value is not None for c in tab.form.values() if isinstance(c, gr.Number))
