"""A visitor without a browser: loads the page, presses its buttons by their ids, and follows the events."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "/gradio_api"


class PageVisitor:
    """One open page; ``values`` by element id take the place of what the form has at first."""

    def __init__(self, url: str, *, patience: float = 60) -> None:
        self.client = httpx.Client(base_url=url, timeout=patience)
        self.session = secrets.token_hex(6)
        self.config: dict[str, Any] = {}

    def open(self) -> float:
        """Load the page and all its first events; seconds until everything was there."""
        begun = time.monotonic()
        self.client.get("/").raise_for_status()
        self.config = self.client.get("/config").raise_for_status().json()
        loads = [d["id"] for d in self.config["dependencies"] if any(t[1] == "load" for t in d["targets"])]
        events = {self._join(fn): fn for fn in loads if self._dependency(fn)["backend_fn"]}
        for message in self._messages():
            if message["msg"] == "process_completed" and message["event_id"] in events:
                assert message["success"], message
                del events[message["event_id"]]
            if not events:
                break
        return time.monotonic() - begun

    def press(self, button: str, **values: Any) -> Iterator[Any]:
        """Press a button and what follows it; yields the messages of the run."""
        clicked = self._after(button)
        self._immediately(clicked)
        run = next(d["id"] for d in self.config["dependencies"] if d["trigger_after"] == clicked)
        event = self._join(run, values)
        for message in self._messages():
            if message.get("event_id") == event:
                yield message
                if message["msg"] == "process_completed":
                    return

    def _after(self, button: str) -> int:
        (component,) = (c["id"] for c in self.config["components"] if c["props"].get("elem_id") == button)
        return next(d["id"] for d in self.config["dependencies"] if [component, "click"] in d["targets"])

    def _immediately(self, fn: int) -> None:
        body = self._body(fn, {})
        self.client.post(f"{PREFIX}/run/predict", json=body).raise_for_status()

    def _join(self, fn: int, values: dict[str, Any] | None = None) -> str:
        answer = self.client.post(f"{PREFIX}/queue/join", json=self._body(fn, values or {}))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["event_id"])

    def _body(self, fn: int, values: dict[str, Any]) -> dict[str, Any]:
        by_id = {c["id"]: c for c in self.config["components"]}
        data = []
        for number in self._dependency(fn)["inputs"]:
            props = by_id[number]["props"]
            name = (props.get("elem_id") or "").replace("-", "_")
            data.append(values.get(name, props.get("value")))
        return {"data": data, "fn_index": fn, "session_hash": self.session, "event_data": None}

    def _dependency(self, fn: int) -> dict[str, Any]:
        return next(d for d in self.config["dependencies"] if d["id"] == fn)

    def _messages(self) -> Iterator[dict[str, Any]]:
        with self.client.stream(
            "GET", f"{PREFIX}/queue/data", params={"session_hash": self.session}
        ) as lines:
            for line in lines.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line[5:])
