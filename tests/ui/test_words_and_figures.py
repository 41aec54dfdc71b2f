import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.number_text import format_interval, format_number
from bias_core.stats.effects import share_interval
from bias_core.studies.explore import view as explore_view, view as sentences
from bias_core.studies.explore.headline import BACK, shares_headline, verdicts
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.results import AssociationScore, share_figure
from bias_core.studies.kit.attribute_scores import AttributeScore
from bias_core.studies.kit.attributes import load_attribute_sets
from bias_core.studies.kit.types import Progress, StudyFigure
from bias_core.studies.reports.embedded import NARROW, figure_svg
from bias_core.studies.reports.figures import WIDEST
from bias_core.types import Attribute, Estimate, ReaderErrors
from bias_core.ui import messages, templates
from bias_core.ui.study import view as study_html
from bias_core.ui.templates import environment
from tests import shared
from tests.explored import Explored, explore

pytestmark = pytest.mark.draws

services = shared.fake_services

NAN = float("nan")


def estimate(value, low, high, n=7):
    return Estimate(value=value, low=low, high=high, n=n, note="constant" if math.isnan(value) else "")


def score(value, low, high, reference=0.5, name="man"):
    attribute = Attribute(name=name, positive="p", negative="n", reference=reference, reference_source="assumed")
    rest = dict.fromkeys(("stereotype", "signed_difference", "wals", "variance_share"), estimate(0.1, 0.0, 0.2))
    return AttributeScore(
        attribute=attribute, prevalence=estimate(value, low, high), similarity_positive=np.zeros(7),
        similarity_negative=np.ones(7), **rest,
    )  # fmt: skip


def seen(report, **values):
    """The same report with other numbers."""
    changed = Explored(report.report)
    changed.__dict__.update(values)
    return changed


@pytest.fixture(scope="module")
def report(services):
    attributes = load_attribute_sets()[1].attributes
    settings = explore_settings(concept="doctor", attributes=attributes, n_images=17, n_clusters=3)
    *_, found = explore(settings, services)
    return found


def test_the_verdict_is_where_the_interval_lies_and_no_unknown_reads_as_no_bias():
    for low, high, known in ((0.6, 0.9, "above"), (0.1, 0.4, "below"), (0.4, 0.6, "within")):
        share, census = estimate((low + high) / 2, low, high), "a census (2024)"
        of = (
            sourced("a", census, share),
            sourced("b", census, share, None),
            sourced("c", "assumed 50 %, a choice", share),
        )
        assert verdicts(of, 0.95) == [known, "unknown", "assumed"]
        assert "even split" in sentences.says(of[2], "assumed")
    undefined = score(NAN, NAN, NAN)
    assert "could not be measured" in sentences.says(undefined, "unknown")
    assert "not a sign of no bias" in sentences.does_not_say(undefined)
    assert "none ruled out" in sentences.says(score(0.5, 0.3, 0.7), "within")
    read = score(0.5, 0.3, 0.7)
    assert "is not known" in sentences.does_not_say(replace(read, errors=None, corrected=None))
    chance = ReaderErrors(sensitivity=0.6, specificity=0.4, n_positive=100, n_negative=100)
    assert "no better than chance" in sentences.does_not_say(replace(read, errors=chance, corrected=None))
    good = replace(chance, specificity=0.9)
    assert "errs otherwise here" in sentences.does_not_say(replace(read, errors=good, corrected=None))


def sourced(name, source, share, reference=0.5):
    found = score(share.value, share.low, share.high, reference)
    attribute = replace(found.attribute, name=name, reference=reference, reference_source=source)
    return replace(found, attribute=attribute, prevalence=share)


def test_a_headline_compares_with_rates_that_have_a_source_and_else_with_nothing():
    far, near = estimate(0.95, 0.8, 1.0), estimate(0.56, 0.52, 0.7)
    guess = sourced("old", "assumed 50 %, a choice", far)
    census = sourced("man", "a census (2024)", near)
    several = shares_headline((guess, census, guess), 0.95)
    assert several.startswith("“man” is seen in")
    assert "more than the rate in the world, 50" in several
    assert "old" not in several
    assert "of 3 attributes" not in several
    inside = sourced("man", "a census (2024)", estimate(0.5, 0.3, 0.7))
    within = shares_headline((guess, inside), 0.95)
    assert within.startswith("No attribute with a sourced rate departs clearly from the rate in the world.")
    unmeasured = sourced("man", "a census (2024)", estimate(math.nan, math.nan, math.nan))
    for attributes in ((guess,), (unmeasured, guess)):
        alone = shares_headline(attributes, 0.95)
        assert alone.replace("\N{NO-BREAK SPACE}", " ").startswith("“old” is seen in 95 % [80, 100] of 7 pictures.")
        assert "with a source is known" in alone
        assert not re.search(r"more than|less than|assumed|against|depart", alone)
    shares = [share_interval(k, 16, null_value=0.5) for k in (13, 8, 7)]  # exact p of the first .021, of three .064
    three = [sourced(name, "a census (2024)", share) for name, share in zip("abc", shares, strict=True)]
    assert "more than the rate in the world" in shares_headline(three[:2], 0.95)
    assert verdicts(three, 0.95) == [BACK, "within", "within"]
    assert "with 3 attributes one such happens by chance" in shares_headline(three, 0.95)
    assert "could be measured" in shares_headline((unmeasured,), 0.95)
    for text, has in (("", False), ("an assumption", False), ("our Choice", False), ("bls2024", True)):
        assert sourced("x", text, near).attribute.has_source is has
    assert not sourced("x", "bls2024", near, reference=None).attribute.has_source


def test_which_way_pictures_lean_is_said_of_what_lies_beyond_an_even_mix(report):
    mean = estimate(0.1, 0.05, 0.15)
    lean = AssociationScore(
        attribute_a="male", attribute_b="female", mean=mean, associations=np.zeros(7),
        beyond=estimate(0.02, -0.03, 0.07),
    )  # fmt: skip
    assert "no lean towards “male” or “female” is shown" in sentences.association_says(lean)
    assert "an even mix = 0" in sentences.association_says(lean)
    unvaried = replace(lean, beyond=None)
    assert sentences.association_says(unvaried).startswith("The pictures are more like those of “male”")


def test_every_number_has_its_interval_and_n_and_the_blocked_picture_is_counted_in_no_group(report):
    html = study_html.findings_html(report.report)
    for found in report.attributes:
        assert format_number(found.prevalence.value, found.prevalence.low, found.prevalence.high) in html
        share = found.variance_share
        assert format_interval(share.low, share.high, value=share.value, n=share.n) in html
    assert '<td data-label="n"><span>16</span></td>' in html  # 17 asked, picture 14 (seed 13) blocked
    assert "1 refused or blanked" in study_html.header_html(report.report, "")
    blocked = next(image for image in report.images if image.blocked)
    assert "never scored" in explore_view.picture_html(report, blocked.number)
    groups = [explore_view.group_of(report, image.number) for image in report.images]
    assert sorted(set(groups) - {None}) == list(range(report.clusters.n_clusters))
    assert groups.count(None) == 1
    assert explore_view.group_buttons(report, 1).count('aria-pressed="true"') == 1
    assert explore_view.map_html(report).count('tabindex="0"') == 1


def test_a_dollar_in_a_name_is_no_mathematics():
    figure = share_figure([score(0.5, 0.2, 0.8, name="$x^2$")])
    assert "$x^2" in figure_svg(figure)


def test_a_long_name_has_two_lines_in_a_narrow_figure_and_is_one_button():
    name = "how low masculine-looking people stand"
    figure = share_figure([score(0.5, 0.2, 0.8, name=name), score(0.5, 0.2, 0.8, name="dark skin")])
    assert name in figure_svg(figure)
    narrow = figure_svg(figure, marks={name: "a=1", "dark skin": "a=2"}, width=NARROW)
    assert name not in narrow.replace(f"of {name}", "")
    assert narrow.count('data-pictures="a=1"') == 2
    assert narrow.count('role="button"') == 2


@pytest.mark.parametrize("width", [NARROW, WIDEST])
def test_long_names_that_begin_alike_leave_room_and_are_buttons_of_their_own(width):
    names = [
        f"Difference within pictures, of how near to the {where} they stand, after Holm" for where in ("middle", "left")
    ]
    drawn = figure_svg(
        share_figure([score(0.5, 0.2, 0.8, name=name) for name in names]),
        marks={name: f"a={i}" for i, name in enumerate(names)},
        width=width,
    )
    assert [drawn.count(f'data-pictures="a={i}"') for i in (0, 1)] == [3 if width == NARROW else 2] * 2
    for name in names:
        assert f'aria-label="Show the pictures of {name}"' in drawn


def points(n, name):
    data = pd.DataFrame({"x": np.arange(n), "y": np.arange(n), "name": name, "group": name})
    return StudyFigure(key="few", title="Few", kind="scatter", data=data)


def mosaic(arms):
    data = pd.DataFrame({"column": [f"arm {k // 2}" for k in range(2 * arms)], "row": ["a", "b"] * arms})
    data = data.assign(value=0.5 / arms, n=9, small=False, null=0.5)
    return StudyFigure(key="arms1", title="Arms", kind="mosaic", data=data)


def test_a_few_points_with_short_names_and_a_mosaic_of_few_arms_fit_a_phone(monkeypatch):
    svg = environment().filters["svg"]
    assert 'class="plot narrow"' in svg(points(5, "plain"), {})
    assert 'class="plot narrow"' not in svg(mosaic(5), {})
    monkeypatch.setattr(templates, "figure_svg", lambda *_, width, **__: "narrow" if width == NARROW else "wide")
    narrow = [points(5, "plain"), mosaic(3)]
    wide = [points(60, "plain"), points(5, "plain " * 9), mosaic(5)]
    assert [svg(figure, {}) for figure in narrow + wide] == ["narrow"] * 2 + ["wide"] * 3


def test_text_of_the_user_is_never_markup(report):
    evil = "<img src=x onerror=alert(1)>"
    attribute = replace(report.attributes[0].attribute, name=evil, reference_source=evil)
    bad = seen(report, attributes=(replace(report.attributes[0], attribute=attribute),))
    assert "<img" not in explore_view.sentences_html(bad)
    figure = share_figure(bad.attributes)
    assert "<img" not in study_html.figures_html([figure])
    assert explore_view.picture_html(bad, 1).count("<img") == 1
    assert "<img" not in messages.error_html(evil)


def test_errors_of_ours_are_kept_and_others_pass():
    with messages.user_errors() as problem:
        raise InvalidInput("the concept is empty")
    assert problem.message == "the concept is empty"
    with pytest.raises(ZeroDivisionError), messages.user_errors():
        raise ZeroDivisionError


def test_the_time_left_is_shown_once_it_is_known():
    for seconds, text in ((NAN, "left"), (0.2, "left"), (12.3, "13 s left"), (200.0, "4 min left")):
        html = messages.progress_html(Progress(done=3, total=11, seconds_left=seconds, message="3 of 11 pictures"))
        assert (text in html) == (seconds >= 1)
        assert 'aria-valuenow="3"' in html


def test_signs_of_life_come_at_most_four_times_a_second(monkeypatch):
    now = iter([10.0, 10.1, 10.24, 10.25, 10.4, 10.51])
    monkeypatch.setattr(messages.time, "monotonic", lambda: next(now))
    pace = messages.Pace()
    assert [pace.is_due() for _ in range(6)] == [True, False, False, True, False, True]
