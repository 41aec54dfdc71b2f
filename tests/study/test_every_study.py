"""Every study of the papers, as small as it goes: a whole report, and again.

On the diffusion model those that draw in a way of their own, and one that does not; the others on the renderer.
"""

import math
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import count, product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import Cancelled, InvalidInput, UnknownModel
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import to_export
from bias_core.report.headlines import headline
from bias_core.run.plan import settle
from bias_core.run.run import complete, run_study
from bias_core.settings import Settings
from bias_core.store.export import Export, ExportedImage, write_zip
from bias_core.study.classifier_answers import list_readings
from bias_core.study.design import design_files, find_design, format_summary, get_study, list_designs
from bias_core.study.types import Arm, StudySettings, map_progress
from bias_core.world.models import CalibrationRenderer
from tests.claimed import broken_claims, stray_counts, stray_numbers
from tests.shared import RealServices

N_STEPS, SCALE = 2, 1e-6
DIFFUSION, RENDERER = "calibration-diffusion", "calibration-renderer"
ON_DIFFUSION = {"causes", "oasis-spi", "oasis-stop"}
SCIENCE_ARTS = {"tests": ["science_arts"]}
IRANIAN, HALVES = {"nationalities": ["Iranian"]}, {"finder": "halves"}
STOP = IRANIAN | {"n_clusters": 2, "max_clusters": 1, "beam_width": 2, "n_candidates": 16, "n_generated": 1}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A study's smallest settings, its pictures, and the n that its findings have.

    ``up_to``: the reader decides who is identified or which cluster is largest, so that n may be less.
    """

    n_images: int
    n: set[int]
    up_to: bool = False
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    # Doctors, Iranian and Mexican doctors: 3 prompts x 8 pictures.
    "oasis-doctors": Case(n_images=24, n={8}),
    # 3 nationalities x 8 pictures.
    "oasis-internet-users": Case(n_images=24, n={8}),
    "oasis-nationalities": Case(n_images=24, n={8}),
    # 4 seeds of the first text, a later one from the start and after 1 of 2 steps, and three weights.
    "causes": Case(n_images=24, n={4}, options={"later_texts": ["a photo of a person"]}),
    # 2 seeds, traced.
    "oasis-spi": Case(n_images=2, n={2}, options=IRANIAN | {"attributes": ["beard"], "n_predicted": 2, "n_samples": 1}),
    # 8 pictures in two clusters, at most 7 in one, and 1 of the text that was found.
    "oasis-stop": Case(n_images=9, n={1, 7}, up_to=True, options=STOP),
    # 6 targets x (16 + 8 for each pole), and 8 attribute prompts x 2; an MCAS compares 16 pictures with 2 x 4 x 2, a
    # place 16 with 2 x 8 and 16; means of 3 and 6, or of fewer: poles that look alike have no place between them.
    "internal-bias": Case(n_images=208, n={16 + 16, 16 + 2 * 8 + 16, 3, 6}, up_to=True),
    # 3 conditions x (6 prompts with a trigger word, 6 without) x 2; a change is that of 12 prompts.
    "tbyb-controlled": Case(n_images=72, n={24, 12}),
    # 2 of the 6 prompts of the task study, 2 pictures each.
    "tbyb-dataset": Case(n_images=4, n={4}),
    # (2 objects + 2 professions) x 3 actions x 2.
    "tbyb-general": Case(n_images=24, n={24}),
    # 3 triggers x 2 scenes x 2, with the trigger word and without it.
    "tbyb-task": Case(n_images=24, n={4}),
    # Plain and intervened: 2 x 2 occupations in 2 orders, 8 pictures. A gap has the n of both.
    "pst-fairness": Case(n_images=16, n={8, 16}, up_to=True, options=HALVES | {"aspects": ["occupation"]}),
    # 8 pictures of pairs; 4 occupations x 3 alone, 6 a gender; the order of 4 occupations.
    "pst-occupations": Case(n_images=20, n={8, 12, 20, 6, 14, 4}, up_to=True, options=HALVES),
    # 12 pictures of pairs; 4 roles x 3 alone, 6 a level.
    "pst-power": Case(n_images=24, n={12, 24, 6, 18}, up_to=True, options=HALVES),
    # 3 pairs in 2 orders x 2; an effect is that of 3 x 2 seeds.
    "pst-swapped": Case(n_images=12, n={6, 12, 24}, up_to=True),
    # 8 occupations x 3 prompts x 2; a score is that of 2 neutral pictures.
    "t2iat-amplification": Case(n_images=48, n={2}),
    "t2iat-occupations": Case(n_images=48, n={2}),
    # 2 concepts x 4 stimuli x (neutral, A, B) x 2; 2 judged pictures a concept, the order of 2 concepts.
    "t2iat-human": Case(n_images=48, n={2}, options=SCIENCE_ARTS | {"n_images": 2}),
    # The same pictures; the unit of the test is the prompt, 4 a side.
    "t2iat-tests": Case(n_images=48, n={8}, options=SCIENCE_ARTS | {"n_permutations": 200}),
}
CASES = {name: case for name, case in CASES.items() if name != "causes" or name in design_files()}  # it is optional


@pytest.fixture(scope="module")
def asked():
    """Every call of a generator, of whichever services."""
    calls = []

    def noted(method):
        @wraps(method)
        def call(*args, **kwargs):
            calls.append(method.__name__)
            return method(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for kind, name in (
            (CalibrationRenderer, "generate"),
            (DiffusersTextToImage, "generate"),
            (DiffusersTextToImage, "trace"),
        ):
            patch.setattr(kind, name, noted(getattr(kind, name)))
        yield calls


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return Settings(data_dir=tmp_path_factory.mktemp("data"), device="cpu", offline=True)


@pytest.fixture(scope="module")
def services(settings, asked):
    built = RealServices(settings)
    yield built
    built.close()


@pytest.fixture(scope="module")
def later(settings):
    """The services of another day: the same folder, and nothing in memory but the models."""
    built = RealServices(settings)
    yield built
    built.close()


def run(name, services, **settings):
    return complete(study_run(name, services, **settings))


def study_run(name, services, most_steps=math.inf, **settings):
    """A study's steps; stopped after so many."""
    model, taken = DIFFUSION if name in ON_DIFFUSION else RENDERER, count()
    asked_for = StudySettings(
        model=model, num_inference_steps=N_STEPS, scale=SCALE, options=CASES[name].options, **settings
    )
    steps, now = run_study(find_design(name), asked_for, services, cancelled=lambda: now[0] >= most_steps), [0]

    def counted(step):
        now[0] = next(taken) + 1
        return step

    return map_progress(steps, counted)


@pytest.fixture(scope="module")
def dataset(services, tmp_path_factory):
    """The pictures of the task study with their prompts as captions."""
    rows = services.manifests.get(run("tbyb-task", services).run_id).rows
    images = [ExportedImage(path=services.images.get(row).path, row=row) for row in rows]
    path = tmp_path_factory.mktemp("dataset") / "captioned.zip"
    return str(write_zip(Export(images=images, tables={}, report={}, markdown=""), path))


@pytest.fixture(scope="module", params=CASES)
def study(request):
    """Name of the study, and further settings."""
    images = request.getfixturevalue("dataset") if request.param == "tbyb-dataset" else ""
    return request.param, {"images": images}


@pytest.fixture(scope="module")
def report(study, services):
    name, further = study
    return run(name, services, **further)


def test_every_study_of_the_papers_is_here():
    names = {d.name for d in list_designs()}  # explore and concepts are no studies of a paper
    with_a_prior = {"causes-prior"}  # no shipped model has one: tests/beyond/test_causes_prior.py plants it
    assert set(CASES) == names - {"explore", "concepts"} - with_a_prior


def test_a_study_that_needs_a_diffusion_model_has_one_by_default_and_refuses_what_is_asked_for_in_its_place(services):
    for name in {"oasis-spi", "causes"} & set(CASES):
        assert settle(find_design(name), StudySettings()).settings.model == DIFFUSION
        with pytest.raises(InvalidInput, match="diffusion model"):
            list(run_study(find_design(name), StudySettings(model=RENDERER, scale=SCALE), services))


def test_a_condition_that_the_model_was_not_taught_is_refused_before_anything_is_drawn(services, asked):
    before = list(asked)
    untaught = StudySettings(model=DIFFUSION, condition="sideways", scale=SCALE)
    with pytest.raises(UnknownModel, match="calibration-diffusion has no condition 'sideways'"):
        list(run_study(find_design("t2iat-tests"), untaught, services))
    assert asked == before


def test_every_finding_stands_on_the_pictures_that_were_drawn(study, report):
    case = CASES[study[0]]
    # Who is nearer to the middle is told where nobody is cut off at a side, and this model cuts all off.
    found = {finding.estimate.n for finding in report.results.findings if finding.key != "centre"}
    assert report.n_images == report.n_planned == case.n_images
    assert found
    if case.up_to:
        assert 0 < min(found) <= max(found) <= max(case.n)
    else:
        assert found == case.n
    for finding in report.results.findings:
        assert math.isfinite(finding.estimate.value) or finding.estimate.note, finding.title
        # Of the diffusion model's pictures no record says what is in them.
        assert finding.expected is None or study[0] not in ON_DIFFUSION


def test_nothing_in_the_report_is_empty(report):
    results = report.results
    assert results.tables
    assert results.figures
    assert not [part.key for part in results.tables if part.frame.empty]
    assert not [part.key for part in results.figures if part.data.empty]
    markdown = to_markdown(report)
    assert all(part.title in markdown for part in (*results.tables, *results.figures))


def test_the_headline_names_what_is_there_and_speaks_of_a_finding(report):
    agrees(report)
    said = headline(report)
    if report.design.name.startswith("tbyb"):
        assert ("no caption names an object" in said) == report.results.frame("top_objects").empty
    findings = {finding.key: finding.estimate for finding in report.results.findings}
    assert all(math.isnan(one.value) for one in findings.values()) == ("could be tested" in said), said


def test_people_can_correct_a_finished_run_where_the_program_says_so(study, report, tmp_path):
    design, given = report.design, replace(report.settings, labels=str(tmp_path / "answers.csv"))
    (tmp_path / "answers.csv").write_text("image_id,position,answer,rater\n")
    known = get_study(design)
    assert bool(list_readings(report)) == known.has_readings(report.settings)
    if not known.takes_labels:
        with pytest.raises(InvalidInput, match="takes no file of people's answers") as refused:
            settle(design, given)
        assert ("study label" in str(refused.value)) == bool(list_readings(report))


def test_no_sentence_of_a_report_names_a_variable(report):
    results = report.results
    texts = [headline(report), format_summary(report.design, report.settings), *results.notes]
    texts += [text for finding in results.findings for text in (finding.title, finding.says, finding.estimate.note)]
    texts += [text for part in results.tables for text in (part.title, part.note)]
    variable = re.compile(r"(?<![\w/.:-])(?!image_id)[a-z]{2,}(_[a-z]{2,})+\b")  # a column to write may be named
    assert not [text for text in texts if variable.search(text)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_so_do_the_headlines_of_arms_of_brought_pictures_and_of_a_stopped_run(name, services, dataset):
    images = dataset if name == "tbyb-dataset" else ""
    if name not in ("causes", "tbyb-controlled", "tbyb-dataset"):  # whose conditions or pictures are their own
        first, second = ("published", "extreme") if name not in ON_DIFFUSION else ("fair", "published")
        arms = tuple(Arm(name=one, condition=one) for one in (first, second))
        agrees(run(name, services, arms=arms))
    if name not in {*ON_DIFFUSION, "tbyb-controlled", "tbyb-dataset"}:
        whole = run(name, services, images=images)
        zipped = str(write_zip(to_export(whole, pictures=True), services.settings.data_dir / f"{name}.zip"))
        agrees(run(name, services, images=zipped, force=True))
    n_steps = len(list(study_run(name, services, seed=1, images=images)))
    for most in (n_steps // 2, n_steps - 1):
        with suppress(Cancelled):  # of too few pictures nothing is said
            agrees(run(name, services, seed=1, images=images, most_steps=most))


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["fair", "published"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in {*ON_DIFFUSION, "tbyb-dataset"}])
def test_so_do_headlines_of_the_size_that_the_app_begins_with(name, condition, services):
    agrees(
        complete(run_study(find_design(name), StudySettings(model=RENDERER, condition=condition, scale=0.1), services))
    )


def agrees(report):
    """Hold a headline against its report: what it claims follows from a test, and its names and numbers are there."""
    assert broken_claims(report) == []
    assert stray_numbers(report) == []
    assert stray_counts(report) == [], headline(report)
    said, markdown = headline(report), to_markdown(report)
    for name in re.findall("“([^”]+)”", said):
        assert name in markdown.replace(said, "", 1), f"“{name}”: {said}"
    known = np.abs(list(numbers_of(report)))  # of a difference, which comes first may be told the other way round
    numbers = r"([+−]?[\d.,]+)(?: %)? \[([^,\]]+), ([^\]]+)\]( points)?"
    for match in re.finditer(numbers, said.replace("\N{NO-BREAK SPACE}", " ")):
        *parts, points = match.groups()
        unit = 0.5 * 10.0 ** -len(parts[0].partition(".")[2]) + 1e-9  # of the last digit
        value, *ends = (abs(float(part.replace("−", "-").replace(",", "").replace("∞", "inf"))) for part in parts)
        scales = (100,) if points else (1, 100) if " %" in match[0] else (1,)  # tables have shares, and percentages
        for scale, triple in product(scales, ([value, *ends], [value, *ends[::-1]])):
            if np.isclose(scale * known, triple, atol=unit, rtol=0).all(axis=1).any():
                break
        else:
            pytest.fail(f"{match[0]}: {said}")


def numbers_of(report):
    """Every number of a report with an interval: (value, low, high)."""
    for part in (report, *report.arms):
        for one in (finding.estimate for finding in part.results.findings):
            yield one.value, one.low, one.high
        for frame in (table.frame for table in part.results.tables):
            for column in map(str, frame.columns):
                place = list(frame.columns).index(column)
                beside = tuple(map(str, frame.columns[place + 1 : place + 3]))  # the ends that a reader sees with it
                for ends in (("low", "high"), (f"{column} low", f"{column} high"), beside):
                    is_interval = len(ends) == 2 and ends[0].endswith("low") and ends[1].endswith("high")
                    if is_interval and {*ends} <= {*frame.columns} and pd.api.types.is_numeric_dtype(frame[column]):
                        yield from frame[[column, *ends]].astype(float).itertuples(index=False)


def test_the_same_manifest_gives_the_same_report_and_draws_nothing(study, report, later, asked):
    before = list(asked)
    assert before  # calls are noted
    name, further = study
    again = run(name, later, **further)
    assert asked == before
    assert again.run_id == report.run_id
    assert to_dict(again) | {"seconds": 0} == nearly(to_dict(report) | {"seconds": 0})


def nearly(told, name=""):
    """The same, but margins, of four digits, by one in the last: how many pictures are read at once changes them."""
    if isinstance(told, dict):
        return {key: nearly(value, key) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return type(told)(nearly(value, name) for value in told)
    return pytest.approx(told, abs=1.1e-4, nan_ok=True) if isinstance(told, float) and "margin" in name else told
