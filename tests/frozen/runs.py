"""Twelve runs whose numbers stay as they are: `python -m tests.frozen.runs` writes them anew.

A number that changes on purpose is written anew in the same commit, and CHANGELOG.md says why.
"""

import json
import math
import tempfile
from pathlib import Path

import numpy as np

from bias_core.runs.export import write_zip
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.catalogue import find_attribute, load_attribute_sets
from bias_core.studies.compare import compare
from bias_core.studies.compare_types import Arm, CompareSettings
from bias_core.studies.designs import find_design
from bias_core.studies.explore import explore
from bias_core.studies.explore_export import to_export
from bias_core.studies.explore_types import ExploreSettings
from bias_core.studies.own_pictures import own_pictures
from bias_core.studies.run_study import complete, run_study
from bias_core.studies.study_types import StudySettings

FOLDER = Path(__file__).parent
STUDIES = (
    "t2iat-tests",
    "t2iat-occupations",
    "pst-occupations",
    "pst-fairness",
    "tbyb-general",
    "tbyb-controlled",
    "internal-bias",
    "oasis-nationalities",
    "oasis-stop",
)
NAMES = ("explore", "compare", "own-pictures", *STUDIES)
SCALE = 0.02


def run(name, services, folder):
    """The numbers of one of the twelve runs: ``{path of the number: value}``."""
    if name == "explore":
        return explored(exploration(services))
    if name == "compare":
        return numbers_of(comparison(services))
    if name == "own-pictures":
        archive = folder / "pictures.zip"
        write_zip(to_export(exploration(services)), archive)
        settings = StudySettings(images=str(archive))
        return numbers_of(complete(run_study(own_pictures(["man", "old"], 2), settings, services)))
    return numbers_of(complete(run_study(find_design(name), StudySettings(scale=SCALE), services)))


def attributes(services, *names):
    sets = load_attribute_sets(services.settings.assets_dir / "studies")
    return tuple(find_attribute(name, "doctor", sets) for name in names)


def exploration(services):
    settings = ExploreSettings(
        concept="doctor",
        model="calibration-renderer",
        attributes=attributes(services, "man", "old", "glasses"),
        n_images=24,
        n_attribute_images=8,
    )
    *_, report = explore(settings, services)
    return report


def comparison(services):
    settings = CompareSettings(
        concept="doctor",
        arms=(Arm(condition="fair"), Arm(condition="extreme")),
        attributes=attributes(services, "man", "old"),
        attribute_a="male",
        attribute_b="female",
        n_images=24,
        n_attribute_images=8,
    )
    return complete(compare(settings, services))


def explored(report):
    """Explore's numbers by attribute and score."""
    told = {}
    for score in report.attributes:
        for name in ("prevalence", "stereotype", "signed_difference", "wals", "spread", "corrected"):
            told |= estimate(f"{score.attribute.name}/{name}", getattr(score, name))
        told[f"{score.attribute.name}/drawn"] = score.drawn
        told[f"{score.attribute.name}/positive"] = float(np.sum(score.similarity_positive))
        told[f"{score.attribute.name}/negative"] = float(np.sum(score.similarity_negative))
    told |= estimate("association", report.association.mean)
    told["association/sum"] = float(np.sum(report.association.associations))
    told["clusters/n"] = report.clusters.n_clusters
    told["clusters/labels"] = "".join(map(str, report.clusters.labels))
    return told


def numbers_of(report):
    """The numbers of a study's findings and tables."""
    told = {}
    for finding in report.results.findings:
        told |= estimate(f"findings/{finding.key}", finding.estimate)
        told[f"findings/{finding.key}/p"] = finding.p_value
        told[f"findings/{finding.key}/published"] = finding.published
        told[f"findings/{finding.key}/expected"] = finding.expected
    for table in report.results.tables:
        for column in table.frame:
            for i, value in enumerate(table.frame[column]):
                if isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_)):
                    told[f"tables/{table.key}/{i}/{column}"] = float(value)
    return told


def estimate(path, value):
    if value is None:
        return {}
    return {f"{path}/{name}": getattr(value, name) for name in ("value", "low", "high", "n", "null_value")}


def as_json(value):
    """nan and inf as text, as JSON knows neither."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, float):
        return value
    return float(f"{value:.10g}") if math.isfinite(value) else str(value)


def frozen(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        services = Services(Settings(data_dir=Path(folder) / "data"))
        for name in NAMES:
            values = {path: as_json(value) for path, value in run(name, services, Path(folder)).items()}
            text = json.dumps(values, indent=0, ensure_ascii=False)
            (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
            print(f"{name}: {len(values):,} numbers", flush=True)
        services.close()


if __name__ == "__main__":
    main()
