"""What visitors may upload, together and each, and where it is kept."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gradio.utils import get_upload_folder
from starlette.responses import PlainTextResponse

from bias_core.store.files import evict_oldest, total_bytes

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_PATH = "/gradio_api/upload"
_OF_ONE_VISITOR = 200_000_000  # bytes of kept imports; the oldest make room


class UploadQuota:
    """Refuses an upload while those of the last hour take more than ``limit`` bytes together."""

    def __init__(self, app: ASGIApp, limit: int, folder: Path | None = None) -> None:
        self._app, self._limit, self._folder = app, limit, folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on but what would be too much."""
        if scope["type"] == "http" and scope["path"].rstrip("/").endswith(_PATH) and self._is_full():
            refusal = PlainTextResponse(
                f"All visitors together have uploaded {self._limit / 1e9:g} GB within an hour, and more "
                "is not kept. Try again in an hour, or bring fewer or smaller pictures.",
                status_code=507,
            )
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_full(self) -> bool:
        folder = self._folder or Path(get_upload_folder())
        return total_bytes(path for path in folder.rglob("*") if path.is_file()) > self._limit


def keep_upload(path: Path, folder: Path) -> Path:
    """A copy that stays as long as its visitor, whose ``folder`` it is; the same content has the same place.

    What was uploaded to the server itself goes after an hour. Above 200 MB the visitor's oldest copies go.
    """
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    target = folder / "imports" / digest / path.name
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        kept = [file for file in (folder / "imports").rglob("*") if file.is_file()]
        evict_oldest(kept, _OF_ONE_VISITOR, protected=lambda file: file == target)
    return target
