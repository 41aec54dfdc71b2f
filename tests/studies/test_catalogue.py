"""Attributes by name and by hand."""

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.attributes import find_attribute, load_attribute_sets, suggest_set
from tests import shared
from tests.explored import plan_explore

services = shared.fake_services


@pytest.fixture(scope="module")
def sets():
    return load_attribute_sets()


def test_every_built_in_set_can_be_explored_as_it_is(sets, services):
    for item in sets:
        settings = explore_settings(concept=item.concept_hint or "person", attributes=item.attributes)
        plan_explore(settings, services)
        assert all(attribute.reference_source for attribute in item.attributes)


def test_a_name_is_taken_from_the_set_of_its_concept_first_and_other_concepts_get_the_general_rates(sets):
    own = suggest_set("doctor", sets)
    assert own.concept_hint == "doctor"
    assert find_attribute("man", "Doctor", sets) == next(a for a in own.attributes if a.name == "man")
    assert find_attribute("Man", "astronaut", sets).reference == 0.5
    assert suggest_set("astronaut", sets) == sets[0]


def test_an_unknown_name_lists_the_known_ones(sets):
    with pytest.raises(InvalidInput, match=r"'wings'; there are .*man"):
        find_attribute("wings", "doctor", sets)


def test_an_attribute_typed_by_hand(sets):
    typed = find_attribute("wings | a bird with wings | a bird without wings", "bird", sets)
    assert (typed.name, typed.positive, typed.negative) == ("wings", "a bird with wings", "a bird without wings")
    assert typed.reference is None
    rated = find_attribute("w|p|n|0.25|counted", "bird", sets)
    assert (rated.reference, rated.reference_source) == (0.25, "counted")


def test_malformed_ones_are_said(sets):
    for text in ("a|b", "a||c", "a|b|c|much", "a|b|c|0.1|x|y"):
        with pytest.raises(InvalidInput):
            find_attribute(text, "bird", sets)
