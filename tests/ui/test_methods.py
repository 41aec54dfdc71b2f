import re
from html import unescape

from bias_core.app.build import TABS
from bias_core.methods.tab import TITLES, about_html, example_html, math_parts, methods_html, model_cards, models_html
from bias_core.metrics.cards import METRICS
from bias_core.services import Services
from bias_core.settings import ASSETS, Settings
from bias_core.ui.templates import render


def test_every_measure_has_one_card_with_its_formula_range_and_limits():
    html = methods_html(METRICS.values())
    cards = dict(re.findall(r'<article class="measure card" id="measure-(\w+)"(.*?)</article>', html, re.S))
    assert set(cards) == set(METRICS)
    for key, card in cards.items():
        assert '<div class="math"><p>' in card, key
        assert METRICS[key].limits.split("'")[0] in card, key
        assert ("no value means" in card) == (METRICS[key].null_value is None), key
        assert "data-go=" in card, key
    assert f"{len(METRICS)} measures" in html


def test_the_papers_are_linked_and_what_is_searched_is_in_the_card():
    html = methods_html([METRICS["stereotype_score"]])
    assert 'href="https://arxiv.org/abs/2501.00962" target="_blank" rel="noopener"' in html
    assert "dehdashtian et al. 2025" in html.split('data-text="')[1].split('"')[0]
    assert '<option value="dehdashtian2025oasis"' in html


def math_html(line):
    return render("formula", parts=math_parts(line))


def test_formulas_have_real_subscripts_and_no_markup_of_their_own():
    assert math_html("a_i <b> x^A_{i+1}") == "a<sub>i</sub> &lt;b&gt; x<sup>A</sup><sub>i+1</sub>"
    assert math_html("Σ_k p_k²") == "Σ<sub>k</sub> p<sub>k</sub>²"
    assert unescape(math_html('by="identity" seen_as -1, 2 - 1')) == 'by="identity" seen_as −1, 2 − 1'


def test_cards_name_tabs_by_the_titles_of_the_app():
    titles = {tab.key: tab.title for tab in TABS} | {"explore": "Explore"}
    for key, title in TITLES.items():
        assert titles.get(key, title) == title


def test_models_readers_and_their_cards_are_listed(tmp_path):
    services = Services(Settings(data_dir=tmp_path))
    html = models_html(services)
    for info in services.models():
        assert info.name in html
    titles = [title for title, _ in model_cards(ASSETS)]
    assert len(titles) >= 4
    assert any("reader" in title for title in titles)
    assert not any(text.startswith("---") for _, text in model_cards(ASSETS))
    services.close()


def test_what_is_stored_is_said_without_a_path_of_the_server(tmp_path):
    html = about_html(Settings(data_dir=tmp_path, cache_gb=3, offline=True))
    assert "up to 3 GB" in html
    assert "A model hub is asked never." in html
    assert str(tmp_path) not in html
    assert "bias_core" in html


def test_methods_open_with_a_plot_of_a_shipped_report_and_without_reports_with_none(tmp_path):
    html = example_html(str(ASSETS / "validity"))
    assert html.count("<svg") == 1
    assert "Planted against measured" in html
    assert 'data-go="calibration"' in html
    assert example_html(str(tmp_path)) == ""
