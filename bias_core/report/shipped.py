"""Shipped reports of the studies that check the measures against planted truth.

``python -m validation report --ship`` writes them.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from bias_core.errors import StorageError
from bias_core.installed import ASSETS
from bias_core.measures.cards import METRICS
from bias_core.report.headlines import GRADES, VerdictLine, verdict_lines
from bias_core.report.saved import SavedReport, from_text
from bias_core.study.types import StudyReport

SHIPPED = ASSETS / "validity"
TITLES: Mapping[str, str] = {
    "validity-rates": "Every planted rate",
    "validity-measures": "Picture measures",
    "validity-associations": "Associations",
    "validity-pairs": "Pairs of people",
    "validity-bases": "Objects compared with a base",
    "validity-objects": "Objects",
    "validity-texts": "Texts of clusters",
    "validity-mitigation": "Mitigation",
    "validity-intersections": "Intersections",
    "validity-languages": "Languages",
    "validity-people": "People who stand together",
    "validity-raters": "Raters",
    "validity-steps": "Denoising steps",
    "validity-causes": "Causes",
    "validity-headlines": "Headlines",
}
"""Titles of the reports by study, in the order in which the tab shows them."""

GRADE_WORDS: Mapping[str, str] = {
    "holds": "✓ holds",
    "remark": "✓ holds, with a remark",
    "inconclusive": "? inconclusive",
    "fails": "✗ fails in part",
}
"""Grades of a verdict in words."""

NOT_HERE: Mapping[str, str] = {
    "association_effect_size": "S in other units, without an interval of its own",
    "model_distance": "relative to the models in a table, so it has no planted value",
    "mean_similarity": "in the encoder's own units, so it has no planted value",
    "stereotype_propagation_index": "about denoising steps, which the renderer does not have; tested on the diffusion "
    "model",
    "exchange_effect": "about denoising steps too; tested on the diffusion model",
    "part_effects": "about the parts of a model; tested on the diffusion model",
    "drawing_effect": "about the parts of a model; tested on the diffusion model",
    "predicted_gain": "about denoising steps too; tested on the diffusion model",
    "weighted_alignment_score": "no interval, because WALS depends on the number of pictures; the report on picture "
    "measures gives its error",
    "picture_change": "in the encoder's own units, so it has no planted value",
    "kendall_tau": "about two orders, not about pictures",
    "chao_shen_entropy": "no interval; variety compared with a base is tested",
    "refused_share": "about requests; the renderer refuses none",
    **dict.fromkeys(("mean_level", "end_share"), "about people's answers, which no classifier gives"),
}
"""Reasons why no report covers a measure."""


def load_shipped(folder: Path = SHIPPED) -> tuple[SavedReport, ...]:
    """The shipped reports that exist, in order; StorageError if a file cannot be read."""
    paths = [path for name in TITLES if (path := folder / f"{name}.json").is_file()]
    try:
        texts = [path.read_text(encoding="utf-8") for path in paths]
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read the shipped reports: {error}") from error
    return tuple(from_text(text, folder) for text in texts)


def load_others(folder: Path = SHIPPED) -> dict[str, tuple[SavedReport, ...]]:
    """Shipped reports on generators other than the renderer, by generator name."""
    places = sorted(path for path in folder.glob("*") if path.is_dir())
    return {path.name: reports for path in places if (reports := load_shipped(path))}


def find_measure_key(line: VerdictLine) -> str:
    """Return the key of a verdict's measure; "" for one without a card."""
    names = ((key, metric.name) for key, metric in METRICS.items())
    return next((key for key, name in names if line.measure == name or line.measure.startswith(f"{name}, ")), "")


@lru_cache(maxsize=4)
def grades(folder: Path = SHIPPED) -> Mapping[str, str]:
    """Return the worst grade of each tested measure in the shipped reports, by key of the measure."""
    reports = (saved.report for saved in load_shipped(folder))
    found: dict[str, str] = {}
    for line in (line for report in reports if isinstance(report, StudyReport) for line in verdict_lines(report)):
        key = find_measure_key(line)
        found[key] = max(found.get(key, line.grade), line.grade, key=GRADES.index)
    return found
