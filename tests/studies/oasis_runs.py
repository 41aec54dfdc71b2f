"""What tests of studies share: running a study to its end, reading its findings, and labels in a file."""

import csv
import re

from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.documents import to_dict
from bias_core.studies.running.run import complete, run_study


def real_services(folder):
    """The shipped calibration world over an empty data folder."""
    return Services(Settings(data_dir=folder, offline=True, device="cpu"))


def run(services, study, *, cancelled=lambda: False, **settings):
    """The report of a study, which is given by its name or its design."""
    design = find_design(study) if isinstance(study, str) else study
    return complete(run_study(design, StudySettings(**settings), services, cancelled=cancelled))


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


def write_labels(path, columns, answers):
    """A CSV of people's answers; its path as settings take it."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *answers])
    return str(path)
