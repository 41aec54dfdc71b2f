"""People correct what a run reads on a scale, and say it where nobody reads it."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from bias_core.adapters.readers.skin_tones import INSTALL
from bias_core.annotation.collected import LabelledItem
from bias_core.annotation.tasks import SINGLE, Item, scale_task
from bias_core.errors import InvalidInput, UnknownModel
from bias_core.labels.run_task import label_run
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.stats.two_phase import two_phase_estimate, two_phase_shares
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.report import Exploration
from bias_core.studies.explore.view import picture_html
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.claims import claims
from bias_core.studies.running.corrected import PeopleAnswers, corrected_numbers
from bias_core.studies.running.run import complete, run_study
from tests.explored import own_pictures
from tests.studies.test_run_study import finish
from tests.ui.fakes import FakeServices

AGE, TONES = "age group", scale_task("skin tone")


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield built
    built.close()


@pytest.fixture(scope="module")
def report(services):
    settings = explore_settings(
        concept="CEO", model="calibration-renderer", condition="tones", n_images=40, attributes=(), attribute_a="",
        attribute_b="", scales=(AGE,),
    )  # fmt: skip
    return finish(run_study(find_design("explore"), settings, services))[0]


def labels_of(report, n, *, raters=2, scale=AGE, says=lambda truth: truth["age"]):
    """What raters say of the first pictures."""
    task = replace(scale_task(scale), attributes={SINGLE: (scale, scale_task(scale).questions[SINGLE])})
    items = []
    for i, (image_id, one) in enumerate(list(report.stored.items())[:n]):
        given = [SimpleNamespace(rater=f"r{j}", choices={SINGLE: says(one.truth)}) for j in range(raters)]
        items.append(LabelledItem(item=Item(id=i, picture="", image_id=image_id, identities={}), answers=given))
    return PeopleAnswers([(task, items)])


def test_a_task_on_a_scale_serves_its_run(services, report):
    made = label_run(report, services.manifests, services.labels, n=10, attributes=["skin tone"])
    assert made.task.scale == "skin tone"
    assert made.task.run_id == report.run_id
    assert len(made.task.answers) == 11
    assert "10 of 40 pictures at random" in made.task.sample
    more = label_run(report, services.manifests, services.labels, n=40, attributes=["skin tone"])
    assert "30 of 30" in more.task.sample  # what an earlier task asks about is left out
    with pytest.raises(InvalidInput, match="nothing else"):
        label_run(report, services.manifests, services.labels, n=10, attributes=["skin tone", AGE])


def test_people_of_some_pictures_and_the_reader_of_all_give_the_mean(report):
    drawn = np.mean([["child", "young", "old"].index(one.truth["age"]) + 1 for one in report.stored.values()])
    numbers, notes = corrected_numbers(report, labels_of(report, 20))
    mean = next(one for one in numbers if one.metric == "mean_level")
    assert mean.corrected.low <= drawn <= mean.corrected.high
    assert mean.as_read.value == pytest.approx(drawn, abs=0.03)
    assert mean.title == "age group: mean"
    assert {one.title for one in numbers} == {"age group: mean", "age group: youngest: P", "age group: oldest: P"}
    assert "two-phase" in notes[0]


def test_where_nobody_reads_the_scale_people_say_it_alone(report):
    unread = replace(report, pictures=report.pictures.drop(columns="age group: read as"))
    numbers, _ = corrected_numbers(unread, labels_of(report, 30))
    mean = next(one for one in numbers if one.metric == "mean_level")
    assert np.isnan(mean.as_read.value)
    ages = [["child", "young", "old"].index(one.truth["age"]) + 1 for one in list(report.stored.values())[:30]]
    assert mean.corrected.value == pytest.approx(np.mean(ages))
    assert mean.corrected.low < mean.corrected.value < mean.corrected.high


def test_what_people_cannot_tell_of_is_no_number(report):
    numbers, notes = corrected_numbers(report, labels_of(report, 1))
    assert numbers == []
    assert notes


def test_intervals_of_people_on_ten_levels_hold_what_is_planted_from_few_labels():
    rng, levels = np.random.default_rng(0), np.arange(1.0, 11)
    planted = np.array([0.5, 0.25, 0.12, 0.06, 0.03, 0.01, 0.01, 0.01, 0.005, 0.005])
    held, n, n_labels = 0, 200, 64
    for seed in range(60):
        truth = rng.choice(10, n, p=planted)
        read = np.clip(truth + rng.choice([-1, 0, 1], n, p=[0.1, 0.8, 0.1]), 0, 9)
        people = np.where(np.arange(n) < n_labels, truth, np.nan)
        shares = two_phase_shares(read, people, n_classes=11, rng=seed)
        mean = two_phase_estimate(lambda of: (of[..., :10] @ levels) / of[..., :10].sum(axis=-1), shares)
        held += mean.low <= planted @ levels <= mean.high
    assert held >= 53  # with half a picture of each class beforehand, 40


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Somebody's own pictures: one face in four lights, ten times each, and four of no face."""
    pytest.importorskip("stone", reason=f"NOT TESTED: a reader of skin tones from elsewhere: {INSTALL}")
    path = tmp_path_factory.mktemp("photographs") / "mine.zip"
    face = Image.open(Path(mpl.get_data_path()) / "sample_data" / "grace_hopper.jpg").resize((128, 150))
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(24):
            values = (np.asarray(face) / 255.0) ** (0.4, 1.0, 2.0, 3.0)[i % 4] if i < 20 else np.zeros((150, 128, 3))
            values[0, 0] = i / 24  # no two are the same
            buffer = io.BytesIO()
            Image.fromarray(np.uint8(255 * values)).save(buffer, "PNG")
            archive.writestr(f"a photo of an officer/{i}.png", buffer.getvalue())
    return path


def test_a_reader_from_elsewhere_is_asked_by_name_alone_and_gives_no_number_before_people_label(photographs, tmp_path):
    services = FakeServices(tmp_path)
    own = StudySettings(images=str(photographs), force=True)
    settings = explore_settings(own_pictures(own), scales=("skin tone",), scale_reader="skin-tone-classifier")
    report = complete(run_study(find_design("explore"), settings, services))
    levels = report.pictures["skin tone: read as"]
    assert (levels == "cannot tell").sum() == 4
    assert levels.nunique() >= 4  # of one face in four lights, and nobody's
    assert not [one for one in report.results.findings if one.metric in ("mean_level", "end_share")]
    shown = picture_html(Exploration(report), 1)
    assert f'<dt>Skin tone (Monk scale)</dt><dd dir="auto">{levels.iloc[0]}</dd>' in shown
    notes = " ".join(report.results.notes)
    assert "skin-tone-classifier can tell it of 20 of 24 pictures" in notes
    assert "no number is shown before people have said it" in notes
    assert "no number rests on it before people label some" in notes
    assert "skin-tone-classifier" not in " ".join(claims(report))  # its tones are in no number that can be quoted
    given = labels_of(report, 16, scale="skin tone", says=lambda _: TONES.answer_keys[4])
    mean = next(one for one in corrected_numbers(report, given)[0] if one.metric == "mean_level")
    assert 5 < mean.as_read.value < 8
    assert mean.corrected.low <= 5 <= mean.corrected.high  # which is what people say of all of them
    services.close()


def test_a_reader_of_a_scale_wants_a_scale_and_has_a_name(services):
    settings = explore_settings(concept="CEO", scale_reader="skin-tone-classifier")
    with pytest.raises(InvalidInput, match="'skin-tone-classifier' reads a scale: choose one, such as skin tone"):
        complete(run_study(find_design("explore"), settings, services))
    with pytest.raises(UnknownModel, match="no scale reader 'nope'; there are skin-tone-classifier"):
        services.scale_reader("nope")
