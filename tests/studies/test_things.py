"""Things that prompts name, asked of a judge that errs in known ways, and asked of nobody without one."""

from random import Random

import numpy as np
import pytest

from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study
from tests.studies.scribe import ScribeServices

MISSING = 0.3  # of the things, says the judge


class Judge:
    """Sees a cup in seven of ten pictures and everything else in all; cannot tell of people."""

    name = "cups"

    def judge(self, images, questions):
        self.questions = getattr(self, "questions", set()) | set(questions)
        rows = []
        for image, question in zip(images, questions, strict=True):
            lucky = Random(image.tobytes()).random() > MISSING
            yes = lucky or "coffee" not in question
            rows.append([0, 0, 1] if "person" in question else [1, 0, 0] if yes else [0, 1, 0])
        return np.array(rows, dtype=float)


class JudgedServices(ScribeServices):
    eye = Judge()

    def judge(self, name):
        return self.eye

    def known_pictures(self, model, positive, negative):
        return ()


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    settings = Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True, judge_url="http://127.0.0.1:1")
    built = JudgedServices(settings.model_copy(update={"judge_model": "eye"}))
    yield built
    built.close()


@pytest.fixture(scope="module")
def report(services):
    settings = StudySettings(scale=0.06, judge="endpoint", options={"triggers": ["coffee"], "base": False})
    return complete(run_study(find_design("tbyb-task"), settings, services))


def test_each_thing_of_a_prompt_is_asked_about_in_its_pictures_only(services, report):
    assert "Does this picture show a coffee? Answer yes, no or cannot tell." in services.eye.questions
    table = table_of(report, "missing_things").frame.set_index("thing")
    assert table.loc["coffee", "asked in"] == report.n_images
    assert table.loc["person", "asked in"] < report.n_images
    # "cannot tell" is no yes.
    assert table.loc["person", "missing"] == 1
    assert 0 < table.loc["coffee", "missing"] < 1
    assert table.index[0] == "person"  # the one that is missing most
    assert table["missing"].tolist() == sorted(table["missing"], reverse=True)


def test_the_finding_is_the_share_of_all_named_things_that_are_not_there(report):
    found = next(f for f in report.results.findings if f.key == "coffee missing things")
    table = table_of(report, "missing_things").frame
    missing = (table["missing"] * table["asked in"]).sum() / table["asked in"].sum()
    assert found.estimate.value == pytest.approx(missing)
    assert found.estimate.n == table["asked in"].sum()
    assert found.estimate.low < found.estimate.value < found.estimate.high


def test_without_a_judge_nobody_is_asked(services):
    settings = StudySettings(scale=0.03, options={"triggers": ["coffee"], "base": False})
    report = complete(run_study(find_design("tbyb-task"), settings, services))
    assert not any(f.key.endswith("missing things") for f in report.results.findings)
    assert not any(table.key == "missing_things" for table in report.results.tables)
