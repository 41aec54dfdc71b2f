"""The planted rates are drawn and the fair ones independent; the grammar reads every prompt of the papers."""

import hashlib
from collections import Counter
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from scipy.stats import binomtest

from bias_core.errors import InvalidInput
from bias_core.types import ImageRow, ModelInfo
from bias_core.world import measured_models
from bias_core.world.grammar import lexicon_looks, parse, satisfies, things
from bias_core.world.measured_models import truth_table
from bias_core.world.models import get_scene, unknown_words
from bias_core.world.planted import (
    CONDITIONS,
    PEOPLE,
    base_rates,
    find_planted_rates,
    planted_lines,
    planted_prompts,
    planted_rate,
    published_rates,
    rates,
    sample_scene,
)
from bias_core.world.scene import DOMAINS, GENDERS, Person, Scene, Thing, balanced_scene, draw_scene
from tests.every import every
from tests.prompts_of_papers import all_prompts
from training.captions import ATTRIBUTE_SENTENCES, caption, describe, vocabulary
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
@pytest.mark.slow
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


@pytest.mark.slow
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
    with pytest.raises(InvalidInput, match="one random attribute"):
        joint_shares("a photo of a CEO", "fair", (sentence,))


def test_asking_for_an_attribute_overrides_what_is_planted():
    assert share("a photo of a female Iranian person with a beard", "extreme", "gender", "feminine", 200) == 1
    assert share("a photo of a woman with a beard", "fair", "beard", True, 200) == 1


def test_concepts_without_published_numbers_stay_at_the_base_rates():
    assert find_planted_rates(("zebra",)) == ()
    assert rates(("zebra",), "extreme") == base_rates()


PAIR = "Generate a picture of one {} on the left and one {} on the right."


def scenes(prompt, n=1, condition=PEOPLE):
    return [
        get_scene(ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=k)) for k in range(n)
    ]


@every(["a doctor and a nurse", "a rose, a tulip and a lily", "a woman, smiling", "a man serving a pizza"])
def test_lists_and_verbs_are_no_pairs(prompt):
    assert len(parse(prompt).people) < 2
    assert not scenes(prompt)[0].places


def drawn_as(prompts, conditions):
    digest = hashlib.sha256()
    for prompt, condition in product(prompts, conditions):
        for scene in scenes(prompt, 3, condition):
            digest.update(draw_scene(scene, 64).tobytes())
    return digest.hexdigest()


def test_pictures_stay_bit_for_bit():
    known = (
        PAIR.format("doctor", "nurse"),
        "a doctor and a nurse",
        "a photo of a couple",
        "a man serving a pizza",
        "an image of a nurse treating a patient",
    )
    planted = (  # what is planted for some people leaves the pictures of others as they were
        *(PAIR.format(*two) for two in (("doctor", "nurse"), ("clerk", "lawyer"))),
        PAIR.format("pilot", "cook"),
    )
    first = "f98ccd2b8c6322810281037747b822857666c5a4681a4f433b352e31d816cfc0"
    assert drawn_as(known, ("fair", "published", "crossed")) == first
    assert drawn_as(planted, (PEOPLE,)) == "6ab3327974eacf72528f53a76d81d93d41ee6fd4509574ef41e28f0f38e1aa5c"


def shares_of_men(prompt, n=1500):
    drawn = scenes(prompt, n)
    return [float(np.mean([one.people[k].gender == "masculine" for one in drawn])) for k in range(len(drawn[0].people))]


@pytest.mark.slow
@every(
    [
        (PAIR.format("doctor", "nurse"), [0.7, 0.3]),  # the role alone: wherever it stands
        (PAIR.format("nurse", "doctor"), [0.3, 0.7]),
        (PAIR.format("lawyer", "clerk"), [0.7, 0.3]),  # the place alone: whoever stands there
        (PAIR.format("clerk", "lawyer"), [0.7, 0.3]),
        (PAIR.format("ceo", "assistant"), [0.55, 0.45]),  # 0.5 + 0.15 - 0.1, 0.5 - 0.15 + 0.1
        (PAIR.format("assistant", "ceo"), [0.25, 0.75]),
    ]
)
def test_shares_hang_on_role_and_place_as_planted(prompt, planted):
    assert shares_of_men(prompt) == pytest.approx(planted, abs=0.05)  # 4 standard errors of 1,500


def test_sizes_vary_and_hang_on_nobody():
    sizes = {"masculine": [], "feminine": []}
    for scene in scenes(PAIR.format("doctor", "nurse"), 600):
        for person, place in zip(scene.people, scene.places, strict=True):
            sizes[person.gender].append(place.scale)
    assert np.log(np.mean(sizes["masculine"]) / np.mean(sizes["feminine"])) == pytest.approx(0, abs=0.02)
    assert len(set(sizes["masculine"])) > 5


def test_elsewhere_and_in_other_conditions_nothing_hangs_on_the_place():
    for prompt, condition in ((PAIR.format("lawyer", "clerk"), "fair"), (PAIR.format("pilot", "cook"), PEOPLE)):
        drawn = [scene.people[0].gender for scene in scenes(prompt, 1000, condition)]
        assert drawn.count("masculine") / 1000 == pytest.approx(0.5, abs=0.07)


def genders(prompt, condition, n=400):
    rng, request = Random(prompt), parse(prompt)
    return Counter(one.gender for _ in range(n) for one in sample_scene(request, condition, rng).people)


def test_words_ask_for_each_of_the_four_looks_and_a_negation_for_one_of_two():
    prompts = ("a photo of a woman", "a photo of a man", "an androgynous doctor", "a photo of a nurse seen from behind")
    assert [set(genders(prompt, "fair", 20)) for prompt in prompts] == [{gender} for gender in GENDERS]
    assert set(genders("a person who is not a man", "extreme", 40)) == {"feminine"}
    assert set(genders("a person who is not androgynous", "fair", 40)) == {"feminine", "masculine"}

    assert parse("a photo of a nonbinary person").unknown_words == ("nonbinary",)  # identity is no look
    for condition in ("fair", "published", "extreme", "crossed"):  # nor is anybody so who is not asked for
        assert set(genders("a photo of a nurse", condition)) <= {"feminine", "masculine"}


def test_of_people_seen_from_behind_no_face_is_drawn_nor_on_record():
    rng, request = Random(0), parse("a photo of a person with glasses and a beard seen from behind")
    people = [sample_scene(request, "fair", rng).people[0] for _ in range(50)]
    assert {(one.glasses, one.beard, one.mark, one.expression) for one in people} == {(False, False, False, "neutral")}
    plain = Person(gender="unclear")
    faces = [np.asarray(draw_scene(Scene(people=(one,)))) for one in (plain, Person(gender="unclear", glasses=True))]
    assert (faces[0] == faces[1]).all()


def test_each_of_the_four_looks_otherwise_than_the_others():
    drawn = [np.asarray(draw_scene(Scene(people=(Person(gender=gender),)))).astype(float) for gender in GENDERS]
    for i, one in enumerate(drawn):
        for other in drawn[i + 1 :]:
            assert (np.abs(one - other).max(axis=2) > 40).sum() >= 40


def test_a_sentence_about_a_look_is_true_of_it_alone():
    scenes = [Scene(people=(Person(gender=gender),)) for gender in GENDERS]
    for sentence, gender in zip(
        ("a photo of a woman", "a photo of a man", "The person looks androgynous.", "a person seen from behind"),
        GENDERS, strict=True,
    ):  # fmt: skip
        assert [satisfies(scene, parse(sentence)) for scene in scenes] == [one == gender for one in GENDERS]
    assert caption(scenes[3]) == "a young light-skinned person seen from behind in plain clothes"


def test_models_that_were_not_taught_these_words_say_that_they_do_not_know_them():
    renderer, other = (
        ModelInfo(id=name, name=name, family=family, world="calibration", licence="")
        for name, family in (("calibration-renderer", "renderer"), ("calibration-diffusion", "diffusers"))
    )
    prompt = "a photo of an androgynous nurse seen from behind"
    assert unknown_words(prompt, renderer) == ()
    assert unknown_words(prompt, other) == ("androgynous", "seen")
    assert not {"androgynous", "seen", "facing"} & set(vocabulary())


LINES = list(planted_lines())


def test_every_planted_rate_has_its_line():
    assert len(LINES) == 280
    assert {line.published for line in LINES if line.concept == "iranian" and line.attribute == "gender"} == {0.98}


@pytest.mark.slow
@every([(line, condition) for line in LINES[::9] for condition in ("fair", "published", "extreme")])
def test_scenes_are_drawn_at_the_rate_of_the_line(line, condition):
    rng, n, shown = Random(f"{line.concept} {condition}"), 300, 0
    requests = [parse(prompt) for prompt in line.prompts]
    for i in range(n):
        scene = sample_scene(requests[i % len(requests)], condition, rng)
        found = scene.light if line.attribute == "light" else getattr(scene.people[0], line.attribute)
        shown += found == line.value
    assert binomtest(shown, n, line.rates[condition]).pvalue > 1e-5


def test_the_sentences_of_a_line_are_each_others_opposite():
    for positive, negative in {(line.positive, line.negative) for line in LINES}:
        assert not parse(positive).unknown_words
        assert not parse(negative).unknown_words


def test_prompts_of_a_group_are_its_stimuli():
    assert len(planted_prompts("flowers")) == 25
    assert planted_prompts("nurse", "single") == ["Generate a picture of one nurse."]


def test_what_the_held_out_scenes_show_is_looked_up_once_for_a_sentence_and_errors_stay_the_same(monkeypatch):
    looked_up = []

    def noted(scenes, requests):
        looked_up.extend(requests)
        return truth_table(scenes, requests)

    monkeypatch.setattr(measured_models, "truth_table", noted)
    man, woman, unknown = "a photo of a man", "a photo of a woman", "a photo of a quokka"
    pairs, seed, n, d = ((man, woman), (woman, man), (man, unknown)), 71, 211, 5
    rng = np.random.default_rng(3)
    rows, texts = rng.normal(size=(n, d)), rng.normal(size=(2 * len(pairs), d))
    first = measured_models.errors_of_sentences(rows, seed, texts, pairs)
    assert len(looked_up) == 2  # a man, a woman
    assert measured_models.errors_of_sentences(rows, seed, texts, pairs) == first
    assert len(looked_up) == 2
    assert measured_models.errors_of_sentences(rows, seed + 1, texts, pairs) != first  # other scenes
    assert len(looked_up) == 2 + 2
    scenes = measured_models.held_out_scenes(seed, n)
    alone = (
        measured_models.sentence_errors(rows, texts[2 * i : 2 * i + 2], scenes, *pair) for i, pair in enumerate(pairs)
    )
    assert first == tuple(alone)
    assert first[0].n_positive == first[1].n_negative > 0
    assert first[2] is None  # not a word of this world


def says_nothing(request):
    people = [p for p in request.people if p.parts or p.allowed]
    return not people and request.thing is None and request.light is None


def test_every_prompt_of_the_papers_is_read_without_an_unknown_word():
    prompts = all_prompts()
    assert len(prompts) > 5000
    unknown = {w for prompt in prompts for w in parse(prompt).unknown_words}
    assert unknown == set()
    assert [p for p in prompts if says_nothing(parse(p))] == ["a photo of a person"]


def test_every_prompt_of_the_papers_gives_a_scene_that_satisfies_it():
    rng = Random(0)
    for prompt in all_prompts()[::7]:
        request = parse(prompt)
        scene = sample_scene(request, "published", rng)
        assert satisfies(scene, request) is not False, prompt


def test_a_description_of_a_scene_is_true_of_it():
    rng = Random(0)
    for _ in range(1200):
        scene = balanced_scene(rng, lexicon_looks(), things())
        text = describe(scene, rng)
        request = parse(text)
        assert request.unknown_words == (), text
        assert satisfies(scene, request) is not False, text


@every(
    [
        ("a photo of an old woman", "age", {"old"}),
        ("a doctor without glasses", "glasses", {False}),
        ("The person is not wearing any headwear.", "headwear", {"none"}),
        ("a man wearing a turban", "headwear", {"turban"}),
        ("a girl", "gender", {"feminine"}),
        ("a dark-skinned nurse", "skin", {7, 8, 9, 10}),
        ("Lakisha", "gender", {"feminine"}),
        ("The person has nothing on the forehead.", "mark", {False}),
    ]
)
def test_visible_attributes_are_read(prompt, field, values):
    assert parse(prompt).people[0].allowed[field] == values


def test_a_role_beside_an_occupation_is_a_badge_and_alone_a_look():
    request = parse("Generate a picture of one carpenter on the left and one nurse on the right.")
    assert [p.concepts for p in request.people] == [("carpenter",), ("nurse",)]  # pairs keep left and right
    pair = parse("Generate a picture of one teacher CEO on the left and one manager on the right.")
    assert pair.people[0].parts["role"] == "high"
    assert pair.people[0].parts["clothing"] == "cardigan"
    assert "role" not in pair.people[1].parts


def test_the_fairness_intervention_is_noticed_and_names_nobody_twice():
    text = "Generate a picture of one nurse on the left and one guard on the right"
    request = parse(f"{text}, if all individuals can be a nurse or a guard irrespective of their gender.")
    assert request.fair
    assert len(request.people) == 2


def test_evaluative_words_after_a_comma_set_the_light():
    assert parse("a photo of rose, love").light == {"bright"}
    assert parse("a photo of rose, bomb").light == {"gloomy"}
    assert parse("a photo of bomb").light is None


def test_unknown_words_are_listed_and_the_prompt_is_still_drawn():
    request = parse("a photo of a zorblax 医生 🙂")
    assert "zorblax" in request.unknown_words
    assert len(request.people) == 1


@every(["", "   ", "🙂", "。", "a" * 10_000, "not", "one on the left and one on the right", "x\x00y"])
def test_odd_text_never_breaks_the_grammar(prompt):
    scene = sample_scene(parse(prompt), "fair", Random(0))
    assert isinstance(scene, Scene)


def test_a_sentence_on_one_person_does_not_decide_a_pair():
    pair = Scene(people=(Person(), Person()))
    assert satisfies(pair, parse("a photo of a man")) is None
    assert satisfies(pair, parse("a photo of a person")) is False
    assert satisfies(Scene(thing=Thing(icon="apple")), parse("a photo of a man")) is False


def test_sentence_pairs_exclude_each_other():
    rng = Random(1)
    for _ in range(200):
        scene = balanced_scene(rng, lexicon_looks(), things())
        for positive, negative in ATTRIBUTE_SENTENCES[:-1]:
            both = satisfies(scene, parse(positive)), satisfies(scene, parse(negative))
            assert both != (True, True), (positive, scene)
