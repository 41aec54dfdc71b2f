"""``python -m tests.annotation.serve FOLDER PORT [page]``: the rater's door alone, which is up in a second.

With ``page`` it has what the page in a browser asks for besides, which takes a second more to import.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from bias_core.labels.api import label_routes
from bias_core.services import Services
from bias_core.settings import Settings

if __name__ == "__main__":
    settings = Settings(data_dir=Path(sys.argv[1]))
    routes = [*label_routes(Services(settings))]
    if sys.argv[3:] == ["page"]:
        from bias_core.ui.language import language_routes

        routes += language_routes(settings)
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
