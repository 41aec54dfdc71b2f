"""The rates that the diffusion model draws are known for its own pictures, and for no others."""

from dataclasses import replace

import pytest

from bias_core.errors import StorageError
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import ImageRow
from bias_core.world import measured_models
from bias_core.world.measured_models import DrawnRate, DrawnRates, read_drawn_rates, shipped_rates, true_rate
from training.wanted import groups

MODEL = "calibration-diffusion"
DOCTOR = DrawnRate(
    condition="published", concept="doctor", pair=False, attribute="gender", value="masculine", planted=0.93, fair=0.5,
    drawn=0.9, low=0.88, high=0.92, n_shown=900, n=1000,
)  # fmt: skip
INSECTS = replace(DOCTOR, concept="insects", attribute="light", value="bright", drawn=0.2, low=0.1, high=0.3)
TABLE = DrawnRates(revision="a-b", num_inference_steps=12, lines=(DOCTOR, replace(DOCTOR, pair=True), INSECTS))
ROW = ImageRow(
    prompt="a photo of a doctor", seed=1, model=MODEL, revision="a-b", condition="published", num_inference_steps=12,
    guidance_scale=1.0,
)  # fmt: skip


@pytest.fixture
def _measured(monkeypatch):
    monkeypatch.setattr(measured_models, "shipped_rates", lambda: TABLE)
    measured_models._index_lines.cache_clear()
    yield
    measured_models._index_lines.cache_clear()


@pytest.mark.usefixtures("_measured")
def test_a_prompt_has_the_rate_that_was_measured_of_it_and_its_opposite_the_rest():
    rate = true_rate([ROW, replace(ROW, seed=2)], "a photo of a man")
    assert (rate.low, rate.value, rate.high, rate.n) == (0.88, 0.9, 0.92, 1000)
    assert true_rate([replace(ROW, prompt="Generate a picture of one doctor.")], "a photo of a male person") == rate
    rest = true_rate([ROW], "a photo of a woman")
    assert (rest.low, rest.value, rest.high) == (0.08, 0.1, 0.12)


@pytest.mark.usefixtures("_measured")
def test_a_group_of_prompts_has_one_where_all_of_them_were_drawn():
    (prompts,) = [group.prompts for group in groups("published") if group.concept == "insects"]
    rows = [replace(ROW, prompt=prompt) for prompt in prompts]
    assert true_rate(rows, "a pleasant picture").value == 0.2
    assert true_rate(rows[1:], "a pleasant picture") is None


@pytest.mark.usefixtures("_measured")
def test_nothing_is_known_of_what_was_not_measured():
    for other in (
        {"num_inference_steps": 8},
        {"guidance_scale": 2.0},
        {"negative_prompt": "beard"},
        {"revision": "a-c"},
        {"condition": "fair"},
        {"prompt": "a photo of an old doctor"},
        {"prompt": "a photo of a nurse"},
        {"prompt": "a photo of a flibbertigibbet doctor"},
    ):
        assert true_rate([replace(ROW, **other)], "a photo of a man") is None, other
        assert true_rate([ROW, replace(ROW, **other)], "a photo of a man") is None, other
    assert true_rate([ROW], "The person is old.") is None


def test_a_table_is_written_and_read(tmp_path):
    TABLE.write(tmp_path / "rates.json")
    assert read_drawn_rates(tmp_path / "rates.json") == TABLE
    for text in ("{", "[]", '{"lines": [{}]}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(StorageError, match=r"bad\.json is no table of drawn rates"):
            read_drawn_rates(tmp_path / "bad.json")


def test_the_shipped_table_is_of_the_shipped_weights_and_of_every_planted_rate(tmp_path):
    services, table = Services(Settings(data_dir=tmp_path, offline=True)), shipped_rates()
    assert table.revision == services.revision(MODEL)
    assert table.num_inference_steps == services.model_info(MODEL).default_steps
    services.close()
    lines = {(line.concept, line.attribute, line.value) for line in table.lines if line.condition == "published"}
    assert lines == {(g.concept, axis, str(value)) for g in groups("published") for axis, value in g.rates}
    assert {line.condition for line in table.lines} == {"published", "fair", "extreme", "trigger"}
    assert min(line.n for line in table.lines) >= 1000
    assert all(line.low <= line.drawn <= line.high for line in table.lines)
