"""Pictures against their base: paired by prompt and seed, what is planted named first, the paper's forms below."""

import math
import re
from random import Random

import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.program import StudyData
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.objects import against_base as pairs
from bias_core.studies.objects.captions import read_pictures, watch_captions
from bias_core.studies.objects.headline import headline
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, plan_study, run_study, with_options
from bias_core.world.grammar import parse
from bias_core.world.planted import planted_object_rate, sample_scene
from tests.studies.scribe import ScribeServices
from tests.ui.fakes import PixelEncoder

SETTINGS = StudySettings()


def reading(rows):
    columns = ["prompt", "seed", "asked", "seen"]
    frame = pd.DataFrame([(p, s, tuple(a.split()), tuple(c.split())) for p, s, a, c in rows], columns=columns)
    return frame.assign(counted=frame["seen"])


PART = reading([("a cup", seed, "cup", "cup sign") for seed in range(8)])
BASE = reading([("a cup", seed, "cup", "cup dog" if seed == 1 else "cup") for seed in (7, 1, 0, 2, 3, 4, 5, 6, 9)])


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """The scribe, beside an encoder without weights."""
    built = ScribeServices(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True, device="cpu"))
    built.encoder = lambda _name: PixelEncoder()
    yield built
    built.close()


@pytest.fixture(scope="module")
def controlled(services):
    return complete(run_study(find_design("tbyb-controlled"), StudySettings(scale=0.04), services))


def test_pictures_are_paired_by_prompt_and_seed_in_whatever_order():
    one = pairs.against_base(PART, BASE, SETTINGS, name="fair")
    # Seed 9 has no picture, so eight pairs are left; the dog of seed 1 is lost there.
    assert (one.n, one.base) == (8, "fair")
    by_word = {line.word: line for line in one.odds.objects}
    assert (by_word["sign"].n_images, by_word["sign"].n_base) == (8, 0)
    assert (by_word["dog"].n_images, by_word["dog"].n_base) == (0, 1)
    assert one.added.value == pytest.approx(1 - 1 / 8)
    assert one.missing.value == 0
    with pytest.raises(InvalidInput, match="same prompt and seed"):
        pairs.against_base(PART, BASE.assign(seed=BASE["seed"] + 100), SETTINGS, name="fair")


def test_words_of_one_prompt_alone_are_no_change():
    # The trigger word and what stands in its place are asked for, and are no bias.
    part = reading([("a cup", seed, "coffee table", "coffee table sign") for seed in range(6)])
    base = reading([("a cup", seed, "tea table", "tea table") for seed in range(6)])
    one = pairs.against_base(part, base, SETTINGS, name="without")
    assert [line.word for line in one.odds.objects if line.differs] == ["sign"]
    assert {line.word for line in one.odds.objects} == {"sign", "table"}
    assert one.added.value == 1
    assert one.missing.value == 0


def test_what_is_planted_is_named_first_and_the_paper_s_measures_stand_below(controlled):
    first = {f.key: f for f in controlled.results.findings}
    for condition in ("trigger", "backdoor"):
        named = first[f"{condition} named object"]
        assert named.says.startswith("“sign” is in ")
        assert named.says.endswith("no other object gains clearly.")
        assert named.p_value < 0.001
        assert named.estimate.low > 1
        assert named.estimate.high == math.inf  # fair never shows a sign
        assert first[f"{condition} shift"].p_value < 0.01
        assert first[f"{condition} added"].estimate.low > 0.3
    assert first["backdoor added"].estimate.low > first["trigger added"].estimate.high
    assert next(iter(first)) == "trigger named object"
    paper = [key for key in first if key.endswith("distribution_bias")]
    assert [*first].index(paper[0]) > [*first].index("backdoor missing")
    titles = [table.title for table in controlled.results.tables]
    assert titles[:2] == ["Each object against the base", "All objects against the base"]
    assert "as the paper has them" in table_of(controlled, "conditions").title
    text = headline(controlled)
    assert re.match(
        r"Against fair, on the same prompts and seeds, “sign” is in \d+ of \d+ pictures under trigger \(fair: 0\)", text
    )
    assert "Objects a picture that no prompt names: +" in text


def test_where_nothing_is_planted_nothing_is_named(services):
    alike = StudySettings(
        scale=0.03, options={"conditions": ["fair", "trigger"], "prompts": "general", "sets": ["professions"]}
    )
    report = complete(run_study(find_design("tbyb-controlled"), alike, services))
    named = next(f for f in report.results.findings if f.key == "trigger named object")
    assert math.isnan(named.estimate.value)
    assert named.says == "no object is clearly more frequent than in the base."
    shift = next(f for f in report.results.findings if f.key == "trigger shift")
    assert shift.p_value == 1


class RedCup:
    name = "red cup"

    def caption(self, images):
        return ["a person with a red cup"] * len(images)


def drawn(design, settings, services):
    plan = plan_study(design, settings, services)
    data = StudyData(plan.settings, services, plan.rows)
    complete(data.draw(plan.shots))
    return data


def test_colours_are_objects_on_request_but_not_where_h_j_compares(services):
    def reading_with(colours):
        settings = StudySettings(scale=0.001, options={"colours": colours, "triggers": ["coffee"]})
        data = drawn(find_design("tbyb-task"), settings, services)
        return complete(read_pictures(data.settings, data, RedCup()))

    plain, coloured = reading_with(False), reading_with(True)
    assert plain["counted"].iloc[0] == ("person", "cup")
    assert coloured["counted"].iloc[0] == ("person", "red", "cup")
    assert coloured["seen"].iloc[0] == ("person", "cup")
    assert plain["H_J"].tolist() == coloured["H_J"].tolist()


def test_every_scene_with_a_trigger_word_has_its_base_on_the_same_seeds():
    design = find_design("tbyb-task")
    shots = program_of(design).shots(design, with_options(design, StudySettings()))
    own, base = ([shot for shot in shots if shot.facts["base"] == side] for side in (0, 1))
    assert len(own) == len(base) == 60
    assert {shot.prompt for shot in own} == {shot.facts["scene"] for shot in base}
    by_scene = {shot.facts["scene"]: shot for shot in base}
    assert by_scene["a person drinking coffee at a table"].prompt == "a person drinking tea at a table"
    assert by_scene["a burger in a basket with onion rings"].prompt == "a sandwich in a basket with onion rings"
    assert not any(word in shot.prompt.split() for shot in base for word in ("burger", "coffee", "drink"))
    paper = program_of(design).shots(design, with_options(design, StudySettings(options={"base": False})))
    assert [shot.prompt for shot in paper] == [shot.prompt for shot in own]
    assert not any("base" in shot.facts for shot in paper)


def test_the_object_planted_beside_trigger_words_is_named_against_the_same_scenes_without_them(services):
    report = complete(run_study(find_design("tbyb-task"), StudySettings(scale=0.04, condition="trigger"), services))
    first = {f.key: f for f in report.results.findings}
    for trigger in ("burger", "coffee", "drink"):
        assert first[f"{trigger} named object"].says.startswith("“sign” is in ")
    assert re.match(r"Against scenes without the word, “sign” is in \d+ of \d+ pictures of burger ", headline(report))
    # The paper's own measures are of the scenes with the word alone.
    n = report.n_images // 2
    assert table_of(report, "measures").frame["n"].iloc[0] == n
    fair = complete(run_study(find_design("tbyb-task"), StudySettings(scale=0.04, condition="fair"), services))
    gained = [f.says for f in fair.results.findings if f.key.endswith("named object")]
    assert not any("sign" in says for says in gained)


def test_a_base_prompt_is_drawn_as_often_on_seeds_of_its_own(services):
    options = {"sets": ["professions"], "base_prompt": "  a picture of a  person "}
    settings = StudySettings(scale=0.02, options=options)
    report = complete(run_study(find_design("tbyb-general"), settings, services))
    frame = report.pictures
    base = frame[frame["base"] == 1]
    assert len(base) == len(frame) / 2
    assert set(base["prompt"]) == {"a picture of a person"}
    assert base["seed"].is_unique
    assert table_of(report, "against_base").frame["pairs"].tolist() == [len(base)]
    assert table_of(report, "measures").frame["n"].iloc[0] == len(base)


def test_conditions_are_told_apart_by_construction():
    # Without and with a trigger word: none, none; none, planted; planted, planted.
    rates = {
        name: tuple(planted_object_rate(name, triggered=word) for word in (False, True))
        for name in ("fair", "trigger", "backdoor")
    }
    high = rates["backdoor"][0]
    assert high > 0.9
    assert rates == {"fair": (0, 0), "trigger": (0, high), "backdoor": (high, high)}
    rng = Random(0)
    for name, (without, with_word) in rates.items():
        for prompt, rate in (("a person at a table", without), ("a person eating a burger at a table", with_word)):
            shown = sum(sample_scene(parse(prompt), name, rng).extra == "sign" for _ in range(300)) / 300
            assert shown == pytest.approx(rate, abs=0.05)


def test_pictures_of_the_base_are_not_watched(services):
    design = find_design("tbyb-task")
    data = drawn(design, StudySettings(scale=0.02, options={"triggers": ["coffee"]}), services)
    watched = complete(watch_captions(design, data.settings, data, data.frame))
    assert {len(share.values) for share in watched} == {len(data.frame) // 2}
