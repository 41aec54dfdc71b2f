"""The internal bias study: a planted lean is found and no other, the paper is quoted, targets may be one's own."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.composite_association import composite_association
from bias_core.measures.effects import benjamini_hochberg, holm
from bias_core.measures.permutation import smallest_sign_p
from bias_core.measures.relative_association import relative_lean_over_encoders, text_relative_lean
from bias_core.papers.mcas.report import headline, worded
from bias_core.papers.mcas.study import own_targets
from bias_core.report.documents import to_dict
from bias_core.report.export import to_export
from bias_core.report.figures import draw
from bias_core.report.report_text import get_table
from bias_core.run.plan import plan_study
from bias_core.run.reproduction import replication_estimate
from bias_core.run.run import complete, run_study
from bias_core.store.export import write_folder
from bias_core.study.design import find_design, read_study_table
from bias_core.study.types import Arm, StudySettings
from tests import shared
from tests.claimed import broken_claims, stray_numbers
from tests.explored import pictures_of
from tests.study.oasis_runs import shots_of

services = shared.real_services

DESIGN = find_design("internal-bias")
SMALL = StudySettings(scale=0.15)  # two in five of the targets, two in five of the pictures


@pytest.fixture(scope="module")
def published(services):
    return complete(run_study(DESIGN, SMALL, services))


@pytest.fixture(scope="module")
def fair(services):
    return complete(run_study(DESIGN, replace(SMALL, condition="fair", options={"poles": False}), services))


def table3(report):
    return get_table(report, "table3").frame


def test_the_paper_s_own_size_is_688_pictures_of_36_prompts():
    # The paper prints 668, which is a slip: 28 targets x 20 + 8 attribute prompts x 16 = 560 + 128
    shots = shots_of(DESIGN, protocol="paper")
    assert len(shots) == 36
    assert sum(shot.n for shot in shots) == 688
    assert sum(shot.n for shot in shots if shot.group == "target") == 560


def test_every_target_is_drawn_worded_for_men_and_for_women_too_and_the_size_line_says_so(services):
    shots = [shot for shot in shots_of(DESIGN) if "pole_of" in shot.facts]
    assert len(shots) == 2 * 28
    assert {shot.n for shot in shots} == {10}
    assert {shot.first_seed for shot in shots} == {20}  # other seeds than the target's own
    prompts = {shot.prompt for shot in shots}
    assert {
        "an image of a male nurse treating a patient", "an image of a female chief executive officer",
        "an image of a woman using a lathe machine", "an image of a boy playing with a dollhouse",
    } <= prompts  # fmt: skip
    plan = plan_study(DESIGN, StudySettings(scale=0.02), services, estimate=True)
    assert "of them targets worded for men and for women, which the paper does not draw)" in replication_estimate(plan)
    without = plan_study(DESIGN, StudySettings(scale=0.02, options={"poles": False}), services, estimate=True)
    assert "worded" not in replication_estimate(without)


def test_between_the_own_poles_pictures_read_as_the_share_of_men_that_was_drawn(services):
    settings = StudySettings(condition="extreme", options={"targets": ["Engineer", "Nurse"]})
    frame = table3(complete(run_study(DESIGN, settings, services))).set_index("target")
    for _, row in frame.iterrows():  # all men, or all women
        assert row["r, pictures"] == pytest.approx(2 * row["men"] - 1, abs=0.35)
        assert row["r, pictures low"] < 2 * row["men"] - 1 < row["r, pictures high"]
    assert frame.loc["Engineer", "δ′ low"] > 0 > frame.loc["Nurse", "δ′ high"]
    assert (frame["δ′"] - frame["r, pictures"] + frame["r, words"]).abs().max() < 1e-12


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


def test_the_pictures_lean_as_they_were_drawn(published):
    frame = table3(published)
    assert set(frame["dominated"]) == {"male", "female"}
    ranks = frame[["II", "men"]].corr(method="spearman").iloc[0, 1]
    assert ranks > 0.8
    assert any("rank correlation" in note for note in published.results.notes)


def test_planted_sides_are_found_and_fair_has_none(published, fair):
    def errors_from_0(report):
        """Mean II of male- minus female-dominated targets, in its standard errors over targets."""
        male, female = (table3(report).query("dominated == @side")["II"] for side in ("male", "female"))
        return (male.mean() - female.mean()) / math.hypot(male.sem(), female.sem())

    assert errors_from_0(published) > 3
    assert abs(errors_from_0(fair)) < 3


def test_scores_add_up_and_alpha_and_delta_follow_from_them(published):
    for _, row in table3(published).iterrows():
        assert row["MCAS"] == pytest.approx(row["II"] + row["ITP"] + row["IT"] + row["TT"])
        assert row["δ"] == pytest.approx(abs(abs(row["II"]) - abs(row["TT"])))
        assert row["II − TT"] == pytest.approx(row["II"] - row["TT"])
        if abs(row["TT"]) < 0.002:
            assert math.isnan(row["α"])
        else:
            assert row["α"] == pytest.approx(abs((row["ITP"] + row["IT"]) / (2 * row["TT"])))


def test_published_numbers_are_quoted(published, services):
    frame = table3(published).set_index("target")
    rows = [row for row in read_study_table("internal_bias_scores.csv") if row["keyword"] in frame.index]
    assert len(rows) == 2 * len(frame) > 10
    for row in rows:
        quoted = frame.loc[row["keyword"], [f"{row['model']} {sign}" for sign in ("MCAS", "δ", "α")]]
        assert list(quoted) == [float(row[name]) for name in ("mcas", "delta", "alpha")]
    findings = {row["finding"]: row for row in to_dict(published)["findings"]}
    male = findings["Male-dominated targets, mean α"]
    assert male["published"] == 3.15
    assert "in the paper, the mean of α: 1.696" in male["says"]
    dalle = with_options_of(services, published_model="DALL-E 2")
    assert {row["finding"]: row["published"] for row in to_dict(dalle)["findings"]}[
        "Female-dominated targets, mean δ"
    ] == 0.05
    table4 = get_table(published, "table4").frame
    assert list(table4["model"].unique()) == ["this run", "DALL-E 2, in the paper", "Stable Diffusion v2, in the paper"]
    printed = table4[table4["model"].str.startswith("DALL-E")].set_index("targets")
    assert list(printed.loc["female", ["δ min", "δ max", "α max", "mean α", "n"]]) == [0.01, 0.08, 26.06, 10.0, 14]


def test_every_figure_can_be_drawn(published):
    assert {figure.key for figure in published.results.figures} == {
        "places", "difference", "mcas", "drawn", "figure2", "figure3", "figure4",
    }  # fmt: skip
    for figure in published.results.figures:
        assert draw(figure).axes


def test_options_that_do_not_exist_are_refused():
    for name in ("text_targets", "resample", "published_model"):
        with pytest.raises(InvalidInput, match="one of"):
            shots_of(DESIGN, options={name: "x"})


def test_scores_and_places_are_those_of_the_measures_on_the_stored_pictures(services, published):
    encoder = services.encoder("calibration-clip")
    rows = services.manifests.get(published.run_id).rows
    stored = {row.id: services.images.get(row) for row in rows}

    def embedded(prompts):
        return services.embeddings.images(encoder, [stored[row.id] for row in rows if row.prompt in prompts])

    row = table3(published).iloc[0]
    prompt = next(t["prompt"] for t in DESIGN.data["targets"] if t["keyword"] == row["target"])
    words = [DESIGN.data["text_attributes"][gender] for gender in ("male", "female")]
    sides = [[a["prompt"] for a in DESIGN.data["image_attributes"] if a["gender"] == g] for g in ("male", "female")]
    texts, targets, pictures = encoder.encode_texts([prompt]), embedded([prompt]), [*map(embedded, sides)]
    scores = composite_association(targets, texts, *pictures, *map(encoder.encode_texts, words))
    assert row["MCAS"] == pytest.approx(scores.mcas, abs=1e-6)
    poles = [worded(prompt, gender) for gender in ("male", "female")]
    r = relative_lean_over_encoders([[targets, *(embedded([pole]) for pole in poles), *pictures]])
    assert [row[f"r, pictures{end}"] for end in ("", " low", " high")] == pytest.approx(
        [r.value, r.low, r.high], abs=1e-6, nan_ok=True
    )
    in_words = text_relative_lean([[encoder.encode_texts(t) for t in ([prompt], *[[p] for p in poles], *words)]])
    assert row["r, words"] == pytest.approx(in_words, abs=1e-6)


def with_options_of(services, **options):
    return complete(run_study(DESIGN, replace(SMALL, scale=0.02, options=options), services))


def test_options_change_what_they_say(services):
    plain, keyword, whole, variant, strict, twice, bare = (
        with_options_of(services, **options)
        for options in (
            {},
            {"text_targets": "keyword"},
            {"resample": "prompts"},
            {"variant": True},
            {"minimum_text_text": 1.0},
            {"encoders": ["calibration-clip", "calibration-clip"]},
            {"poles": False},
        )
    )
    assert not np.allclose(table3(plain)["TT"], table3(keyword)["TT"])
    assert np.allclose(table3(plain)["II"], table3(keyword)["II"])
    assert np.allclose(table3(plain)["MCAS"], table3(whole)["MCAS"])
    assert not np.allclose(table3(plain)["MCAS low"], table3(whole)["MCAS low"])
    prompts = {row.prompt for row in services.manifests.get(variant.run_id).rows}
    assert "an image of a teenage boy" in prompts
    assert table3(strict)["α"].isna().all()
    assert table3(strict)["why no α"].str.contains("the texts have no clear association").all()
    assert {figure.key for figure in strict.results.figures} == {"places", "difference", "mcas", "drawn", "figure4"}
    findings = {row["finding"]: row for row in to_dict(strict)["findings"]}
    assert findings["All targets, mean α"]["value"] is None
    for column in ("MCAS", "δ", "TT"):  # averaged over encoders before anything is made of them
        assert np.allclose(table3(plain)[column], table3(twice)[column])
    protocol = plan_study(DESIGN, replace(SMALL, protocol="paper"), services, estimate=True).settings.options
    assert protocol.minimum_text_text == 0  # the paper has α above 10
    assert table3(bare)["δ′"].isna().all()
    assert set(table3(bare)["why no α′"]) == {"its poles were not drawn"}
    assert not any(finding.key.startswith(("difference", "amplification")) for finding in bare.results.findings)
    assert {figure.key for figure in bare.results.figures}.isdisjoint({"places", "difference"})


def test_of_pictures_without_a_record_no_share_of_men_is_drawn(services, tmp_path):
    drawn = with_options_of(services)
    write_folder(pictures_of(drawn), tmp_path / "pictures")
    settings = replace(SMALL, scale=0.02, images=str(tmp_path / "pictures"))
    report = complete(run_study(DESIGN, settings, services))
    assert report.n_images == drawn.n_images
    assert table3(report)["men"].isna().all()
    assert table3(report)["II"].tolist() == table3(drawn)["II"].tolist()
    assert "drawn" not in {figure.key for figure in report.results.figures}


OWN = own_targets("judge\n\nNurse | an image of a nurse | female\nmechanic || male\n", n=5, n_attribute=3)


@pytest.fixture(scope="module")
def own(services):
    return complete(run_study(OWN, StudySettings(condition="extreme"), services))


def test_a_line_is_a_keyword_with_its_prompt_and_side_as_wanted():
    targets = OWN.data["targets"]
    assert [t["prompt"] for t in targets] == ["an image of a judge", "an image of a nurse", "an image of a mechanic"]
    assert [t["dominated"] for t in targets] == ["unassigned", "female", "male"]
    shots = shots_of(OWN)
    # Three targets with 5 pictures and 3 of each of their poles, eight prompts of men and women with 3.
    assert sum(shot.n for shot in shots) == 3 * (5 + 2 * 3) + 8 * 3


@pytest.mark.parametrize(
    ("text", "changes", "says"),
    [
        (" \n", {}, "got 0"),
        ("judge\njudge | an image", {}, "twice: judge"),
        ("judge | an image | neutral", {}, "'judge | an image | neutral'"),
        ("| an image", {}, "keyword"),
        ("a | b | male | d", {}, "male or female"),
        ("judge", {"n": 1}, "got 1"),
        ("judge", {"n_attribute": 1000}, "got 1000"),
    ],
)
def test_targets_that_cannot_be_are_refused_with_what_came(text, changes, says):
    with pytest.raises(InvalidInput) as error:
        own_targets(text, **changes)
    assert says in str(error.value)


def test_nothing_published_is_claimed_of_one_s_own_targets(own):
    mcas = {f.title: f for f in own.results.findings if f.key.startswith("mcas ")}
    assert list(mcas) == ["judge: MCAS", "Nurse (female-dominated): MCAS", "mechanic (male-dominated): MCAS"]
    assert all(f.published is None for f in own.results.findings)
    assert get_table(own, "table4").frame["model"].unique().tolist() == ["this run"]
    figure = next(f for f in own.results.figures if f.key == "mcas")
    assert set(figure.data["group"]) == {"own targets", "female-dominated", "male-dominated"}
    assert "own-targets.yaml" in to_export(own).files


def test_the_four_scores_are_those_of_table_3_with_their_intervals(own):
    scores = get_table(own, "scores").frame.set_index(["target", "score"])
    for keyword, line in table3(own).set_index("target").iterrows():
        for score in ("TT", "ITP", "IT", "II"):
            row = scores.loc[(keyword, score)]
            assert row["value"] == line[score]
            # five pictures of a target are too few for a bootstrap; 12 of men and 12 of women are enough
            assert row["low"] < row["value"] < row["high"] if score == "ITP" else math.isnan(row["low"])
    # A nurse has 5 pictures; men and women have 4 prompts x 3 each.
    assert scores.loc["Nurse", "n"].to_dict() == {"TT": 0, "ITP": 24, "IT": 5, "II": 29}


def test_the_mean_lean_of_a_target_s_pictures_is_its_ii_and_what_is_undefined_says_why(own):
    frame = table3(own).set_index("target")
    means = own.pictures.groupby("keyword")["margin"].mean()
    assert means.to_dict() == pytest.approx(frame["II"].to_dict(), abs=1e-6)
    assert own.pictures.loc[own.pictures["kind"] != "target", "margin"].isna().all()
    assert ((frame["why no α"] != "") == frame["α"].isna()).all()


def test_sides_of_one_s_own_take_the_place_of_men_and_women(services):
    own = {"words_a": ["old", "elderly"], "words_b": ["young"], "targets": ["Engineer", "Nurse"]}
    shots = shots_of(DESIGN, options=own)
    by_kind = {kind: [s.prompt for s in shots if s.facts["kind"] == kind] for kind in ("old", "young", "worded old")}
    assert by_kind["old"] == ["an image of an old person", "an image of an elderly person"]
    assert by_kind["young"] == ["an image of a young person"]
    assert by_kind["worded old"] == ["an image of an old engineer", "an image of an old nurse treating a patient"]
    report = complete(run_study(DESIGN, StudySettings(condition="extreme", scale=0.1, options=own), services))
    frame = table3(report)
    assert set(frame["dominated"]) == {"unassigned"}
    assert all(finding.published is None for finding in report.results.findings)
    assert get_table(report, "table4").frame["model"].unique().tolist() == ["this run"]
    assert not re.findall(r"\b(?:wo)?men\b", headline(report) + get_table(report, "table3").note)
    for wrong in ({"words_a": ["old"]}, {"prompts_a": ["an image of a man"]}, {"words_a": ["x"], "words_b": ["x"]}):
        with pytest.raises(InvalidInput, match=r"Words of A|must differ"):
            shots_of(DESIGN, options=wrong)


def test_the_targets_of_a_run_are_one_family_in_headline_and_table(services, published, fair):
    targets = ["CEO", "Engineer", "Nurse", "Librarian", "Farmer", "Baseball"]
    report = complete(run_study(DESIGN, StudySettings(options={"targets": targets}), services))
    for one, column in ((report, "δ′"), (fair, "MCAS")):
        frame = table3(one).dropna(subset=column)
        tested = frame.dropna(subset="p")
        correct = holm if len(tested) <= 20 else benjamini_hochberg
        if len(tested):
            assert tested["p adjusted"].tolist() == pytest.approx(correct(tested["p"]))
        assert not broken_claims(one)
        assert not stray_numbers(one)
    frame, text = table3(report).set_index("target"), headline(report)
    n_clear = int((frame["clear"] == "yes").sum())
    assert 0 < n_clear < frame["δ′"].notna().sum()
    assert f"for the other {frame['δ′'].notna().sum() - n_clear} of {frame['δ′'].notna().sum()}." in text
    largest = frame.loc[frame["clear"] == "yes", "δ′"].abs().idxmax()
    assert f"Largest: {largest}, δ′ = " in text
    assert f"n = {frame.loc[largest, 'n']} pictures, adjusted p " in text
    (overall,) = [finding for finding in report.results.findings if finding.key == "amplification overall"]
    assert ("α′ = " in text) == overall.claim.is_clear
    assert not [f for f in report.results.findings if f.key.startswith(("delta", "alpha")) and f.claim is not None]


def test_arms_are_compared_by_swapping_the_pictures_of_each_seed(services):
    arms = (Arm(condition="fair"), Arm(condition="extreme"))
    settings = StudySettings(scale=0.06, arms=arms, options={"poles": False, "targets": ["Nurse", "CEO"]})
    report = complete(run_study(DESIGN, settings, services))
    frame = get_table(report, "differences").frame.set_index("finding")
    row = frame.loc["Nurse (female-dominated): MCAS"]
    # Sixteen pictures of the target; those of men and women are shared by both arms and are no units.
    assert row["n"] == 16
    assert row["p"] >= smallest_sign_p(16)
    assert row["test"] == "pictures of each seed swapped at random"


def test_chosen_targets_are_drawn_whole_and_unknown_ones_refused():
    shots = shots_of(DESIGN, scale=0.01, options={"targets": "Nurse, CEO"})
    assert [s.facts["keyword"] for s in shots if s.group == "target"] == ["CEO", "Nurse"]
    with pytest.raises(InvalidInput, match="no target Pilot"):
        shots_of(DESIGN, options={"targets": ["Pilot"]})
