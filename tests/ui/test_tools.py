"""The tools that programs see: typed, limited, and with the numbers of the command line."""

from __future__ import annotations

import io
import json
import urllib.request
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from bias_core.app.api import Tools
from bias_core.metrics.cards import METRICS
from tests.ui.fakes import FakeServices
from tests.ui.served import Served

TOOLS = {
    "explore", "run_study", "compare", "get_report", "report_document", "label_run", "corrected_run", "list_studies",
    "list_models", "list_attribute_sets", "list_measures", "suggest_attributes",
}  # fmt: skip
STUDY: dict[str, Any] = {"study": "t2iat-tests", "scale": 0.02, "options": ["tests=science_arts", "n_permutations=200"]}


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[Any]:
    from gradio_client import Client

    client = Client(served.url, verbose=False, analytics_enabled=False)
    yield client
    client.close()


@pytest.fixture(scope="module")
def study(client: Any) -> dict[str, Any]:
    report: dict[str, Any] = client.predict(**STUDY, api_name="/run_study")
    return report


def test_exactly_the_tools_are_public(client: Any, served: Served) -> None:
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(endpoints) == {f"/{name}" for name in TOOLS}
    with urllib.request.urlopen(f"{served.url}/gradio_api/mcp/schema") as answer:
        tools = json.load(answer)
    assert {name for name in TOOLS if any(tool["name"].endswith(name) for tool in tools)} == TOOLS
    assert len(tools) == len(TOOLS)


def test_every_endpoint_and_parameter_says_what_it_is_for(served: Served) -> None:
    # A Space's agents.md is made of this: what is not said here no program is told.
    with urllib.request.urlopen(f"{served.url}/gradio_api/info") as answer:
        info = json.load(answer)
    with urllib.request.urlopen(f"{served.url}/gradio_api/mcp/schema") as answer:
        over_mcp = {tool["name"]: tool["inputSchema"].get("properties", {}) for tool in json.load(answer)}
    assert set(info["named_endpoints"]) == {f"/{name}" for name in TOOLS}
    assert info["unnamed_endpoints"] == {}  # nothing that only the page needs
    unclear = []
    for name, endpoint in info["named_endpoints"].items():
        said = {name: endpoint["description"]}
        for one in endpoint["parameters"]:
            said[f"{name} {one['parameter_name']}"] = one["python_type"]["description"]
            (tool,) = [names for key, names in over_mcp.items() if key.endswith(name.strip("/"))]
            assert tool[one["parameter_name"]]["description"] == one["python_type"]["description"]
            assert one["type"], one["parameter_name"]
            assert one["python_type"]["type"] != "Any", one["parameter_name"]
        unclear += [key for key, text in said.items() if len(text.split()) < 4 or text[-1] != "."]
    assert unclear == []
    arms = {one["parameter_name"]: one for one in info["named_endpoints"]["/compare"]["parameters"]}["arms"]
    assert arms["python_type"]["description"].endswith('"condition=extreme".')  # to its last line
    scale = {one["parameter_name"]: one for one in info["named_endpoints"]["/run_study"]["parameters"]}["scale"]
    assert scale["python_type"]["description"].endswith("Range: above 0 to 1.")


def test_a_study_over_http_has_the_numbers_of_the_command_line(
    study: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bias_core import cli, services

    monkeypatch.setattr(services, "Services", lambda: FakeServices(tmp_path / "cli"))
    arguments = ["study", "run", "t2iat-tests", "--scale", "0.02", "--out", str(tmp_path / "report.json")]
    for option in STUDY["options"]:
        arguments += ["--option", option]
    run = CliRunner().invoke(cli.app, arguments)
    assert run.exit_code == 0, run.output
    by_command = json.loads((tmp_path / "report.json").read_text())
    for part in ("findings", "tables", "figures", "notes", "n_images", "settings"):
        assert json.loads(json.dumps(study[part])) == by_command[part], part


def test_a_report_comes_again_by_its_id_and_nothing_else_does(client: Any, study: dict[str, Any]) -> None:
    from gradio_client.exceptions import AppError

    assert client.predict(run_id=study["run_id"], api_name="/get_report") == study
    for other in ("0" * 16, "../runs/x"):
        with pytest.raises(AppError, match="run"):
            client.predict(run_id=other, api_name="/get_report")


def test_a_report_comes_as_a_document_for_people(client: Any, study: dict[str, Any]) -> None:
    from gradio_client.exceptions import AppError

    run = study["run_id"]
    text = client.predict(run_id=run, api_name="/report_document")
    assert text.startswith(f"# {study['title']}\n")
    assert " ".join(study["claims"][0].split()) in text
    assert client.predict(run_id=run, form="html", api_name="/report_document").startswith("<!DOCTYPE html>")
    assert client.predict(run_id=run, form="card", api_name="/report_document").startswith("## Bias, Risks")
    records = b64decode(client.predict(run_id=run, form="every_eval_ever", api_name="/report_document"))
    assert zipfile.is_zipfile(io.BytesIO(records))
    with pytest.raises(AppError, match="a report is no 'docx'; it can be html, md, card, json, every_eval_ever"):
        client.predict(run_id=run, form="docx", api_name="/report_document")
    with pytest.raises(AppError, match="no report of a run"):
        client.predict(run_id="0" * 16, api_name="/report_document")


def test_people_label_a_run_and_its_numbers_come_back_corrected(client: Any) -> None:
    from gradio_client.exceptions import AppError

    drawn = {"concept": "doctor", "attributes": ["man"], "n_images": 8, "model": "calibration-renderer"}
    report = client.predict(**drawn, attribute_a="", attribute_b="", api_name="/explore")
    with pytest.raises(AppError, match="no labelling task serves the run"):
        client.predict(run_id=report["run_id"], api_name="/corrected_run")
    task = client.predict(run_id=report["run_id"], n=6, api_name="/label_run")
    assert (task["status"], task["asks_about"]) == ("open", "man")
    assert task["sample"] == "6 of 8 pictures at random, seed 0"
    assert client.predict(run_id=report["run_id"], api_name="/corrected_run")["notes"][0].startswith("Nobody has")
    door = f"{client.src.rstrip('/')}/label"
    with urllib.request.urlopen(f"{door}/task/{task['raters_link'].partition('=')[2]}") as answer:
        page = json.load(answer)
    joining = {"task": task["raters_link"].partition("=")[2], "agreed": True, "page": page["page"]}
    code = _posted(f"{door}/join", joining, "")["code"]
    with urllib.request.urlopen(urllib.request.Request(f"{door}/next", headers={"X-Rater-Code": code})) as answer:
        turn = json.load(answer)
    for number in range(4):
        answer_of = {"id": f"answer-{number}", "item": turn["item"], "choices": {"man": "yes"}, "duration_ms": 900}
        turn = _posted(f"{door}/answer", answer_of, code)
    corrected = client.predict(run_id=report["run_id"], api_name="/corrected_run")
    p = corrected["numbers"][0]
    assert (p["title"], p["n_labelled"], p["corrected"]["n"]) == ("man: P", 4, 8)
    assert 0.3 < p["corrected"]["low"] < p["corrected"]["value"] <= 1
    with pytest.raises(AppError, match="no report of a run"):
        client.predict(run_id="0" * 16, api_name="/label_run")


def _posted(url: str, values: dict[str, Any], code: str) -> Any:
    headers = {"Content-Type": "application/json", "X-Rater-Code": code}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(values).encode(), headers)) as answer:
        return json.load(answer)


def test_a_visitors_own_report_is_not_for_programs(fakes: FakeServices) -> None:
    import gradio as gr

    from bias_core.studies.kit.designs import find_design
    from bias_core.studies.kit.types import StudySettings
    from bias_core.studies.running.run import complete, run_study

    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    report = complete(run_study(find_design("t2iat-tests"), settings, fakes, session="a" * 32))
    with pytest.raises(gr.Error, match="no report"):
        Tools(fakes).get_report(report.run_id)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("run_study", {"study": "no-such"}, "no study"),
        ("run_study", {"study": "/etc/passwd.yaml"}, "no study"),
        ("run_study", {"study": "t2iat-tests", "scale": 2.0}, "scale must be at most 1, got 2"),
        ("run_study", {"study": "t2iat-tests", "options": ["colour=red"]}, "no option"),
        ("run_study", {"study": "t2iat-tests", "options": ["tests"]}, "name=value"),
        ("run_study", {"study": "tbyb-dataset"}, "needs a folder or zip"),
        ("compare", {"concept": "doctor", "arms": ["condition=fair"]}, "arm"),
        ("compare", {"concept": "doctor", "arms": ["condition=fair", "colour=red"]}, "colour"),
    ],
)
def test_a_tool_says_what_is_wrong(client: Any, tool: str, arguments: dict[str, Any], message: str) -> None:
    from gradio_client.exceptions import AppError

    with pytest.raises(AppError, match=message):
        client.predict(**arguments, api_name=f"/{tool}")


def test_a_run_that_is_too_large_is_refused(tmp_path: Path) -> None:
    import gradio as gr

    services = FakeServices(tmp_path)
    services.settings = services.settings.model_copy(update={"max_images": 10})
    with pytest.raises(gr.Error, match="at most 10"):
        Tools(services).run_study("t2iat-tests")


def test_two_conditions_are_compared(client: Any) -> None:
    report = client.predict(
        concept="doctor", arms=["condition=fair", "condition=extreme"], attributes=["man"], n_images=12,
        api_name="/compare",
    )  # fmt: skip
    assert report["findings"]
    assert all(row["n"] <= 24 for row in report["findings"])


def test_the_lists_tell_what_can_be_asked(client: Any) -> None:
    studies = {entry["name"]: entry for entry in client.predict(api_name="/list_studies")}
    assert studies["t2iat-tests"]["pictures_at_full_size"] > 1000
    assert "tests" in studies["t2iat-tests"]["options"]
    assert "tbyb-dataset" not in studies  # it needs a dataset, which cannot be sent
    measures = {entry["key"]: entry for entry in client.predict(api_name="/list_measures")}
    assert set(measures) == set(METRICS)
    assert measures["stereotype_score"]["null_value"] == 0


def test_pictures_that_are_uploaded_are_an_arm_and_no_path_of_the_server_is(client: Any, tmp_path: Path) -> None:
    from gradio_client import handle_file

    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "metadata.csv", "file_name,prompt\n" + "".join(f"{i}.png,a photo of a cup\n" for i in range(4))
        )
        for i in range(4):
            picture = io.BytesIO()
            Image.new("RGB", (32, 32), (40 * i, 90, 120)).save(picture, "PNG")
            archive.writestr(f"{i}.png", picture.getvalue())
    asked = {"study": "tbyb-dataset", "force": True, "options": ["negative=a wall"], "api_name": "/run_study"}
    assert client.predict(pictures=[handle_file(str(path))], **asked)["n_images"] == 4
    inside = tmp_path / "inside.zip"
    inside.write_bytes(path.read_bytes())
    for wrong in ({"path": str(inside)}, str(inside), {"name": "x"}):
        with pytest.raises(Exception, match="are files that were uploaded"):
            client.predict(pictures=[wrong], **asked)
