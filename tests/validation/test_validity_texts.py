"""StOP names the attribute that the pictures of a cluster share, and seldom one that they do not."""

from dataclasses import replace

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.headline import headline
from bias_core.studies.running.run import complete, run_study
from tests import shared
from tests.studies.oasis_runs import table
from validation.texts import _parts

world = shared.real_services

OPTIONS = {"clusters": 2, "pictures": 20, "n_candidates": 100}


def run(world, *cases, **options):
    design = find_design("validity-texts")
    design = replace(design, data={**design.data, "cases": list(cases)})
    return complete(run_study(design, StudySettings(scale=0.25, options=OPTIONS | options), world))


def test_the_planted_attribute_is_named_where_it_is_shared_and_told_apart_from_clusters_at_random(world):
    nurse = {"concept": "nurse", "prompt": "a photo of a nurse", "attributes": ["woman"]}
    report = run(world, nurse)
    texts = table(report, "texts")
    assert len(texts) == 2 * 2 * 2  # clusters, with and without what is planted, two searches
    planted = texts[texts["is planted"] & (texts["search"] == "against the others")]
    assert planted["named"].all(), planted["texts"].tolist()
    shares = {one.title: one.estimate for one in report.results.findings}
    assert shares["Clusters whose attribute a text names, against the others, an attribute is planted"].n == 2
    assert "too few" not in " ".join(report.results.notes)
    assert "names it in 100\N{NO-BREAK SPACE}% [34, 100]" in headline(report)


def test_an_attribute_that_is_in_too_few_pictures_is_said(world):
    nurse = {"concept": "nurse", "prompt": "a photo of a nurse", "attributes": ["sombrero"]}
    report = run(world, nurse, clusters=1)
    assert not table(report, "texts")["is planted"].any()
    assert "1 planted attributes are in too few pictures" in " ".join(report.results.notes)
    assert headline(report).startswith("No planted attribute is in enough pictures")


def test_a_cluster_and_the_others_have_their_shares_and_no_picture_in_common():
    shows, at = np.arange(200) % 2 == 0, np.arange(1000, 1200)
    settings = replace(StudySettings(), options=_options(pictures=20, sharing=0.8))
    inside, outside = _parts(at, shows, settings, np.random.default_rng(3), planted=True)
    assert (len(inside), len(outside)) == (20, 40)
    assert shows[inside - 1000].sum() == 16
    assert shows[outside - 1000].sum() == 8
    assert len({*inside, *outside}) == 60


def _options(**given):
    from bias_core.studies.kit.designs import typed_options

    return typed_options(find_design("validity-texts"), given)


def test_imported_pictures_have_nothing_planted(world):
    with pytest.raises(InvalidInput, match="nothing is planted in imported pictures"):
        complete(run_study(find_design("validity-texts"), StudySettings(images="old.zip"), world))
