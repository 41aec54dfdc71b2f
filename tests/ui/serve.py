"""``python -m tests.ui.serve FOLDER PORT``: the real app over services without weights."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bias_core.app.serve import launch
from tests.ui.fakes import FakeServices

if __name__ == "__main__":
    os.fsync = lambda _file: None  # as tests/conftest.py has it
    os.environ |= {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": sys.argv[2]}
    launch(FakeServices(Path(sys.argv[1])))
