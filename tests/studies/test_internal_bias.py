"""The internal bias study finds the planted lean and none where none is planted, and quotes the paper."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bias_core.errors import Cancelled, InvalidInput
from bias_core.metrics.composite_association import composite_association
from bias_core.metrics.relative_lean import relative_lean_estimate, text_relative_lean
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.internal.poles import worded
from bias_core.studies.kit.designs import find_design, program_of, read_table
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.documents import to_dict
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.checklist import outlook
from bias_core.studies.running.run import plan_study, run_study, with_options
from tests import shared

services = shared.real_services

DESIGN = find_design("internal-bias")
QUARTER = StudySettings(scale=0.25)  # half of the targets, half of the pictures


def finish(run):
    returned = []

    def follow():
        returned.append((yield from run))

    list(follow())
    return returned[0]


@pytest.fixture(scope="module")
def published(services):
    return finish(run_study(DESIGN, QUARTER, services))


@pytest.fixture(scope="module")
def fair(services):
    return finish(run_study(DESIGN, replace(QUARTER, condition="fair"), services))


def table3(report):
    return table_of(report, "table3").frame


def test_the_paper_s_own_size_is_688_pictures_of_36_prompts():
    # The paper prints 668, which is a slip: 28 targets x 20 + 8 attribute prompts x 16 = 560 + 128
    shots = program_of(DESIGN).shots(DESIGN, with_options(DESIGN, StudySettings(protocol="paper")))
    assert len(shots) == 36
    assert sum(shot.n for shot in shots) == 688
    assert sum(shot.n for shot in shots if shot.group == "target") == 560


def test_every_target_is_drawn_worded_for_men_and_for_women_too_and_the_size_line_says_so(services):
    settings = with_options(DESIGN, StudySettings())
    shots = [shot for shot in program_of(DESIGN).shots(DESIGN, settings) if "pole_of" in shot.facts]
    assert len(shots) == 2 * 28
    assert {shot.n for shot in shots} == {10}
    assert {shot.first_seed for shot in shots} == {20}  # other seeds than the target's own
    prompts = {shot.prompt for shot in shots}
    assert {
        "an image of a male nurse treating a patient", "an image of a female chief executive officer",
        "an image of a woman using a lathe machine", "an image of a boy playing with a dollhouse",
    } <= prompts  # fmt: skip
    plan = plan_study(DESIGN, StudySettings(scale=0.02), services, estimate=True)
    assert "of them the targets worded for men and for women, which the paper does not draw)" in outlook(plan, services)
    without = plan_study(DESIGN, StudySettings(scale=0.02, options={"poles": False}), services, estimate=True)
    assert "worded" not in outlook(without, services)


def test_between_the_own_poles_pictures_read_as_the_share_of_men_that_was_drawn(services):
    settings = StudySettings(condition="extreme", scale=0.3, options={"targets": ["Engineer", "Nurse"]})
    frame = table3(finish(run_study(DESIGN, settings, services))).set_index("target")
    for _, row in frame.iterrows():  # all men, or all women
        assert row["r, pictures"] == pytest.approx(2 * row["men"] - 1, abs=0.35)
        assert row["r, pictures low"] < 2 * row["men"] - 1 < row["r, pictures high"]
    assert frame.loc["Engineer", "δ′ low"] > 0 > frame.loc["Nurse", "δ′ high"]
    assert (frame["δ′"] - frame["r, pictures"] + frame["r, words"]).abs().max() < 1e-12


def test_places_are_those_of_the_measure_on_the_stored_pictures(services, published):
    encoder = services.encoder("calibration-clip")
    rows = services.manifests.get(published.run_id).rows
    stored = {row.id: services.images.get(row) for row in rows}
    name = table3(published)["target"].iloc[0]
    prompt = next(t["prompt"] for t in DESIGN.data["targets"] if t["keyword"] == name)
    words = [DESIGN.data["text_attributes"][gender] for gender in ("male", "female")]
    sides = [[a["prompt"] for a in DESIGN.data["image_attributes"] if a["gender"] == g] for g in ("male", "female")]

    def embedded(prompts):
        return services.embeddings.images(encoder, [stored[row.id] for row in rows if row.prompt in prompts])

    poles = [worded(prompt, gender) for gender in ("male", "female")]
    sets = [embedded([prompt]), *(embedded([pole]) for pole in poles), *map(embedded, sides)]
    r = relative_lean_estimate(*sets)
    row = table3(published).iloc[0]
    assert [row[f"r, pictures{end}"] for end in ("", " low", " high")] == pytest.approx(
        [r.value, r.low, r.high], abs=1e-6
    )
    texts = text_relative_lean([[encoder.encode_texts(t) for t in ([prompt], *[[p] for p in poles], *words)]])
    assert row["r, words"] == pytest.approx(texts, abs=1e-6)


def test_what_drawing_adds_comes_before_what_the_paper_has(published):
    keys = [finding.key.split()[0] for finding in published.results.findings]
    assert keys.index("mcas") > max(i for i, key in enumerate(keys) if key in ("difference", "amplification"))
    report = {finding.key: finding for finding in published.results.findings}
    frame = table3(published)
    defined = frame["δ′"].dropna()
    assert report["difference overall"].estimate.value == pytest.approx(defined.mean())
    for finding in published.results.findings:
        if finding.key.startswith("difference ") and finding.sample is not None:
            everything = np.arange(len(finding.sample.units))
            assert finding.sample.statistic(everything) == pytest.approx(finding.estimate.value, abs=1e-6)


def test_without_poles_the_report_is_that_of_the_paper(services):
    report = finish(run_study(DESIGN, replace(QUARTER, scale=0.02, options={"poles": False}), services))
    assert table3(report)["δ′"].isna().all()
    assert set(table3(report)["why no α′"]) == {"its poles were not drawn"}
    assert not any(finding.key.startswith(("difference", "amplification")) for finding in report.results.findings)
    assert {figure.key for figure in report.results.figures}.isdisjoint({"places", "difference"})


def test_the_pictures_lean_as_they_were_drawn(published):
    frame = table3(published)
    assert set(frame["dominated"]) == {"male", "female"}
    ranks = frame[["II", "men"]].corr(method="spearman").iloc[0, 1]
    assert ranks > 0.8
    assert any("rank correlation" in note for note in published.results.notes)


def test_planted_sides_are_found_and_fair_has_none(published, fair):
    def gap(report):
        """Mean II of male- minus female-dominated targets, with its standard error over targets."""
        sides = [table3(report).query("dominated == @side")["II"] for side in ("male", "female")]
        error = math.sqrt(sum(side.var(ddof=1) / len(side) for side in sides))
        return sides[0].mean() - sides[1].mean(), error

    value, error = gap(published)
    assert value > 3 * error
    value, error = gap(fair)
    assert abs(value) < 3 * error


def test_more_is_found_of_what_is_planted_than_of_what_is_not(published, fair):
    clear = [
        sum(row["says"].startswith("Leans to men") or row["says"].startswith("Leans to women") for row in rows)
        for rows in (to_dict(published)["findings"], to_dict(fair)["findings"])
    ]
    assert clear[0] > clear[1]


def test_scores_add_up_and_alpha_and_delta_follow_from_them(published):
    for _, row in table3(published).iterrows():
        assert row["MCAS"] == pytest.approx(row["II"] + row["ITP"] + row["IT"] + row["TT"])
        assert row["δ"] == pytest.approx(abs(abs(row["II"]) - abs(row["TT"])))
        assert row["II − TT"] == pytest.approx(row["II"] - row["TT"])
        if abs(row["TT"]) < 0.002:
            assert math.isnan(row["α"])
        else:
            assert row["α"] == pytest.approx(abs((row["ITP"] + row["IT"]) / (2 * row["TT"])))


def test_the_scores_are_those_of_the_measure_on_the_stored_pictures(services, published):
    encoder = services.encoder("calibration-clip")
    rows = services.manifests.get(published.run_id).rows
    stored = {row.id: services.images.get(row) for row in rows}

    def embedded(prompts):
        return services.embeddings.images(encoder, [stored[row.id] for row in rows if row.prompt in prompts])

    def texts(sentences):
        return encoder.encode_texts(sentences)

    target = DESIGN.data["targets"][0]
    sides = [[a["prompt"] for a in DESIGN.data["image_attributes"] if a["gender"] == g] for g in ("male", "female")]
    words = [DESIGN.data["text_attributes"][g] for g in ("male", "female")]
    name = table3(published)["target"].iloc[0]
    target = next(t for t in DESIGN.data["targets"] if t["keyword"] == name)
    scores = composite_association(
        embedded([target["prompt"]]),
        texts([target["prompt"]]),
        *[embedded(prompts) for prompts in sides],
        *[texts(side) for side in words],
    )
    assert table3(published)["MCAS"].iloc[0] == pytest.approx(scores.mcas, abs=1e-6)


def test_published_numbers_are_quoted(published, services):
    frame = table3(published).set_index("target")
    rows = [row for row in read_table("internal_bias_scores.csv") if row["keyword"] in frame.index]
    assert len(rows) == 2 * len(frame) > 10
    for row in rows:
        quoted = frame.loc[row["keyword"], [f"{row['model']} {sign}" for sign in ("MCAS", "δ", "α")]]
        assert list(quoted) == [float(row[name]) for name in ("mcas", "delta", "alpha")]
    findings = {row["finding"]: row for row in to_dict(published)["findings"]}
    male = findings["Male-dominated targets, mean α"]
    assert male["published"] == 3.15
    assert "misprint, alpha_mean: 1.696" in male["says"]
    dalle = finish(run_study(DESIGN, replace(QUARTER, options={"published_model": "DALL-E 2"}), services))
    assert {row["finding"]: row["published"] for row in to_dict(dalle)["findings"]}[
        "Female-dominated targets, mean δ"
    ] == 0.05
    table4 = table_of(published, "table4").frame
    assert list(table4["model"].unique()) == ["this run", "DALL-E 2, published", "Stable Diffusion v2, published"]
    printed = table4[table4["model"].str.startswith("DALL-E")].set_index("targets")
    assert list(printed.loc["female", ["δ min", "δ max", "α max", "mean α", "n"]]) == [0.01, 0.08, 26.06, 10.0, 14]


def test_every_figure_can_be_drawn(published):
    assert {figure.key for figure in published.results.figures} == {
        "places", "difference", "mcas", "drawn", "figure2", "figure3", "figure4",
    }  # fmt: skip
    for figure in published.results.figures:
        assert to_bytes(figure).startswith(b"<?xml")


def test_scores_are_averaged_over_encoders_before_anything_is_made_of_them(services):
    once = finish(run_study(DESIGN, replace(QUARTER, scale=0.02), services))
    twice = finish(
        run_study(
            DESIGN,
            replace(QUARTER, scale=0.02, options={"encoders": ["calibration-clip", "calibration-clip"]}),
            services,
        )
    )
    for column in ("MCAS", "δ", "TT"):
        assert np.allclose(table3(once)[column], table3(twice)[column])


def test_options_change_what_they_say(services):
    small = replace(QUARTER, scale=0.02)
    plain, keyword, whole, variant, strict = (
        finish(run_study(DESIGN, replace(small, options=options), services))
        for options in (
            {},
            {"text_targets": "keyword"},
            {"resample": "prompts"},
            {"variant": True},
            {"minimum_text_text": 1.0},
        )
    )
    assert not np.allclose(table3(plain)["TT"], table3(keyword)["TT"])
    assert np.allclose(table3(plain)["II"], table3(keyword)["II"])
    assert np.allclose(table3(plain)["MCAS"], table3(whole)["MCAS"])
    assert not np.allclose(table3(plain)["MCAS low"], table3(whole)["MCAS low"])
    prompts = {row.prompt for row in services.manifests.get(variant.run_id).rows}
    assert "an image of a teenage boy" in prompts
    assert table3(strict)["α"].isna().all()
    assert {figure.key for figure in strict.results.figures} == {"places", "difference", "mcas", "drawn", "figure4"}
    findings = {row["finding"]: row for row in to_dict(strict)["findings"]}
    assert findings["All targets, mean α"]["value"] is None


@pytest.mark.parametrize("options", [{"text_targets": "x"}, {"resample": "x"}, {"published_model": "x"}])
def test_options_that_do_not_exist_are_refused(services, options):
    with pytest.raises(InvalidInput, match="one of"):
        finish(run_study(DESIGN, replace(QUARTER, options=options), services))


def test_the_same_run_is_the_same_and_a_stopped_one_goes_on(tmp_path):
    services = Services(Settings(data_dir=tmp_path, offline=True))
    settings = replace(QUARTER, scale=0.02)
    asked = iter([False] * 30 + [True] * 1000)
    with pytest.raises(Cancelled):
        finish(run_study(DESIGN, settings, services, cancelled=lambda: next(asked)))
    first, again = (to_dict(finish(run_study(DESIGN, settings, services))) for _ in range(2))
    assert {k: v for k, v in first.items() if k != "seconds"} == {k: v for k, v in again.items() if k != "seconds"}
    services.close()


def test_the_diffusion_model_runs_from_end_to_end(services):
    settings = StudySettings(model="calibration-diffusion", scale=0.001, num_inference_steps=2)
    report = finish(run_study(DESIGN, settings, services))
    # 3 targets of a side, each with its poles, and 8 attribute prompts, 2 pictures each
    assert report.n_images == 2 * 6 * 3 + 2 * 8
    assert table3(report)["men"].isna().all()
    assert "drawn" not in {figure.key for figure in report.results.figures}
