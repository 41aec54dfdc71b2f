"""The tools that programs see: typed, limited, and with the numbers of the command line."""

import io
import json
import urllib.error
import urllib.request
import zipfile
from base64 import b64decode

import gradio as gr
import httpx
import pytest
from gradio_client import handle_file
from gradio_client.exceptions import AppError
from typer.testing import CliRunner

from bias_core.app.api import Tools
from bias_core.explore.options import explore_settings
from bias_core.labels.label_store import LabelStore
from bias_core.labels.rating import join, next_item
from bias_core.measures.cards import METRICS
from bias_core.report.documents import to_dict
from bias_core.run.run import complete, run_study
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from tests.explored import explore
from tests.labels.raters import say, spotted
from tests.ui.fakes import FakeServices
from tests.ui.test_hosts import PATHS

TOOLS = {
    "explore", "run_study", "compare", "get_report", "report_document", "label_run", "corrected_run", "list_studies",
    "list_models", "list_attribute_sets", "list_measures", "suggest_attributes", "look_at_pictures",
}  # fmt: skip
STUDY = {"study": "t2iat-tests", "scale": 0.02, "options": ["tests=science_arts", "n_permutations=200"]}


@pytest.fixture(scope="module")
def study(programs):
    return programs.predict(**STUDY, detail="full", api_name="/run_study")


def test_exactly_the_tools_are_public_and_every_parameter_says_what_it_is_for(served):
    # A Space's agents.md is made of this: what is not said here no program is told.
    with urllib.request.urlopen(f"{served.url}/gradio_api/info") as answer:
        info = json.load(answer)
    with urllib.request.urlopen(f"{served.url}/gradio_api/mcp/schema") as answer:
        over_mcp = {tool["name"]: tool["inputSchema"].get("properties", {}) for tool in json.load(answer)}
    assert set(info["named_endpoints"]) == {f"/{name}" for name in TOOLS}
    assert len(over_mcp) == len(TOOLS)
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


def over_mcp(served, tool, **arguments):
    """Return a tool's answer over MCP."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    head = {"accept": "application/json, text/event-stream"}
    text = httpx.post(f"{served.url}/gradio_api/mcp/", json=body, headers=head, timeout=120).text
    return json.loads(next(line[5:] for line in text.splitlines() if line.startswith("data:")))["result"]


def test_over_mcp_a_tool_answers_json_and_a_whole_number_may_have_a_point(served):
    listed = over_mcp(served, "list_studies")
    assert json.loads(listed["content"][0]["text"]) == listed["structuredContent"]
    asked = {"concept": "doctor", "model": "calibration-renderer", "seed": 3.0}
    report = over_mcp(served, "explore", **asked, n_images=4.0, detail="full")
    assert json.loads(report["content"][0]["text"]) == report["structuredContent"]
    assert report["structuredContent"]["settings"]["n_images"] == 4
    assert over_mcp(served, "explore", **asked, n_images=4.5)["isError"]
    document = over_mcp(served, "report_document", run_id=report["structuredContent"]["run_id"], form="md")
    assert document["structuredContent"] == {"result": document["content"][0]["text"]}


def test_every_tool_answers_an_object_of_at_most_8_kb_unless_more_is_asked_for(served):
    """``report_document`` always asks for more: it names the form of a document."""
    drawn = {"concept": "doctor", "n_images": 4, "n_attribute_images": 2}
    jobs = ("nurse", "teacher", "engineer", "cleaner")
    arms = [f"condition={name}|template={{doctor={job}}}" for job in jobs for name in ("fair", "extreme")]
    long = [f"trait {i} {'x' * 60}|a photo with trait {i}|a photo without|0.5|{'a source, ' * 12}" for i in range(12)]
    explored = over_mcp(served, "explore", **drawn)
    run = {"run_id": explored["structuredContent"]["run_id"]}
    answers = {
        "explore": explored,
        "explore many": over_mcp(served, "explore", **drawn, attributes=long),
        "compare": over_mcp(served, "compare", **drawn, arms=arms),
        "run_study": over_mcp(served, "run_study", **STUDY),
        "suggest_attributes": over_mcp(served, "suggest_attributes", concept="doctor", words_only=True),
        "get_report": over_mcp(served, "get_report", **run),
        "label_run": over_mcp(served, "label_run", **run, n=4),
        "corrected_run": over_mcp(served, "corrected_run", **run),
        **{tool: over_mcp(served, tool) for tool in TOOLS if tool.startswith("list_")},
    }
    assert {name.partition(" ")[0] for name in answers} == TOOLS - {"report_document", "look_at_pictures"}
    too_long = {}
    for name, answer in answers.items():
        assert not answer["isError"], answer["content"]
        (content,) = answer["content"]
        assert json.loads(content["text"]) == answer["structuredContent"], name
        if len(content["text"].encode()) > 8_000:
            too_long[name] = len(content["text"].encode())
    assert too_long == {}
    assert explored["structuredContent"]["stands_out"][0]["n"] == 4
    for name in ("explore", "compare", "run_study", "corrected_run", "list_studies"):  # the call for the rest works
        more = answers[name]["structuredContent"]["more"]
        full = over_mcp(served, more["tool"], **more["arguments"])["structuredContent"]
        sizes = more.get("bytes_by_detail", {})
        assert set(sizes) <= {"full", *full}, name
        assert len(json.dumps(full)) > len(answers[name]["content"][0]["text"]) or name == "corrected_run"
    part = over_mcp(served, "get_report", **run, detail="notes")["structuredContent"]
    assert set(part) == {"notes"}
    refused = over_mcp(served, "get_report", **run, detail="everything")
    assert refused["isError"]
    assert "choose summary, full, " in refused["content"][0]["text"]


def numbers(report, parts=("attributes", "association", "clusters", "prompt", "settings", "unknown_words", "notes")):
    return json.loads(json.dumps({name: report[name] for name in parts}))


@pytest.fixture
def by_command(tmp_path, monkeypatch):
    """Return the report that a command line writes."""
    from bias_core import services
    from bias_core.app import cli

    def run(*arguments):
        done = CliRunner().invoke(cli.app, [*arguments, "--out", str(tmp_path / "report.json")])
        assert done.exit_code == 0, done.output
        return json.loads((tmp_path / "report.json").read_text())

    monkeypatch.setattr(services, "Services", lambda: FakeServices(tmp_path / "cli"))
    return run


def test_a_study_over_http_has_the_numbers_of_the_command_line(study, by_command):
    options = [word for option in STUDY["options"] for word in ("--option", option)]
    parts = ("findings", "tables", "figures", "notes", "n_images", "settings")
    told = by_command("study", "run", "t2iat-tests", "--scale", "0.02", *options)
    assert numbers(study, parts) == numbers(told, parts)


def test_api_cli_and_python_give_identical_numbers(programs, fakes, by_command):
    asked = {"condition": "extreme", "n_images": 11, "seed": 5, "n_attribute_images": 3}
    over_http = programs.predict(
        concept="nurse", attributes=["man", "glasses"], **asked, detail="full", api_name="/explore"
    )
    told = by_command(
        "explore", "nurse", "--attribute", "man", "--attribute", "glasses", "--condition", "extreme",
        "-n", "11", "--seed", "5", "--n-attribute-images", "3",
    )  # fmt: skip
    nurse = next(item for item in load_attribute_sets() if item.key == "nurse")
    attributes = tuple(a for a in nurse.attributes if a.name in {"man", "glasses"})
    *_, report = explore(explore_settings(concept="nurse", attributes=attributes, **asked), fakes)
    assert numbers(over_http) == numbers(told) == numbers(to_dict(report.report))


def test_a_report_comes_again_by_its_id_and_nothing_else_does(programs, study):
    assert programs.predict(run_id=study["run_id"], detail="full", api_name="/get_report") == study
    for other in ("0" * 16, "../runs/x"):
        with pytest.raises(AppError, match="run"):
            programs.predict(run_id=other, api_name="/get_report")


def test_a_report_comes_as_a_document_for_people(programs, study):
    run = study["run_id"]
    text = programs.predict(run_id=run, form="md", api_name="/report_document")
    assert text.startswith(f"# {study['title']}\n")
    assert " ".join(study["claims"][0].split()) in text
    assert programs.predict(run_id=run, form="html", api_name="/report_document").startswith("<!DOCTYPE html>")
    assert programs.predict(run_id=run, form="card", api_name="/report_document").startswith("## Bias, Risks")
    records = b64decode(programs.predict(run_id=run, form="every_eval_ever", api_name="/report_document"))
    assert zipfile.is_zipfile(io.BytesIO(records))
    packed = io.BytesIO(b64decode(programs.predict(run_id=run, form="zip", api_name="/report_document")))
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
        assert json.loads(archive.read("report.json"))["findings"] == study["findings"]
    assert {"report.html", "model-card.md", "findings.csv"} <= set(names)
    assert sum(name.endswith(".png") and name.startswith("train/") for name in names) == study["n_images"]
    with pytest.raises(
        AppError, match="a report has no form 'docx'; choose html, csv, md, card, json, every_eval_ever"
    ):
        programs.predict(run_id=run, form="docx", api_name="/report_document")
    with pytest.raises(AppError, match="no report of a run"):
        programs.predict(run_id="0" * 16, form="md", api_name="/report_document")


def test_people_label_a_run_and_its_numbers_come_back_corrected(programs, served):
    drawn = {"concept": "doctor", "attributes": ["man"], "n_images": 8, "model": "calibration-renderer"}
    report = programs.predict(**drawn, attribute_a="", attribute_b="", api_name="/explore")
    with pytest.raises(AppError, match="has no labelling task"):
        programs.predict(run_id=report["run_id"], api_name="/corrected_run")
    task = programs.predict(run_id=report["run_id"], n=6, api_name="/label_run")
    assert (task["status"], task["asks_about"]) == ("open", "man")
    assert task["sample"] == "6 of 8 pictures at random, seed 0"
    assert programs.predict(run_id=report["run_id"], api_name="/corrected_run")["headline"].startswith("No one has")
    store = LabelStore(f"sqlite:///{served.data_dir}/labels.sqlite", pictures=served.data_dir / "label_pictures")
    code = join(store, task["raters_link"].partition("=")[2]).code
    turn = next_item(store, code)
    for _ in range(4):
        turn = say(store, code, turn, {"man": "yes"})
    store.close()
    p = programs.predict(run_id=report["run_id"], api_name="/corrected_run")["stands_out"][0]
    assert (p["finding"], p["n_labelled"], p["n"]) == ("man: P", 4, 8)
    assert 0.3 < p["low"] < p["value"] <= 1
    whole = programs.predict(run_id=report["run_id"], detail="numbers", api_name="/corrected_run")["numbers"][0]
    assert whole["corrected"]["value"] == p["value"]
    with pytest.raises(AppError, match="no report of a run"):
        programs.predict(run_id="0" * 16, api_name="/label_run")


def test_a_visitors_own_report_is_not_for_programs(fakes):
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    report = complete(run_study(find_design("t2iat-tests"), settings, fakes, session="a" * 32))
    with pytest.raises(gr.Error, match="no report"):
        Tools(fakes).get_report(report.run_id)


def test_a_tool_says_what_is_wrong(programs):
    for tool, message, arguments in (
        ("run_study", "no study", {"study": "no-such"}),
        ("run_study", "no study", {"study": "/etc/passwd.yaml"}),
        ("run_study", "“Share of the full size” must be at most 1; got 2", {"study": "t2iat-tests", "scale": 2.0}),
        ("run_study", "no option", {"study": "t2iat-tests", "options": ["colour=red"]}),
        ("run_study", "name=value", {"study": "t2iat-tests", "options": ["tests"]}),
        ("run_study", "needs a folder or zip", {"study": "tbyb-dataset"}),
        ("compare", "arm", {"concept": "doctor", "arms": ["condition=fair"]}),
        ("compare", "colour", {"concept": "doctor", "arms": ["condition=fair", "colour=red"]}),
        ("explore", "concept is empty", {"concept": "  "}),
        ("explore", "“Pictures” must be at least 1", {"concept": "doctor", "n_images": -1}),
        ("explore", "no model", {"concept": "doctor", "model": "no such model"}),
        ("explore", "man", {"concept": "doctor", "attributes": ["man|a photo of a man"]}),
        ("explore", "10,0", {"concept": "x" * 10_000}),
    ):
        with pytest.raises(AppError, match=message):
            programs.predict(**arguments, api_name=f"/{tool}")


@pytest.mark.parametrize("path", ["runs", "embeddings.sqlite"])
def test_records_of_runs_are_not_served(served, study, path):
    found = served.data_dir / path
    target = next(found.glob("*.json")) if found.is_dir() else found
    assert target.exists()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{served.url}/gradio_api/file={target}")
    with refused.value as answer:
        assert answer.code in {403, 404}


def test_the_same_question_of_two_visitors_is_two_runs(programs):
    ask = {"concept": "doctor", "n_images": 4, "attribute_a": "", "attribute_b": "", "api_name": "/explore"}
    first, second = (programs.predict(**ask, detail="full") for _ in range(2))
    assert first["run_id"] != second["run_id"]
    assert numbers(first) == numbers(second)


def test_two_conditions_are_compared(programs):
    report = programs.predict(
        concept="doctor", arms=["condition=fair", "condition=extreme"], attributes=["man"], n_images=12,
        api_name="/compare",
    )  # fmt: skip
    assert report["stands_out"][0]["finding"] == "man: P, extreme − fair"
    assert all(row["n"] <= 24 for row in report["stands_out"])


def test_the_lists_tell_what_can_be_asked(programs):
    studies = {entry["name"]: entry for entry in programs.predict(api_name="/list_studies")["studies"]}
    assert studies["t2iat-tests"]["pictures_at_full_size"] > 1000
    (one,) = programs.predict("t2iat-tests", api_name="/list_studies")["studies"]
    assert "tests" in one["options"]
    assert one in programs.predict("full", api_name="/list_studies")["studies"]
    assert "tbyb-dataset" not in studies  # it needs a dataset, which cannot be sent
    measures = {entry["key"]: entry for entry in programs.predict(api_name="/list_measures")["measures"]}
    assert set(measures) == set(METRICS)
    assert measures["stereotype_score"]["null_value"] == 0


def test_pictures_that_are_uploaded_are_an_arm_and_no_path_of_the_server_is(programs, tmp_path):
    path = tmp_path / "mine.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "metadata.csv", "file_name,prompt\n" + "".join(f"{i}.png,a photo of a cup\n" for i in range(4))
        )
        for i in range(4):
            picture = io.BytesIO()
            spotted((32, 32), (40 * i, 90, 120)).save(picture, "PNG")
            archive.writestr(f"{i}.png", picture.getvalue())
    asked = {"study": "tbyb-dataset", "force": True, "options": ["negative=a wall"], "api_name": "/run_study"}
    assert programs.predict(pictures=[handle_file(str(path))], **asked)["n_images"] == 4
    seen = programs.predict(pictures=[handle_file(str(path))], api_name="/look_at_pictures")
    assert (seen["n_pictures"], seen["left_out"]) == (4, [])
    assert [(one["prompt"], one["n"], one["sources"]) for one in seen["prompts"]] == [
        ("a photo of a cup", 4, {"a table": 4})
    ]
    inside = tmp_path / "inside.zip"
    inside.write_bytes(path.read_bytes())
    for wrong in ({"path": str(inside)}, str(inside), {"name": "x"}):
        with pytest.raises(Exception, match=r"uploaded.*handle_file|handle_file.*uploaded"):
            programs.predict(pictures=[wrong], **asked)


def test_the_served_app_refuses_with_a_sentence(served):
    with httpx.Client(base_url=served.url, verify=False) as client:
        for path in PATHS:
            answer = client.get(path, headers={"host": "evil.example:80"})
            assert answer.status_code == 421
            assert "BIAS_ALLOWED_HOSTS" in answer.text
        assert client.post("/gradio_api/mcp/", headers={"origin": "https://evil.example"}).status_code == 403


def test_no_event_writes_into_what_the_page_reads_as_markdown(served):
    written = {type(one).__name__ for event in served.demo.fns.values() for one in event.outputs}
    assert not written & {"Markdown", "Chatbot"}
    tables = [block.datatype for block in served.demo.blocks.values() if type(block).__name__ == "Dataframe"]
    assert set(tables) == {"str"}


def test_no_tool_reads_a_folder_of_the_server(services, tmp_path):
    tools, arms = Tools(services), [f"name=a|images={tmp_path}", "name=b"]
    for call in (
        lambda: tools.compare(concept="doctor", arms=arms),
        lambda: tools.run_study(study="t2iat-tests", arms=arms),
    ):
        with pytest.raises(gr.Error, match="an arm cannot use images on the server"):
            call()
