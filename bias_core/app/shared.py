"""The preview of a shared result: tags in the page's head, and a picture of its pictures."""

import io
from collections.abc import Callable

import anyio
from PIL import Image, ImageOps
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bias_core.report.saved import Newest
from bias_core.run.history import find_shared
from bias_core.services import Services
from bias_core.store.manifests import RunHead
from bias_core.ui.templates import render

_ACROSS, _DOWN, _SIZE = 4, 2, 300  # pictures of a preview, and their pixels
_MOST_KEPT = 64
_HEADERS = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


def preview_tags(services: Services) -> Callable[[str, str], str]:
    """A function from a run's id and the server's address to tags for the page's head; "" unless it is shared."""

    def tags(run_id: str, address: str) -> str:
        run = find_shared(services, run_id)
        return "" if run is None else render("shared_tags", run=run, address=address)

    return tags


def shared_routes(services: Services) -> list[Route]:
    """The route of the preview picture, for as long as the run is shared."""
    kept = Newest[bytes](_MOST_KEPT)

    async def send(request: Request) -> Response:
        run = await anyio.to_thread.run_sync(find_shared, services, request.path_params["run"])
        if run is None:
            return Response(status_code=404)
        key = run.id, run.image_ids
        if (data := kept.get(key)) is None:
            data = await anyio.to_thread.run_sync(_picture, run, services)
            kept.put(key, data)
        return Response(data, media_type="image/jpeg", headers=_HEADERS)

    return [Route("/shared/{run}.jpg", send, methods=["GET"])]


def _picture(run: RunHead, services: Services) -> bytes:
    """A grid of pictures spread over the run, as JPEG; grey where one is no longer stored."""
    page, n = Image.new("RGB", (_ACROSS * _SIZE, _DOWN * _SIZE), "#e6e9ec"), len(run.image_ids)
    for place in range(min(_ACROSS * _DOWN, n)):
        path = services.images.path(run.image_ids[place * n // min(_ACROSS * _DOWN, n)])
        try:
            with Image.open(path) as file:
                picture = ImageOps.fit(file.convert("RGB"), (_SIZE, _SIZE))
        except OSError:
            continue
        page.paste(picture, (place % _ACROSS * _SIZE, place // _ACROSS * _SIZE))
    data = io.BytesIO()
    page.save(data, "jpeg", quality=85)
    return data.getvalue()
