"""Twelve runs whose numbers stay as they are: `python -m tests.frozen.runs` writes them anew.

A number that changes on purpose is written anew in the same commit, and CHANGELOG.md says why.
"""

import json
import math
import tempfile
from pathlib import Path

import numpy as np

from bias_core.explore.exploration import KINDS, Exploration
from bias_core.explore.options import explore_settings
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store.export import write_zip
from bias_core.study.attributes import find_attribute, load_attribute_sets
from bias_core.study.design import find_design
from bias_core.study.types import Arm, StudySettings
from tests.explored import pictures_of

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
        return explored(Exploration(exploration(services)))
    if name == "compare":
        return compared(comparison(services))
    if name == "own-pictures":
        archive = folder / "pictures.zip"
        write_zip(pictures_of(exploration(services)), archive)
        options = {"concept": "", "attribute_a": "", "attribute_b": "", "attributes": ["man", "old"]}
        settings = StudySettings(images=str(archive), options={**options, "n_clusters": 2})
        return numbers_of(complete(run_study(find_design("explore"), settings, services)))
    as_the_paper = {"contrast": False, "held_out": 0.0, "prior_weight": 0.0} if name == "oasis-stop" else {}
    settings = StudySettings(scale=SCALE, options=as_the_paper)
    return numbers_of(complete(run_study(find_design(name), settings, services)))


def attributes(services, *names):
    sets = load_attribute_sets(services.settings.assets_dir / "studies")
    return tuple(find_attribute(name, "doctor", sets) for name in names)


def exploration(services):
    settings = explore_settings(
        concept="doctor",
        model="calibration-renderer",
        attributes=attributes(services, "man", "old", "glasses"),
        n_images=24,
        n_attribute_images=8,
    )
    return complete(run_study(find_design("explore"), settings, services))


def comparison(services):
    settings = explore_settings(
        StudySettings(),
        concept="doctor",
        arms=(Arm(condition="fair"), Arm(condition="extreme")),
        attributes=attributes(services, "man", "old"),
        attribute_a="male",
        attribute_b="female",
        n_images=24,
        n_attribute_images=8,
    )
    return complete(run_study(find_design("explore"), settings, services))


_OLD_PLACES = (
    ("prevalence_0", "man-p"),
    ("corrected_1", "man-corrected"),
    ("stereotype_2", "man-psi"),
    ("prevalence_3", "old-p"),
    ("corrected_4", "old-corrected"),
    ("stereotype_5", "old-psi"),
    ("variance_6", "man-variance"),
    ("variance_7", "old-variance"),
    ("association_10", "association"),
)


def compared(report):
    """A comparison's numbers under the names that they had while Compare was a pipeline of its own."""
    findings = {finding.key.partition(": ")[0]: finding for finding in report.results.findings}
    tables = {table.key: table.frame for table in report.results.tables}
    titles = {key: f.title for arm in report.arms for key, f in ((f.key, f) for f in arm.results.findings)}
    rows = tables["differences"].set_index("finding")
    told = {}
    for i, (old, new) in enumerate(_OLD_PLACES):
        key = new if new == "association" else f"all pictures-{new}"
        finding = findings[key]
        told |= estimate(f"findings/{old}", finding.estimate)
        told[f"findings/{old}/p"] = finding.p_value
        told[f"findings/{old}/published"] = None
        told[f"findings/{old}/expected"] = finding.expected if old.startswith("prevalence") else None
        row = rows.loc[titles[key]]
        for column in ("value first", "value second", "difference", "low", "high", "n", "p", "p adjusted"):
            told[f"tables/differences/{i}/{column}"] = float(row[column])
        drawn = row["drawn"] if old.startswith("prevalence") else math.nan
        told[f"tables/differences/{i}/drawn"] = float(drawn)
    change = findings["change"]
    told |= estimate("findings/change", change.estimate)
    told |= {f"findings/change/{name}": None for name in ("p", "published", "expected")}
    order = [f"all pictures-{a}-{end}" for a in ("man", "old") for end in KINDS if end not in ("unclear", "true")]
    order.append("association")
    by_arm = [{f.key: f.estimate for f in arm.results.findings} for arm in report.arms]
    for i, one in enumerate(arm[key] for arm in by_arm for key in order):
        for name in ("value", "low", "high", "n"):
            told[f"tables/arms/{i}/{name}"] = float(getattr(one, name))
    for i, row in tables["seeds"].iterrows():
        told |= {f"tables/seeds/{i}/{name}": float(row[name]) for name in ("seed", "change")}
    return told


def explored(report):
    """Explore's numbers by attribute and score."""
    told = {}
    for score in report.attributes:
        for name in ("prevalence", "stereotype", "signed_difference", "wals", "variance_share", "corrected"):
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
