"""The languages of the page: English, as the program writes it, and each that ``assets/languages`` has a file for."""

import json
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bias_core.settings import Settings
from bias_core.ui.templates import render, script

ENGLISH = {"en": "English"}


def languages(settings: Settings) -> Mapping[str, str]:
    """What each language calls itself, by its code."""
    files = sorted((settings.assets_dir / "languages").glob("*.json"))
    return ENGLISH | {file.stem: json.loads(file.read_text(encoding="utf-8"))["name"] for file in files}


def language_head(settings: Settings) -> str:
    """What shows the page in its visitor's language, for the page's head: there before anything is seen."""
    return render("language", script=_script(settings))


def language_routes(settings: Settings) -> list[Route | Mount]:
    """Where a page asks for the dictionary of its language; an English one asks for none.

    ``/languages/page.js`` is what stands in the head of the app's page, for the raters' page: no script stands in that.
    """

    async def send(_: Request) -> Response:
        return Response(_script(settings), media_type="text/javascript", headers={"Cache-Control": "no-cache"})

    return [
        Route("/languages/page.js", send, methods=["GET"]),
        Mount("/languages", StaticFiles(directory=settings.assets_dir / "languages")),
    ]


def _script(settings: Settings) -> str:
    return script("language", languages=languages(settings))
