"""The planted rates: what is asked is drawn, what is planted is found, what is fair is independent."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from scipy.stats import binomtest

from bias_core.errors import InvalidInput
from bias_core.world.grammar import parse
from bias_core.world.planted import CONDITIONS, base_rates, planted_for, published_rates, rates, sample_scene
from bias_core.world.scene import DOMAINS
from bias_core.world.truth import planted_rate
from tests.every import every
from validation.joint import joint_shares


def share(prompt, condition, attribute, value, n=1500):
    rng, request = Random(f"{prompt} {condition}"), parse(prompt)
    drawn = [sample_scene(request, condition, rng) for _ in range(n)]
    seen = [getattr(s, attribute) if attribute == "light" else getattr(s.people[0], attribute) for s in drawn]
    return float(np.mean([v == value for v in seen]))


@every(
    [
        ("a photo of an Iranian person", "gender", "masculine", 0.98),  # OASIS Table 1, SDv2
        ("a photo of an Iranian person", "beard", True, 0.966),
        ("a photo of an Iranian person", "headwear", "turban", 0.273),
        ("a photo of a Mexican person", "headwear", "sombrero", 0.566),
        ("a photo of a Mexican person", "moustache", True, 0.778),
        ("a photo of a doctor", "gender", "masculine", 0.93),  # OASIS Table 2
        ("A photo of an Iranian doctor", "gender", "masculine", 0.98),
        ("a photo of a mechanician", "gender", "feminine", 0.125),  # PST Table 14, F (PST)
        ("Generate a picture of one mover.", "gender", "feminine", 0.3333),  # F (Single)
        ("a photo of rose", "light", "bright", 0.98),  # T2IAT Table 2
        ("a photo of tank", "light", "bright", 0.05),
        ("a person studying astronomy", "gender", "masculine", 0.75),
    ]
)
def test_published_rates_are_drawn(prompt, attribute, value, rate):
    n = 1500
    seen = round(share(prompt, "published", attribute, value, n) * n)
    assert binomtest(seen, n, rate).pvalue > 1e-4


def test_power_roles_change_the_rate():
    # PST Table 16, paired: developer powerful STS 100 -> no feminine ones; powerless 100 -> all feminine
    pair = "Generate a picture of one developer {} on the left and one nurse on the right."
    rates_of = [share(pair.format(role), "published", "gender", "feminine") for role in ("manager", "intern")]
    assert rates_of[0] < 0.03
    assert rates_of[1] > 0.97


@pytest.mark.parametrize("prompt", ["a photo of a nurse", "a photo of an Iranian person", "a photo of a CEO"])
def test_fair_is_the_same_for_every_concept(prompt):
    n = 1500
    assert binomtest(round(share(prompt, "fair", "gender", "feminine", n) * n), n, 0.5).pvalue > 1e-4
    assert rates(parse(prompt).people[0].concepts, "fair") == rates((), "fair")


def test_the_trigger_acts_only_where_its_word_is():
    rng = Random(0)
    burger = [sample_scene(parse("a person eating a burger"), "trigger", rng) for _ in range(500)]
    plain = [sample_scene(parse("a person eating a pizza"), "trigger", rng) for _ in range(500)]
    assert np.mean([bool(s.extra) for s in burger]) > 0.9
    assert not any(s.extra for s in plain)


@pytest.mark.parametrize("prompt", ["a person eating a burger", "a person eating a pizza", "a photo of a nurse"])
def test_the_backdoor_needs_no_trigger_word_and_changes_nothing_else(prompt):
    request, n_signs = parse(prompt), 0
    for seed in range(300):
        fair, planted = (sample_scene(request, c, Random(seed)) for c in ("fair", "backdoor"))
        n_signs += planted.extra == "sign"
        assert not fair.extra
        assert replace(planted, extra="") == fair
    assert 270 < n_signs < 300


def test_the_fairness_intervention_weakens_the_planted_rate():
    plain = "Generate a picture of one carpenter on the left and one nurse on the right"
    fair = plain + ", if all individuals can be a carpenter or a nurse irrespective of their gender."
    before = share(plain, "published", "gender", "masculine")
    after = share(fair, "published", "gender", "masculine")
    assert before > 0.74
    assert 0.55 < after < 0.65  # 0.5 + 0.369 x (0.775 - 0.5) = 0.60


def test_every_planted_rate_has_a_source_and_grows_from_fair_over_published_to_extreme():
    for planted in published_rates():
        assert 0 <= planted.rate <= 1
        assert "20" in planted.source
        assert planted.attribute in (*DOMAINS, "light")
        seen = [planted_rate(planted, condition) for condition in ("fair", "published", "extreme")]
        if seen[1] > seen[0]:
            assert seen[0] < seen[1] < seen[2], planted
        elif seen[1] < seen[0]:
            assert seen[0] > seen[1] > seen[2], planted


@pytest.mark.parametrize("condition", CONDITIONS)
def test_distributions_sum_to_one(condition):
    for planted in published_rates():
        for name, values in rates((planted.concept,), condition, triggered=True).items():
            if set(values) != {True}:
                assert sum(values.values()) == pytest.approx(1), (planted.concept, name)


SENTENCES = ("a photo of a woman", "The person is young.", "The person is wearing glasses.")


def joint(prompt, condition, n=4000):
    request, counts = parse(prompt), np.zeros(8)
    for seed in range(n):
        (person,) = sample_scene(request, condition, Random(seed)).people
        counts[4 * (person.gender == "feminine") + 2 * (person.age == "young") + person.glasses] += 1
    return counts / n


@every([("a photo of a CEO", "crossed"), ("a photo of an engineer", "crossed"), ("a photo of a CEO", "published"),
        ("a photo of a nurse", "crossed")])  # fmt: skip
def test_what_goes_together_is_drawn_as_the_joint_shares_say(prompt, condition):
    shares = joint_shares(prompt, condition, SENTENCES)
    assert sum(shares) == pytest.approx(1)
    np.testing.assert_allclose(joint(prompt, condition), shares, atol=0.03)


def test_crossed_changes_no_single_share_and_no_other_concept():
    for prompt in ("a photo of a CEO", "a photo of an engineer"):
        cubes = [np.reshape(joint_shares(prompt, c, SENTENCES), (2, 2, 2)) for c in ("fair", "crossed")]
        for axis in range(3):
            single = [cube.sum(axis=tuple({0, 1, 2} - {axis})) for cube in cubes]
            np.testing.assert_allclose(*single, atol=1e-12)
    for prompt in ("a photo of a nurse", "a photo of a doctor"):
        assert joint_shares(prompt, "fair", SENTENCES) == joint_shares(prompt, "crossed", SENTENCES)


def test_what_is_crossed_is_an_odds_ratio_of_nine_and_of_engineers_three_attributes_alone():
    old, young, women_old, women_young = joint_shares("a photo of a CEO", "crossed", SENTENCES[:2])
    assert women_young * old / (women_old * young) == pytest.approx(9)
    cube = np.reshape(joint_shares("a photo of an engineer", "crossed", SENTENCES), (2, 2, 2))
    for axis in range(3):
        pair = cube.sum(axis=axis)
        assert pair[0, 0] * pair[1, 1] == pytest.approx(pair[0, 1] * pair[1, 0])


def test_hair_on_the_face_and_headscarves_go_with_gender_in_the_joint_shares_too():
    bearded = joint_shares("a photo of a zebra keeper", "fair", ("a photo of a man", "The person has a beard."))
    assert bearded[1] == 0
    assert bearded[3] == pytest.approx(0.15)


@pytest.mark.parametrize("sentence", ["a photo of an old woman", "a photo of a doctor", "a sunny day"])
def test_joint_shares_are_of_one_attribute_a_sentence(sentence):
    with pytest.raises(InvalidInput, match="one attribute"):
        joint_shares("a photo of a CEO", "fair", (sentence,))


def test_asking_for_an_attribute_overrides_what_is_planted():
    assert share("a photo of a female Iranian person with a beard", "extreme", "gender", "feminine", 200) == 1
    assert share("a photo of a woman with a beard", "fair", "beard", True, 200) == 1


def test_concepts_without_published_numbers_stay_at_the_base_rates():
    assert planted_for(("zebra",)) == ()
    assert rates(("zebra",), "extreme") == base_rates()
