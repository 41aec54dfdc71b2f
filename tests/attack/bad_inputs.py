"""Every public endpoint x every one of its parameters x values that are none, made from its own signature."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

# As JSON, for some of them no Python value can be written as it.
BAD = {
    "null": "null", "true": "true", "-1": "-1", "0": "0", "0.5": "0.5", "1.0": "1.0",
    "2**53 + 1": "9007199254740993", "10**9": "1000000000", "2**63": "9223372036854775808",
    "10**30": "1" + "0" * 30, "10**400": "1" + "0" * 400, "10**5000": "1" + "0" * 5000,
    "1e308": "1e308", "1e400": "1e400", "NaN": "NaN", "-Infinity": "-Infinity",
    "nothing": '""', "blanks": '"   "', "NUL": '"\\u0000"',
    "control": '"a\\u001b[31m"', "surrogate": '"\\ud800"',
    "long name": json.dumps("x" * 300), "umlauts": json.dumps("ü" * 200),
    "endless": json.dumps("x" * 100_000),
    "up": '"../../../../etc/passwd"', "file": '"/etc/passwd"', "folder": '"/"', "home": '"~nobody"',
    "device": '"/dev/zero"', "word": '"seven"', "digits": json.dumps("9" * 5000),
    "nan": '"nan"', "inf": '"inf"',
    "format": '"{0.__class__}"', "slot": '"{}"', "percent": '"%s%n"', "markup": '"<script>alert(1)</script>"',
    "quotes": "\"' OR 1=1 --\"", "bars": '"|||||"', "equals": '"="',
    "empty list": "[]", "list of nothing": '[""]', "list of null": "[null]", "list of lists": "[[[]]]",
    "list of equals": '["=", "a=b=c"]', "list of surrogates": '["\\ud800=\\ud800"]',
    "list of bars": '["|||", "a|b|c|nan", "a|b|c|9"]', "long list": json.dumps(["x"] * 100_000),
    "object": "{}", "operator": '{"$ne": ""}', "deep": "[" * 3000 + "]" * 3000,
    "a file's path": '{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}',
}  # fmt: skip
# Values of options, which are texts.
BAD_OPTIONS = ("", "-1", "nan", "inf", "1e999", "9" * 5000, "seven", "~nobody", "\x00", "\x1b", "1,2,,3", "x" * 9000)
GOOD: dict[str, dict[str, Any]] = {
    "explore": {"concept": "doctor", "n_images": 2, "n_attribute_images": 1, "model": "calibration-renderer"},
    "run_study": {"study": "oasis-doctors", "scale": 0.01},
    "compare": {
        "concept": "doctor", "arms": ["condition=fair", "condition=extreme"], "n_images": 2,
        "attributes": ["man"],
    },
    "get_report": {"run_id": "0" * 16},
}  # fmt: skip
_TRACES = re.compile(r"Traceback|File \"|\w+Error:|Exception|internal error|object at 0x|NoneType")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The outcome of one call; ``text`` is the error's message, or what the endpoint returned."""

    status: int
    refused: bool
    text: str
    seconds: float


def parameters(client: httpx.Client) -> dict[str, list[dict[str, Any]]]:
    """Return the parameters of every public endpoint, as the server itself describes them."""
    found = client.get("/gradio_api/info").json()["named_endpoints"]
    return {name.strip("/"): endpoint["parameters"] for name, endpoint in found.items()}


def body(endpoint: str, declared: list[dict[str, Any]], name: str = "", bad: str = "") -> str:
    """A call with good values, but for one."""
    good = GOOD.get(endpoint, {})
    values = []
    for parameter in declared:
        own = parameter["parameter_name"]
        default = good.get(own, parameter.get("parameter_default"))
        values.append(bad if own == name else json.dumps(default))
    return '{"data": [' + ", ".join(values) + "]}"


def table(declared: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, str, str]]:
    """Endpoint, what is wrong in words, and the call."""
    for endpoint, of in declared.items():
        for parameter in of:
            for words, bad in BAD.items():
                name = parameter["parameter_name"]
                yield endpoint, f"{name}: {words}", body(endpoint, of, name, bad)


def odd_calls(declared: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, str, str]]:
    """Calls that are no lists of as many values."""
    for endpoint in declared:
        for content in ("", "[]", "null", "{}", '{"data": null}', '{"data": {}}', '{"data": 5}', '{"data": [[', "\xff"):
            yield endpoint, f"body {content!r}", content
        if declared[endpoint]:
            yield endpoint, "no values", '{"data": []}'


def call(client: httpx.Client, endpoint: str, content: str) -> Answer:
    """Call an endpoint and wait for what comes of it."""
    started = time.monotonic()
    asked = client.post(
        f"/gradio_api/call/{endpoint}", content=content.encode(), headers={"content-type": "application/json"}
    )
    if asked.status_code != 200:
        return Answer(status=asked.status_code, refused=True, text=asked.text, seconds=time.monotonic() - started)
    told = client.get(f"/gradio_api/call/{endpoint}/{asked.json()['event_id']}").text
    event, _, data = told.strip().rpartition("\n\n")[2].partition("\ndata: ")
    refused = event != "event: complete"
    text = data
    if refused:
        found = json.loads(data)
        text = str(found.get("error")) if isinstance(found, dict) else str(found)
    return Answer(status=200, refused=refused, text=text, seconds=time.monotonic() - started)


def fault(answer: Answer) -> str:
    """Describe the fault of an answer to a bad input; "" for a result or a sentence."""
    if answer.status >= 500:
        return f"status {answer.status}"
    if not answer.refused:
        return ""
    return sentence_fault(answer.text)


def sentence_fault(text: str) -> str:
    """Describe why a text is no sentence for a stranger; "" if it is one."""
    if not 20 <= len(text) <= 4000 or " " not in text:
        return f"no sentence: {text[:200]!r}"
    return f"a trace: {text[:200]!r}" if _TRACES.search(text) else ""


def mcp_calls(
    client: httpx.Client, declared: dict[str, list[dict[str, Any]]], *, every: int = 1
) -> Iterator[tuple[str, str, float]]:
    """The same over MCP: what was wrong with each call, what with its answer ("" for nothing), and its seconds."""
    rows = [
        (endpoint, parameter["parameter_name"], words)
        for endpoint, of in declared.items()
        for parameter in of
        for words in BAD
    ]
    calls = [(f"{e} {name}: {words}", _mcp_body(e, name, BAD[words])) for e, name, words in rows[::every]]
    calls += [(f"body {content!r}", content) for content in ("", "[]", "null", "{", BAD["deep"])]
    calls.append(("no such tool", _mcp_body("nothing", "a", "1")))
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    for words, content in calls:
        started = time.monotonic()
        reply = client.post("/gradio_api/mcp/", content=content.encode(), headers=headers)
        yield words, _mcp_fault(reply), time.monotonic() - started


def _mcp_body(endpoint: str, name: str, bad: str) -> str:
    good = {key: value for key, value in GOOD.get(endpoint, {}).items() if key != name}
    arguments = ", ".join([*(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in good.items()), f'"{name}": {bad}'])
    called = f'{{"name": "{endpoint}", "arguments": {{{arguments}}}}}'
    return f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {called}}}'


def _mcp_fault(reply: httpx.Response) -> str:
    if reply.status_code >= 500:
        return f"status {reply.status_code}: {reply.text[:200]}"
    data = next((line[6:] for line in reply.text.splitlines() if line.startswith("data: ")), reply.text)
    answered = json.loads(data)
    if "error" in answered:
        return sentence_fault(answered["error"]["message"])
    if not (answered.get("result") or {}).get("isError"):
        return ""
    return sentence_fault(answered["result"]["content"][0]["text"])
