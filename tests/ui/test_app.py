from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.attributes import load_attribute_sets
from bias_core.studies.reports.documents import to_dict
from tests.explored import explore
from tests.ui.fakes import FakeServices
from tests.ui.served import Served

ROOT = Path(__file__).parent.parent.parent
NUMBERS = ("attributes", "association", "clusters", "prompt", "settings", "unknown_words", "notes")


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Any]:
    from gradio_client import Client

    client = Client(served.url, verbose=False, analytics_enabled=False)
    yield client
    client.close()


def numbers(report: dict[str, Any]) -> Any:
    return json.loads(json.dumps({name: report[name] for name in NUMBERS}))


def test_api_cli_and_python_give_identical_numbers(
    client: Any, served: Served, fakes: FakeServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bias_core import cli, services

    over_http = client.predict(
        concept="nurse", attributes=["man", "glasses"], condition="extreme", n_images=11, seed=5,
        n_attribute_images=3, api_name="/explore",
    )  # fmt: skip
    monkeypatch.setattr(services, "Services", lambda: FakeServices(tmp_path / "cli"))
    arguments = ["explore", "nurse", "--attribute", "man", "--attribute", "glasses", "--condition", "extreme"]
    arguments += ["-n", "11", "--seed", "5", "--n-attribute-images", "3", "--out", str(tmp_path / "report.json")]
    run = CliRunner().invoke(cli.app, arguments)
    assert run.exit_code == 0, run.output
    by_command = json.loads((tmp_path / "report.json").read_text())
    nurse = next(item for item in load_attribute_sets() if item.key == "nurse")
    settings = explore_settings(
        concept="nurse",
        attributes=tuple(a for a in nurse.attributes if a.name in {"man", "glasses"}),
        condition="extreme",
        n_images=11,
        n_attribute_images=3,
        seed=5,
    )
    *_, report = explore(settings, fakes)
    assert numbers(over_http) == numbers(by_command) == numbers(to_dict(report.report))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"concept": "  "}, "concept is empty"),
        ({"concept": "doctor", "n_images": -1}, "n_images must be at least 1"),
        ({"concept": "doctor", "model": "no such model"}, "no model"),
        ({"concept": "doctor", "attributes": ["man|a photo of a man"]}, "man"),
        ({"concept": "x" * 10_000}, "10,0"),
    ],
)
def test_a_tool_says_what_is_wrong(client: Any, arguments: dict[str, Any], message: str) -> None:
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError, match=message):
        client.predict(**arguments, api_name="/explore")


def test_the_mcp_tools_describe_their_parameters(served: Served) -> None:
    with urllib.request.urlopen(f"{served.url}/gradio_api/mcp/schema") as answer:
        tools = {tool["name"]: tool for tool in json.load(answer)}
    tool = next(tool for name, tool in tools.items() if name.endswith("explore"))
    properties = tool["inputSchema"]["properties"]
    assert properties["concept"]["type"] == "string"
    assert "doctor" in properties["concept"]["description"]
    assert not [name for name in tools if "on_" in name or "lambda" in name]


@pytest.mark.parametrize("path", ["runs", "embeddings.sqlite"])
def test_records_of_runs_are_not_served(served: Served, client: Any, path: str) -> None:
    client.predict(concept="doctor", n_images=4, attribute_a="", attribute_b="", api_name="/explore")
    found = served.data_dir / path
    target = next(found.glob("*.json")) if found.is_dir() else found
    assert target.exists()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{served.url}/gradio_api/file={target}")
    with refused.value as answer:
        assert answer.code in {403, 404}


def test_the_same_question_of_two_visitors_is_two_runs(client: Any) -> None:
    ask = {"concept": "doctor", "n_images": 4, "attribute_a": "", "attribute_b": "", "api_name": "/explore"}
    first, second = client.predict(**ask), client.predict(**ask)
    assert first["run_id"] != second["run_id"]
    assert numbers(first) == numbers(second)
