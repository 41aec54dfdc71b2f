"""``python -m tests.labels.serve FOLDER PORT``: the rater's door and page alone, which are up in a second."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from bias_core.labels.api import label_routes
from bias_core.services import Services
from bias_core.settings import Settings

if __name__ == "__main__":
    routes = label_routes(Services(Settings(data_dir=Path(sys.argv[1]))))
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
