"""Causes on a model whose seeds are decided after a step of their own, and whose adapter works in a known part."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput, UnknownModel
from bias_core.models.catalogue import WITHOUT_ADAPTER, check_condition
from bias_core.report.headlines import headline
from bias_core.run.plan import plan_study
from bias_core.settings import Settings
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from bias_core.types import GeneratedImage
from tests.shared import RealServices
from tests.study.oasis_runs import extremes, figures, findings, run, table

NAME = "causes"
FEMALE, PERSON = "a photo of a female doctor", "a photo of a person"
SETTINGS = {"model": "calibration-diffusion", "condition": "published", "num_inference_steps": 4, "scale": 0.12}
SENTENCES = {"present": "The person is a man.", "absent": "The person is a woman."}
N_SEEDS = 12


def exchanged(services, *, condition="published", **options):
    settings = SETTINGS | {"condition": condition, "options": SENTENCES | options}
    return run(services, NAME, **settings)


class Planted:
    """Draws men, as its adapter in ``part`` has it; a later text draws women where it comes before a seed's step."""

    batch_size = 4

    def __init__(self, man, woman, part="text"):
        self.man, self.woman, self.part = man, woman, part

    def generate(self, rows, *, on_step=None):
        for row in rows:
            texts = row.text_condition or row.condition
            has_adapter = {"text": texts, "drawing": row.condition}[self.part] == "published"
            is_late = row.later_prompt == FEMALE and row.n_first_steps > row.seed % 3
            is_man = has_adapter and (row.prompt != FEMALE) and (row.later_prompt != FEMALE or is_late)
            # each picture has pixels of its own: the same ones are read once
            picture = (self.man if is_man else self.woman).copy()
            yield GeneratedImage(row=row, image=picture)

    def trace(self, *_, **__):
        raise NotImplementedError


@pytest.fixture
def services(tmp_path, assets):
    """Tiny models, loaded once, over an empty folder: what was planted before would be found there."""
    built = RealServices(Settings(data_dir=tmp_path, assets_dir=assets, offline=True, device="cpu"))
    yield built
    built.close()


@pytest.fixture
def planted(services):
    model = Planted(*extremes(services.encoder("calibration-clip"), **SENTENCES))
    services._built["model", "calibration-diffusion"] = model
    return model


def test_the_step_by_which_each_text_has_decided_is_found(services, planted):
    # The seeds 0 to 11 are decided after 1, 2 or 3 steps, 4 of each: of 12 women from the start 8 after 1 step,
    # 4 after 2 and none after 3. Half, 6, lies on the line between 1 and 2 steps.
    report = exchanged(services)
    one = table(report, "exchanges").set_index(["then", "steps with the first text"])
    effects = [0 if effect == 0 else effect for effect in one.loc[FEMALE, "effect"]]
    assert effects == pytest.approx([-1, -8 / 12, -4 / 12, 0, 0])
    assert one.loc[FEMALE, "P"].tolist() == pytest.approx([0, 4 / 12, 8 / 12, 1, 1])
    assert set(one["seeds"]) == {N_SEEDS}
    found = findings(report)
    decided = table(report, "decided").set_index("then")
    assert decided.loc[FEMALE, "steps"] == pytest.approx(1.5)
    assert found[f"{FEMALE}: from the start"].estimate.value == -1
    assert found[f"{FEMALE}: from the start"].sample.statistic(np.arange(N_SEEDS)) == -1
    assert math.isnan(decided.loc[PERSON, "steps"])
    assert decided.loc[PERSON, "note"].startswith("the exchange from the start has no clear effect")
    assert headline(report).startswith(
        f"With “{FEMALE}” from the start, the share of man changes by −1.00 [−1.00, −0.42] (n = 12, adjusted "
        "p = 0.002); half of the change is decided after 1.50 ["
    )
    other = exchanged(services, later_texts=[PERSON], without_adapter="")
    assert table_keys(other) == {"exchanges", "decided", "settings"}
    assert headline(other) == (
        f"With “{PERSON}” from the start, the share of man does not clearly change, +0.00 [−0.26, +0.26] (n = 12, "
        "p = 1.000)."
    )
    curve = figures(report)["exchange"].data
    assert curve.loc[curve["group"] == f"then “{FEMALE}”", "x"].tolist() == [0, 1, 2, 3, 4]
    strips = figures(report)["exchanged-0"].data
    assert strips["text"].tolist()[:5] == ["from the start", "after 1 of 4", "after 2 of 4", "after 3 of 4", "never"]
    assert list(report.pictures["drawn"].unique()[:2]) == ["first text to the end", f"from the start “{FEMALE}”"]


@pytest.mark.parametrize("part", ["text", "drawing"])
def test_the_part_that_the_adapter_works_in_is_named(services, planted, part):
    planted.part = part
    report = exchanged(services, later_texts=[FEMALE], n_exchanges=1)
    other = {"text": "drawing", "drawing": "text"}[part]
    found = {name: findings(report)[f"adapter: {name}"] for name in ("whole", part, other)}
    assert found["whole"].estimate.value == found[part].estimate.value == 1
    assert found[part].says == "There it adds the attribute."
    assert found[other].estimate.value == 0
    assert found[other].says == "There it does not clearly add or remove the attribute."
    shares = table(report, "part shares").set_index("drawn")["P"].to_dict()
    assert shares == {
        "without the adapter": 0.0,
        "adapter in the text encoders": float(part == "text"),
        "adapter in the denoiser": float(part == "drawing"),
        "adapter in both": 1.0,
    }
    assert "1.00" in headline(report).partition("With the adapter it changes by ")[2]


def test_few_seeds_are_too_few_for_every_change_in_the_headline(services, planted):
    settings = SETTINGS | {"condition": "published", "options": SENTENCES, "scale": 0.01}
    says = headline(run(services, NAME, **settings))
    assert (
        "the share of man does not clearly change, −1.00 [−1.00, +0.20] (n = 4: too few seeds, at least 8 are" in says
    )
    assert says.count("(too few)") == 2
    assert "not clear)" not in says


def test_of_a_condition_that_is_the_one_without_an_adapter_the_text_alone_is_exchanged(services, planted):
    same = exchanged(services, condition="fair", later_texts=[FEMALE], n_exchanges=1)
    assert table_keys(same) == {"exchanges", "decided", "settings"}
    assert any("no parts can be compared" in note for note in same.results.notes)


def test_of_a_model_without_adapter_the_text_alone_is_exchanged_and_the_report_says_so(services, tiny_sd1):
    settings = SETTINGS | {"model": str(tiny_sd1), "condition": "", "num_inference_steps": 2, "scale": 0.03}
    settings |= {"encoder": "calibration-clip", "force": True}
    later = {"later_texts": [FEMALE]}
    report = run(services, NAME, **settings, options=later)
    assert report.settings.options.without_adapter == ""
    assert table_keys(report) == {"exchanges", "decided", "settings"}
    assert any("has no adapter, so only its prompt was exchanged" in note for note in report.results.notes)
    assert not math.isnan(table(report, "exchanges")["effect"].iloc[0])
    with pytest.raises(UnknownModel, match="has no adapter"):  # which is asked for by name
        run(services, NAME, **settings, options=later | {"without_adapter": WITHOUT_ADAPTER})


def table_keys(report):
    return {one.key for one in report.results.tables}


def test_an_exchange_never_counts_more_steps_than_there_are(services):
    options = SENTENCES | {"later_texts": [FEMALE], "n_exchanges": 40, "without_adapter": ""}
    rows = plan_study(find_design(NAME), StudySettings(**SETTINGS, options=options), services).manifest.rows
    assert len(rows) == N_SEEDS * (1 + 4)
    assert {row.n_first_steps for row in rows if row.later_prompt} == {1, 2, 3}  # and 0 or 4: a text alone


def test_what_has_no_adapter_cannot_be_drawn_without_it(services):
    assert check_condition(services.model_info("calibration-diffusion"), WITHOUT_ADAPTER) == "fair"
    for name in ("sd-turbo", "calibration-renderer"):
        with pytest.raises(UnknownModel, match=rf"{name} has no adapter"):
            check_condition(services.model_info(name), WITHOUT_ADAPTER)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_inference_steps": 1}, "two steps or more"),
        ({"options": {"without_adapter": "nothing such"}}, "no condition 'nothing such'"),
        ({"options": {"later_texts": []}}, "later prompts"),
        ({"options": {"later_texts": ["a photo of  a doctor"]}}, "must differ"),
        ({"options": {"attribute": ""}}, "an attribute with its two sentences"),
    ],
)
def test_what_cannot_be_exchanged_is_refused_before_anything_is_drawn(services, changes, words):
    with pytest.raises((InvalidInput, UnknownModel), match=words):
        plan_study(find_design(NAME), StudySettings(**SETTINGS | changes), services)
