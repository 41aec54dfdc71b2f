"""The grammar reads every prompt of the papers and knows what a scene satisfies."""

from random import Random

from bias_core.world.balanced import balanced_scene
from bias_core.world.captions import ATTRIBUTE_SENTENCES, describe, looks, things
from bias_core.world.grammar import parse, satisfies
from bias_core.world.planted import sample_scene
from bias_core.world.scene import Person, Scene, Thing
from tests.every import every
from tests.prompts_of_papers import all_prompts


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
        scene = balanced_scene(rng, looks(), things())
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
        scene = balanced_scene(rng, looks(), things())
        for positive, negative in ATTRIBUTE_SENTENCES[:-1]:
            both = satisfies(scene, parse(positive)), satisfies(scene, parse(negative))
            assert both != (True, True), (positive, scene)
