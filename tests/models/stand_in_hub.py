"""A stand-in for the hub on 127.0.0.1: repositories of real layouts, some gated, whose downloads can be held up."""

import hashlib
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.hosted_server import answering

DATE = "2025-01-01T00:00:00.000Z"
PULL_REQUEST = "refs/pr/1"
CONVERSION = {
    "num": 1, "title": "Adding `safetensors` variant of this model", "author": {"name": "SFconvertbot"},
    "createdAt": DATE, "status": "open", "isPullRequest": True, "repo": {"name": "", "type": "model"},
}  # fmt: skip
TOKEN = "hf_accepted0123456789terms"


@dataclass
class Repository:
    """The files of a folder, and ``further`` ones that are listed with them."""

    folder: Path
    commit: str
    gated: bool = False
    further: frozenset[str] = frozenset()
    conversion: "Repository | None" = None  # the robot's pull request with safetensors

    @cached_property
    def needed(self) -> dict[str, bytes]:
        paths = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in paths}

    @cached_property
    def files(self) -> dict[str, bytes]:
        return dict.fromkeys(self.further, b"not needed") | self.needed


@dataclass
class StandInHub:
    """Answers the hub's own client; ``sent`` are the (repository, file) that were asked for.

    ``held``: one of them, of which half is sent before ``released`` is set.
    """

    repositories: dict[str, Repository] = field(default_factory=dict)
    sent: list[tuple[str, str]] = field(default_factory=list)
    held: tuple[str, str] = "", ""
    url: str = ""

    def __post_init__(self) -> None:
        self.released = threading.Event()

    @contextmanager
    def running(self):
        with answering(partial(_Handler, self)) as self.url:
            try:
                yield self
            finally:
                self.released.set()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, hub, *args):
        self.hub = hub
        super().__init__(*args)

    def log_message(self, *_args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        is_api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if is_api else parts[:2])
        kind, revision = [*(parts[4:] if is_api else parts[2:]), "", ""][:2]
        file = "/".join(parts[4:])
        repository = self.hub.repositories.get(name)
        if repository is None:
            return self._refuse(404, "RepoNotFound")
        if kind == "discussions":
            return self._json({"count": 1, "start": 0, "discussions": [CONVERSION] if repository.conversion else []})
        if repository.conversion and revision in (PULL_REQUEST, repository.conversion.commit):
            parent, repository, revision = repository, repository.conversion, ""
            if kind == "commits":
                commits = [repository.commit, parent.commit]
                return self._json(
                    [{"id": at, "authors": [], "date": DATE, "title": "", "message": ""} for at in commits]
                )
        if revision not in ("", "main", repository.commit):
            return self._refuse(404, "RevisionNotFound")
        if is_api:
            sizes = {path: len(content) for path, content in repository.files.items()}
            if kind == "tree":
                return self._json([
                    {"type": "file", "path": path, "size": n, "oid": _hash(path.encode())} for path, n in sizes.items()
                ])  # fmt: skip
            siblings = [{"rfilename": path, "size": n} for path, n in sizes.items()]
            return self._json({"id": name, "sha": repository.commit, "siblings": siblings, "gated": repository.gated})
        token = self.headers.get("Authorization", "")
        if repository.gated and token != f"Bearer {TOKEN}":
            return self._refuse(403 if token else 401, "GatedRepo")
        if file not in repository.files:
            return self._refuse(404, "EntryNotFound", {"X-Repo-Commit": repository.commit})
        return self._send_file(name, repository, file)

    def _send_file(self, name, repository, file):
        content, hub = repository.files[file], self.hub
        headers = {"ETag": f'"{_hash(content)}"', "X-Repo-Commit": repository.commit}
        self._begin(200, len(content), headers)
        if self.command == "HEAD":
            return
        hub.sent.append((name, file))
        half = len(content) // 2 if hub.held == (name, file) else len(content)
        self.wfile.write(content[:half])
        if half < len(content):
            hub.released.wait(30)
            self.wfile.write(content[half:])

    def _json(self, value):
        content = json.dumps(value).encode()
        self._begin(200, len(content), {"Content-Type": "application/json"})
        self.wfile.write(content)

    def _refuse(self, status, code, headers=None):
        self._begin(status, 0, {"X-Error-Code": code, **(headers or {})})

    def _begin(self, status, n_bytes, headers):
        self.send_response(status)
        for key, value in {"Content-Length": str(n_bytes), **headers}.items():
            self.send_header(key, value)
        self.end_headers()


def _hash(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
