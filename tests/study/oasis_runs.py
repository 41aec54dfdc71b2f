"""Helpers of the tests of studies: run a study to its end, read its findings, write labels into a file."""

import csv
import re

import numpy as np
from PIL import Image

from bias_core.report.documents import to_dict
from bias_core.run.plan import settle
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.design import find_design, get_study
from bias_core.study.types import StudySettings


def real_services(folder):
    """The shipped calibration world over an empty data folder."""
    return Services(Settings(data_dir=folder, offline=True, device="cpu"))


def run(services, study, *, cancelled=lambda: False, **settings):
    """The report of a study, which is given by its name or its design."""
    design = find_design(study) if isinstance(study, str) else study
    return complete(run_study(design, StudySettings(**settings), services, cancelled=cancelled))


def shots_of(study, **settings):
    """Pictures that a study, by its name or its design, draws with these settings."""
    design = find_design(study) if isinstance(study, str) else study
    return get_study(design).shots(settle(design, StudySettings(**settings)).settings)


def findings(report):
    return {finding.key: finding for finding in report.results.findings}


def table(report, key):
    return next(table.frame for table in report.results.tables if table.key == key)


def figures(report):
    return {figure.key: figure for figure in report.results.figures}


def without_seconds(report):
    """A report, or its values, but for how long it took and on which day: a test may run past midnight."""
    values = dict(report if isinstance(report, dict) else to_dict(report))
    values.pop("seconds")
    return values | {"claims": [re.sub(r"\d{4}-\d\d-\d\d", "a day", claim) for claim in values["claims"]]}


def extremes(reader, present, absent):
    """Find the one of forty pictures of noise that is nearest to each of two sentences."""
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (2, 2, 3), dtype=np.uint8)).resize((64, 64)) for _ in range(40)]
    first, second = reader.encode_texts([present, absent])
    margins = reader.encode_images(pictures) @ (first - second)
    assert margins.min() < 0 < margins.max()
    return pictures[margins.argmax()], pictures[margins.argmin()]


def write_labels(path, columns, answers):
    """A CSV of people's answers; its path as settings take it."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *answers])
    return str(path)
