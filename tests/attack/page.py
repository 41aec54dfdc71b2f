"""A visitor without a browser: loads the page, presses its buttons by their ids, and follows the events."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

import httpx
from gradio_client.utils import apply_diff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFIX = "/gradio_api"


class PageVisitor:
    """One open page, which holds what it was shown last; given values, by element id, take its place.

    A plain field is a value too: ``paper_seed``, ``paper_option_tests``.
    """

    def __init__(self, url: str, *, patience: float = 60) -> None:
        self.client = httpx.Client(base_url=url, timeout=patience, verify=False)  # it would read certificates
        self.session = ""
        self.events: dict[str, int] = {}  # functions by event
        self.config: dict[str, Any] = {}
        self.key = ""
        self.shown: dict[str, Any] = {}
        self.held: dict[int, Any] = {}  # what the page holds where it was told otherwise, by component
        self.open_tab = "explore"  # its key
        self.on_step: Callable[[str], object] = lambda _output: None

    def open(self) -> float:
        """Load the page, again with the key that it gave; all that comes by itself; how long that took, in s.

        What the page then shows is in ``shown``, by element id.
        """
        begun, self.session, self.shown, self.held = time.monotonic(), secrets.token_hex(6), {}, {}
        self.client.get("/").raise_for_status()
        self.config = self.client.get("/config").raise_for_status().json()
        loads = [d["id"] for d in self.config["dependencies"] if any(t[1] == "load" for t in d["targets"])]
        self._finish({self._join(fn): fn for fn in loads if self._dependency(fn)["backend_fn"]})
        return time.monotonic() - begun

    def choose(self, paper: str) -> None:
        """Open the tab of a paper, and wait for what the page then shows, also of a run at work there."""
        self.open_tab, fn = paper, self._event("paper-looked-at", "select")
        self._finish({self._join(fn): fn})

    def _finish(self, events: dict[str, int]) -> None:
        """Wait for these events and for what the page does after them; what they show is in ``shown``."""
        while events:
            to_come: list[int] = []
            for message in self._messages():
                if message["msg"] == "process_generating" and message["event_id"] in events:
                    self.on_step(str(message["output"]))
                    self._show(events[message["event_id"]], message["output"])
                if message["msg"] == "process_completed" and message["event_id"] in events:
                    assert message["success"], message
                    fn = events.pop(message["event_id"])
                    self._show(fn, message["output"])
                    to_come += self._followers(fn, message["output"])
                if not events:
                    break
            events = {self._join(fn): fn for fn in to_come}

    def _followers(self, fn: int, output: dict[str, Any]) -> list[int]:
        """Listeners that the page calls by itself: after an event that went well, and for changed states."""
        changed = [[number, "change"] for number in output.get("changed_state_ids", ())]
        return [
            d["id"]
            for d in self.config["dependencies"]
            if d["backend_fn"]
            and not d["trigger_only_on_failure"]
            and (d["trigger_after"] == fn or any(t in changed for t in d["targets"]))
        ]

    def _told(self, fn: int, output: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
        """The components that have a new value after an event, each with the value."""
        by_id = {c["id"]: c for c in self.config["components"]}
        for number, value in zip(self._dependency(fn)["outputs"], output.get("data", ()), strict=False):
            is_update = isinstance(value, dict) and value.get("__type__") == "update"
            if not is_update or "value" in value:
                yield by_id[number], value["value"] if is_update else value

    def _hold(self, fn: int, output: dict[str, Any]) -> None:
        for component, value in self._told(fn, output):
            self.held[component["id"]] = value

    def _show(self, fn: int, output: dict[str, Any]) -> None:
        for component, value in self._told(fn, output):
            if component["type"] == "browserstate" and component["props"]["storage_key"] == "t2i-bias-visitor":
                self.key = value
            self.shown[component["props"].get("elem_id") or str(component["id"])] = value

    def press(self, button: str, **values: Any) -> Iterator[Any]:
        """Press a button, and what follows; yields the messages of the run."""
        clicked = self.button(button)
        self._immediately(clicked)
        run = next(d["id"] for d in self.config["dependencies"] if d["trigger_after"] == clicked)
        event = self._join(run, values)
        for message in self._messages():
            if message.get("event_id") == event:
                yield message
                if message["msg"] == "process_completed":
                    return

    def select(self, component: str, event: str = "select", **chosen: str) -> None:
        """Choose something inside of a component, and wait for what the page then shows."""
        fn = self._event(component, event)
        joined = self._join(fn, chosen=chosen)
        for message in self._messages():
            if message.get("event_id") == joined and message["msg"] == "process_completed":
                assert message["success"], message
                self._show(fn, message["output"])
                return

    def send(self, name: str, data: bytes) -> str:
        """Upload a file and return its path on the server."""
        answer = self.client.post(f"{PREFIX}/upload", files={"files": (name, data)})
        assert answer.status_code == 200, answer.text
        return str(answer.json()[0])

    def take(self, component: str, *places: str, event: str = "upload") -> dict[str, Any]:
        """Give a file, or several, to a component and return the server's message."""
        fn = self._event(component, event)
        files = [{"path": place, "meta": {"_type": "gradio.FileData"}} for place in places]
        event = self._join(fn, {component.replace("-", "_"): files[0] if event == "upload" else files})
        shown = []  # by a handler that shows its progress; the second and later ones are changes to the one before
        for message in self._messages():
            if message.get("event_id") == event and message["msg"] == "process_generating":
                shown.append(message["output"])
            elif message.get("event_id") == event and message["msg"] == "process_completed":
                break
        if message["success"]:
            self._show(fn, message["output"])
        return message | ({"output": shown} if shown and message["success"] else {})

    def immediately(self, button: str) -> None:
        """Press a button whose event waits in no queue."""
        self._immediately(self.button(button))

    def button(self, button: str) -> int:
        """The event of a press."""
        return self._event(button, "click")

    def number(self, component: str) -> int:
        """The number of a component by its element id."""
        (number,) = (c["id"] for c in self.config["components"] if c["props"].get("elem_id") == component)
        return int(number)

    def _event(self, component: str, name: str) -> int:
        number, events = self.number(component), self.config["dependencies"]
        pressed = {event["id"] for event in events if [number, name] in event["targets"]}
        asks = (d for d in events if d["backend_fn"] and {d["id"], d["trigger_after"]} & pressed)  # or follows a script
        return int(next(asks)["id"])

    def _immediately(self, fn: int) -> None:
        body = self._body(fn, {})
        self._hold(fn, self.client.post(f"{PREFIX}/run/predict", json=body).raise_for_status().json())

    def _join(self, fn: int, values: dict[str, Any] | None = None, chosen: dict[str, str] | None = None) -> str:
        body = self._body(fn, values or {}) | {"event_data": chosen}
        answer = self.client.post(f"{PREFIX}/queue/join", json=body)
        assert answer.status_code == 200, answer.text
        self.events[answer.json()["event_id"]] = fn
        return str(answer.json()["event_id"])

    def _body(self, fn: int, values: dict[str, Any]) -> dict[str, Any]:
        by_id = {c["id"]: c for c in self.config["components"]}
        data = []
        for number in self._dependency(fn)["inputs"]:
            props = by_id[number]["props"]
            name = (props.get("elem_id") or "").replace("-", "_")
            value = values.get(name, self.held.get(number, props.get("value")))
            if props.get("storage_key") == "t2i-bias-visitor":
                value = self.key
            elif name == "paper_asked":
                value = self.open_tab
            elif name in ("explore_values", "paper_values") and name not in values:
                value = _filled(value, name.removesuffix("values"), values)
            data.append(value)
        return {"data": data, "fn_index": fn, "session_hash": self.session, "event_data": None}

    def _dependency(self, fn: int) -> dict[str, Any]:
        return next(d for d in self.config["dependencies"] if d["id"] == fn)

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Yield the server's messages, with differences applied to the step before."""
        steps: dict[str, list[Any]] = {}
        for message in self._lines():
            if message["msg"] == "process_generating":
                data, event = message["output"]["data"], message["event_id"]
                if event in steps:  # from the second on, only what is different
                    data = [apply_diff(value, changes) for value, changes in zip(steps[event], data, strict=True)]
                steps[event] = message["output"]["data"] = data
            if message.get("success") and message["event_id"] in self.events:
                self._hold(self.events[message["event_id"]], message["output"])
            yield message

    def _lines(self) -> Iterator[dict[str, Any]]:
        while True:  # the server ends the stream when nothing is under way, and what follows needs another
            with self.client.stream("GET", f"{PREFIX}/queue/data", params={"session_hash": self.session}) as lines:
                for line in lines.iter_lines():
                    if "close_stream" in line:  # as a page does, which leaves at that word
                        break
                    if line.startswith("data:"):
                        yield json.loads(line[5:])


def _filled(text: str, key: str, values: dict[str, Any]) -> str:
    """The text of a form's plain fields with those of these values that are named as one of them."""
    fields = json.loads(text)
    names = {key + name.replace(".", "_"): name for name in fields}
    return json.dumps(fields | {names[name]: value for name, value in values.items() if name in names})
