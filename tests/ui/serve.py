"""``python -m tests.ui.serve FOLDER PORT``: the real app over services without weights."""

from __future__ import annotations

import sys
from pathlib import Path

from bias_core.ui.build import build_app, launch_options
from tests.ui.fakes import FakeServices

if __name__ == "__main__":
    services = FakeServices(Path(sys.argv[1]))
    options = launch_options(services) | {"server_name": "127.0.0.1", "server_port": int(sys.argv[2])}
    build_app(services).launch(quiet=True, **options)
