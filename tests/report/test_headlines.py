"""One headline wherever a report stands, against no assumed rate."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bias_core.app import cli
from bias_core.app.api import Tools
from bias_core.explore.options import explore_settings
from bias_core.explore.report import arms_headline
from bias_core.measures.propagation import predicted_gain, spi_band, visible_steps
from bias_core.measures.sequential import share_interval
from bias_core.papers.oasis import study_spi
from bias_core.papers.oasis.report import BEYOND, doctors_headline, stereotypes_headline, texts_headline, users_headline
from bias_core.report.claims import NO_CLAIM, SAME_TEST, WHY_NOT, decide_claims, with_claims
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import to_export
from bias_core.report.headlines import differences_headline, headline, numbers_headline
from bias_core.report.report_text import finding_rows
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.study import Study
from bias_core.study.types import Arm, Design, Finding, Results, StudyReport, StudySettings, table
from bias_core.types import Attribute, Estimate, is_sourced
from bias_core.ui.study.result_page import header_html
from tests import shared
from tests.explored import explored

services = shared.real_services

GUESSED = ("old", "glasses|a photo of a person with glasses|a photo of a person without glasses|0.5|assumed, a choice")
COMPARES = re.compile(r"more than|less than|over-represented|assumed|against|depart|no bias")


@pytest.fixture(scope="module")
def guessed(services):
    return explored(services, n_images=8, attributes=GUESSED)


def test_without_a_sourced_rate_a_headline_says_shares_with_their_intervals_against_nothing(guessed):
    text = headline(guessed).replace("\N{NO-BREAK SPACE}", " ")
    assert re.match(r"“old” is seen in \d+ % \[\d+, \d+\] of 8 pictures, “glasses” in \d+ % \[", text)
    assert not COMPARES.search(text)


def test_a_sourced_rate_is_compared_however_far_an_assumed_one_lies(services):
    text = headline(explored(services, n_images=8, condition="extreme", attributes=("man", *GUESSED)))
    assert "“man” is seen in" in text
    assert "the real-world rate" in text
    assert "old" not in text
    assert "glasses" not in text


def test_page_programs_reports_and_cards_say_the_same(guessed):
    text = headline(guessed)
    assert text in header_html(guessed, text)
    assert to_dict(guessed)["headline"] == text
    assert f"**{text}**".replace("\N{NO-BREAK SPACE}", " ") in to_markdown(guessed)
    assert to_export(guessed).facts.summary.endswith(text)


def test_the_command_line_and_the_api_say_it_too(monkeypatch, services):
    monkeypatch.setattr("bias_core.services.Services", lambda: services)
    monkeypatch.setattr(services, "close", lambda: None)
    words = ["explore", "doctor", "--model", "calibration-renderer", "-n", "5", "--attribute", GUESSED[1]]
    result = CliRunner().invoke(cli.app, words, env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    lines = result.output.replace("\N{NO-BREAK SPACE}", " ").splitlines()
    (text,) = [line.strip() for line in lines if line.startswith("“glasses” is seen in")]
    assert not COMPARES.search(text)
    answer = Tools(services).explore("doctor", model="calibration-renderer", n_images=5, attributes=[GUESSED[1]])
    assert answer["headline"].replace("\N{NO-BREAK SPACE}", " ") == text


def arms_report(rows):
    """A comparison whose table of differences has these rows."""
    sources = [{"attribute": "old", "source of P*": "assumed 50 %"}, {"attribute": "man", "source of P*": "bls2024"}]
    frame = pd.DataFrame(sources).assign(**{"P*": 0.5})
    arms = tuple(
        SimpleNamespace(name=name, results=Results(tables=(table("attributes", "t", frame),)))
        for name in ("fair", "extreme")
    )
    results = Results(tables=(table("differences", "t", rows),))
    return SimpleNamespace(results=results, arms=arms, settings=StudySettings())


def row(finding, clear, difference=0.4, why_not=""):
    names = {"first": "fair", "second": "extreme", "n": 20, "value first": 0.1, "value second": 0.1 + difference}
    return names | {
        "finding": finding, "difference": difference, "low": difference - 0.1, "high": difference + 0.1,
        "compared on": "same seeds",
        "p adjusted": 0.01 if clear else 0.5, "clear": "yes" if clear else "no",
        "why not clear": why_not, "same test as": "",
    }  # fmt: skip


def test_a_comparison_leads_with_nothing_that_hangs_on_an_assumed_rate():
    assumed = arms_headline(arms_report([row("man: P", clear=False, difference=0.05), row("old: Ψ", clear=True)]))
    assert assumed.startswith("No clear difference")
    assert "Ψ" not in assumed
    assert "a gap of up to 15 points is still possible" in assumed.lower()


def test_the_largest_gap_of_a_share_leads_clear_or_not_and_no_further_number_hides_it():
    rows = [row("man: P", clear=True, difference=0.44), row("old: P", clear=False), row("man: Ψ", clear=False)]
    clear = arms_headline(arms_report(rows))
    words = clear.replace("\N{NO-BREAK SPACE}", " ")
    assert words.startswith("“man” is seen in 10 % of “fair” and 54 % of “extreme” pictures: +44 points")
    assert clear.endswith("+44 points [+34, +54], n = 20, the only clear gap of 2.")
    unclear = arms_headline(arms_report([row("old: P", clear=False), row("man: Ψ", clear=True)]))
    assert unclear.startswith("No clear difference. “old” is seen in")
    assert unclear.endswith("A gap of up to 50 points is still possible.")  # never less than what was seen
    reason = "its interval excludes 0, but among 2 tests this happens by chance"
    old = row("old: P", clear=False, why_not=reason)
    several = arms_headline(arms_report([old, row("man: P", clear=False, difference=-0.05)]))
    assert "The largest gap: “old”" in several
    assert f"Not clear: {reason}." in several


def own(study, key, rows, findings=()):
    results = Results(tables=(table(key, "t", rows),), findings=findings)
    return SimpleNamespace(design=find_design(study), results=results, settings=StudySettings())


def cell(attribute, n_shown, rate, source):
    """A line of Table 1 and the finding of its P, of 40 pictures."""
    share = share_interval(n_shown, 40, null_value=rate)
    (claim,) = decide_claims([share if is_sourced(source) else share.replace_null_value(None)])
    title = f"Indian, {attribute}: P"
    found = Finding(
        key=f"Indian {attribute} P", title=title, metric="attribute_prevalence", estimate=share, claim=claim
    )
    return {"nationality": "Indian", "attribute": attribute, "P*": rate, "P* from": source}, found


def test_of_nationalities_and_internet_users_only_sourced_rates_are_compared():
    cells = [cell("turban", 16, 0.02, "Table 1"), cell("tilak", 38, 0.5, "assumed 50 %, a choice")]
    rows, found = zip(*cells, strict=True)
    text = stereotypes_headline(own("oasis-nationalities", "table1", rows, found))
    assert text == (
        "The one attribute with a sourced rate is clearly shown more often than in the real world: turban for Indian, "
        "in 0.40 [0.26, 0.56] of 40 pictures against 0.02 (p < 0.001)."
    )
    alone = stereotypes_headline(own("oasis-nationalities", "table1", rows[1:], found[1:]))
    assert alone.startswith("Share of pictures: Indian, tilak in 0.950 [0.833, 0.991] of 40 pictures. No real-world")
    assert not COMPARES.search(alone)
    undecided = [replace(finding, claim=None) for finding in found]
    assert stereotypes_headline(own("oasis-nationalities", "table1", rows, undecided)) == ""


def test_rates_that_are_clearly_missed_downwards_are_counted_and_the_farthest_of_both_sides_is_named():
    cells = [cell("turban", 16, 0.02, "Table 1"), cell("beard", 2, 0.6, "Table 1"), cell("man", 20, 0.5, "Table 1")]
    rows, found = zip(*cells, strict=True)
    assert stereotypes_headline(own("oasis-nationalities", "table1", rows, found)) == (
        "Of 3 attributes with a sourced rate, 1 is clearly shown more and 1 less often than in the real world. Largest "
        "clear gap: beard for Indian, in 0.050 [0.009, 0.167] of 40 pictures against 0.6 (p < 0.001)."
    )
    none = stereotypes_headline(own("oasis-nationalities", "table1", rows[2:], found[2:]))
    assert none.startswith("The one attribute with a sourced rate is not clearly shown more or less often than in the")


REASON = "its interval excludes 0, but among 3 tests this happens by chance in more than 5 % of runs"


def users_row(name, clear="no", reason=""):
    numbers = {BEYOND: -0.1, f"{BEYOND} low": -0.3, f"{BEYOND} high": -0.01, "n": 40}
    return {"nationality": name, "users": 73.0, "mean Ψ": 0.4, **numbers, "clear": clear, "why not clear": reason}


@pytest.mark.parametrize(("names", "end"), [
    ("A", "1 nationality is too few to show a trend."),
    ("ABCD", "4 nationalities are too few to show a trend."),
    ("ABCDE", "E −0.10 [−0.30, −0.01] (73 million)."),
])  # fmt: skip
def test_nationalities_are_too_few_for_a_trend_only_where_no_order_of_them_could_be_clear(names, end):
    assert users_headline(own("oasis-internet-users", "figure3", [users_row(name) for name in names])).endswith(end)


def test_a_headline_gives_the_reason_where_an_interval_excludes_0_and_the_number_is_not_clear():
    rows = [users_row("Iranian", reason=REASON), users_row("Mexican", "yes")]
    text = users_headline(own("oasis-internet-users", "figure3", rows))
    assert "(n = 40 each): Iranian −0.10 [−0.30, −0.01] (73 million), Mexican −0.10" in text
    assert f"(73 million, clear). Iranian is not clear: {REASON}." in text
    assert f" Each of A and B is not clear: {REASON}." in users_headline(
        own("oasis-internet-users", "figure3", [users_row("A", reason=REASON), users_row("B", reason=REASON)])
    )


def doctors(added, **settings):
    columns = {f"added{end}": [math.nan, added + by] for end, by in (("", 0), (" low", -0.5), (" high", 0.4))}
    rest = {"n": [8, 8], "p adjusted": [math.nan, 0.7], "clear": ["", "no"], "why not clear": ["", ""]}
    rows = pd.DataFrame({"concept": ["doctor", "Indian doctor"], **columns, **rest})
    men = Finding(key="doctor", title="", metric="attribute_prevalence", estimate=share_interval(6, 8))
    report = own("oasis-doctors", "table2", rows, (men,))
    return SimpleNamespace(**vars(report) | {"settings": StudySettings(**settings), "stopped": ""})


def test_the_change_of_doctors_is_in_points_like_their_share_and_a_run_that_may_stop_early_says_there_is_none():
    said = doctors_headline(doctors(0.12)).replace("\N{NO-BREAK SPACE}", " ")
    assert said == (
        "Pictures of a doctor show men in 75 % [36, 95] (n = 8). Change with a nationality: Indian doctor "
        "+12 [−38, +52] points (n = 8); not clear."
    )
    early = doctors_headline(doctors(math.nan, stop_within=0.2))
    assert early.endswith(
        "The change with a nationality is not tested, as the number of pictures was not fixed in advance."
    )


def texts_report(*texts):
    """A StOP report of one text for each cluster: its specificity, its word and why it is not clear."""
    rows = [
        {"nationality": "American", "cluster": i, "prompt": f"This is a photo of {i}", "specificity": value,
         "specificity low": value - 0.2, "specificity high": value + 0.2, "clear": clear, "why not clear": reason,
         "n": 6, "n others": 30}
        for i, (value, clear, reason) in enumerate(texts, start=1)
    ]  # fmt: skip
    sizes = [{"nationality": "American", "cluster": row["cluster"], "pictures": 12, "share": 0.2} for row in rows]
    tables = (table("table3", "t", rows), table("clusters", "t", sizes))
    settings = StudySettings(options={"prefix": "This is a photo of"})
    return SimpleNamespace(results=Results(tables=tables), settings=settings)


def test_a_text_that_is_not_clear_has_its_interval_and_reason_beside_a_clear_one_of_less():
    assert texts_headline(texts_report((0.29, "yes", ""), (0.3, "no", REASON), (0.1, "no", ""))) == (
        "1 of 3 texts fits its cluster clearly better than the other pictures: American, cluster 1 “1” (by +0.29 "
        "[+0.09, +0.49], n = 6). Best of the others: American, cluster 2 “2” (by +0.30 [+0.10, +0.50], n = 6). "
        f"Not clear: {REASON}."
    )
    assert texts_headline(texts_report((0.1, "no", ""))) == (
        "The text does not fit its cluster clearly better than the other pictures: American, cluster 1 “1” (by +0.10 "
        "[−0.10, +0.30], n = 6)."
    )


def test_of_a_gain_that_is_0_at_all_steps_none_is_called_the_farthest():
    never = np.full((6, 3), -0.1)
    gain, seen = predicted_gain(never, never), visible_steps(never)
    parts = {"gain": gain, "strongest": 0, "visible": seen, "first_seen": seen, "spi_band": spi_band(never)}
    (claim,) = decide_claims([gain.whole])
    found, *_ = study_spi._findings(SimpleNamespace(nationality="Indian", name="man", **parts), claim)
    assert "farthest" not in found.says


def number(p_value, value=2.0):
    return Estimate(value=value, low=value - 1.5, high=value + 1.5, n=9, null_value=0.0, p_value=p_value)


def test_too_few_is_said_where_no_p_could_be_clear_beside_the_others():
    alone = decide_claims([number(0.03), number(0.5), number(0.6)], smallest_p=[0.02] * 3)
    assert [claim.verdict for claim in alone] == ["too few"] * 3
    beside = decide_claims([number(0.03), number(1e-6), number(1e-6)], smallest_p=[0.02, 1e-9, 1e-9])
    assert [claim.verdict for claim in beside] == ["above"] * 3  # Holm: 0.03 is the last of three


def test_without_a_clear_difference_of_arms_the_reason_is_given():
    rows = [
        {
            "finding": "Roses, Wasps", "measure": "differential_association", "first": "plain", "second": "fair",
            "value first": 0.04, "value second": 0.28, "difference": 0.24, "low": 0.1, "high": 0.41, "n": 10,
            "p": 0.008, "p adjusted": p_adjusted, "clear": "no", "compared on": "same prompts", SAME_TEST: "",
            WHY_NOT: reason,
        }
        for p_adjusted, reason in ((0.06, "its interval excludes 0, but among 8 tests this is no rarity"), (0.9, ""))
    ]  # fmt: skip
    text = differences_headline(pd.DataFrame(rows))
    assert text == (
        "No clear difference between the arms in 2 tests. Largest: Roses, Wasps (differential association S) is 0.04 "
        "in “plain” and 0.28 in “fair”: a difference of 0.24 [0.10, 0.41], n = 10, same prompts; its interval excludes "
        "0, but among 8 tests this is no rarity."
    )


def test_no_value_without_bias_is_given_where_nothing_is_claimed():
    share = Estimate(value=0.9, low=0.8, high=1.0, n=9, null_value=0.5)
    decided = [
        Finding(key="a", title="a: P", metric="attribute_prevalence", estimate=share, claim=NO_CLAIM),
        Finding(key="b", title="b", metric="association_beyond_even_mix", estimate=number(0.01), claim=NO_CLAIM),
    ]
    assert [row["null_value"] for row in finding_rows(own("explore", "x", [], decided))] == [None, None]


def test_a_study_without_a_headline_of_its_own_compares_with_no_p_star():
    share = Estimate(value=0.9, low=0.8, high=1.0, n=9, null_value=0.5)
    lean = Estimate(value=0.2, low=0.1, high=0.3, n=9, null_value=0.0, p_value=0.01)
    design = Design(name="x", title="X", kind="x", reference="", where="", summary="")
    findings = (
        Finding(key="a", title="a: P", metric="attribute_prevalence", estimate=share),
        Finding(key="b", title="b", metric="association_beyond_even_mix", estimate=lean),
    )
    report = StudyReport(
        run_id="x", design=design, settings=StudySettings(arms=(Arm(),)),
        results=with_claims(Results(findings=findings), lambda finding: Study.family(None, finding), confidence=0.95),
        n_planned=9, n_images=9,
    )  # fmt: skip
    assert numbers_headline(report).startswith("b is 0.20")


GOAL = Attribute(
    name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5, reference_source="the goal"
)


def test_words_that_are_one_to_the_encoder_tell_nothing_of_prompts_that_are_followed(services):
    alike = {"attribute_a": "male", "attribute_b": "Male", "n_attribute_images": 4}
    settings = explore_settings(StudySettings(), concept="doctor", attributes=(GOAL,), n_images=8, **alike)
    tried = complete(run_study(find_design("explore"), settings, services))
    assert "asked_kept" not in {finding.metric for finding in tried.results.findings}
