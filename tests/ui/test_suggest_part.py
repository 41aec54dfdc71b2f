"""Suggested attributes on the page: what is ticked, and what becomes rows of the table."""

from bias_core.studies.explore.options import attribute_text
from bias_core.studies.explore.suggest import Suggested
from bias_core.studies.explore.tab_suggest import SuggestPart
from bias_core.types import Attribute
from tests.ui.fakes import FakeServices


def test_on_the_page_ticked_suggestions_become_rows_that_are_not_there_yet(tmp_path):
    part = SuggestPart(FakeServices(tmp_path), "explore")
    for name in ("choices", "take", "status", "table"):
        setattr(part, name, name)
    sides = {"positive": "a photo of it", "negative": "a photo without"}
    suggested = [
        Suggested(attribute=Attribute(name=name, **sides, **more), where_from="captions", is_told=name != "light")
        for name, more in {
            "man": {},
            "with a beard": {"reference": 0.1875, "reference_source": "the base"},
            "light": {},
        }.items()
    ]
    shown = part.show(suggested)[part.choices]
    assert len(shown["choices"]) == len(suggested)
    assert set(shown["value"]) == {attribute_text(one.attribute) for one in suggested[:5] if one.is_told}
    rows = part.on_take([["Man", "a", "b", "", ""], ["", "", "", "", ""]], shown["value"])[part.table]
    names = [row[0] for row in rows]
    assert names[0] == "Man"
    assert "man" not in names[1:]
    assert "with a beard" in names
    assert rows[names.index("with a beard")][3] == "0.1875"  # P*: the share at the base
