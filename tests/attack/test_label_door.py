"""Whatever is sent to the rater's door is answered with a sentence and a 4xx, and changes nothing."""

import json

from starlette.applications import Starlette
from starlette.testclient import TestClient

from bias_core.labels.api import LabelDoor
from tests.annotation.raters import answer_to, every_row, joined, new_id, open_task, to_join

BAD = (
    None, True, -1, 2**63, 10**400, 1.5, "", "\x00", "x" * 300, "ü" * 200, "../../etc/passwd", "~nobody",
    [], {}, [[[[]]]], {"$ne": ""}, "' OR 1=1 --", "{0.__class__}",
)  # fmt: skip
RAW = (
    b'{"id": "\\ud800"}', b"\xed\xa0\x80", b"[" * 4000, b'{"a":' * 600, b"NaN", b"1" * 4000, b"{" * 5000, b"",
    b'{"id": "aaaaaaaa", "id": 5}', b"\x00",
)  # fmt: skip
IDS = ("%ED%A0%80", "%00", "x" * 300, "%C3%BC" * 200, "%F0%9F%92%A3", "~nobody", "%ff")


def test_every_bad_input_at_the_raters_door_has_a_sentence_and_changes_nothing(fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path, 2)
    door = LabelDoor(fakes, clock=iter(range(10**6)).__next__)  # a second passes between two requests
    with TestClient(Starlette(routes=door.routes())) as client:
        me = joined(client, task)
        turn = client.get("/label/next", headers=me).json()
        good = {
            "join": to_join(client, task.join_code),
            "answer": answer_to(turn),
            "skip": {"id": new_id(), "item": turn["item"]},
            "undo": {"id": new_id()},
            "exclude": {"rater": "rater-0", "excluded": True},
        }
        before = every_row(fakes.labels)
        headers = me | {"X-Owner-Key": task.key.text, "Content-Type": "application/json"}

        def refused(method, path, **sent):
            reply = client.request(method, path, **sent)
            assert 400 <= reply.status_code < 500, (path, sent)
            said = reply.json()
            assert set(said) == {"error"}, (path, sent)
            assert 10 < len(said["error"]) < 300, (path, said)

        for route, body in good.items():
            bodies = [json.dumps(body | {field: bad}) for field in body for bad in BAD if bad != body[field]]
            for content in (*bodies, *RAW):
                refused("POST", f"/label/{route}", content=content, headers=headers)
        for name in IDS:
            for room in ("task", "picture"):
                refused("GET", f"/label/{room}/{name}")
            for header in ("X-Rater-Code", "X-Owner-Key"):
                for method, path in (("GET", "next"), ("GET", "mine"), ("DELETE", "mine"), ("DELETE", "task")):
                    refused(method, f"/label/{path}", headers={header: name})
        assert every_row(fakes.labels) == before
        assert client.get("/label/next", headers=me).json() == turn
