"""An HTML page as PDF, where this machine has a Chromium that prints it."""

import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from bias_core.errors import InvalidInput, StorageError

BY_HAND = "open the HTML file in a browser and print it into a PDF (Ctrl+P, or ⌘P)"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_MOST_SECONDS = 120
_OPTIONS = (
    "--headless", "--disable-gpu", "--disable-extensions", "--no-first-run", "--no-pdf-header-footer",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # a page that is printed asks nobody
)  # fmt: skip
_ONE_AT_A_TIME = threading.Lock()  # each takes a browser


def find_chromium() -> str:
    """The program that prints; "" where there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), "") or ""


def html_to_pdf(html: str) -> bytes:
    """The page as it prints.

    Raises InvalidInput: this machine has no Chromium; StorageError: it could not print.
    """
    if not (program := find_chromium()):
        raise InvalidInput(f"this machine has no Chromium, which writes the PDF; {BY_HAND}")
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory(prefix="t2i-bias-pdf-", ignore_cleanup_errors=True) as place:
        page, printed = Path(place, "report.html"), Path(place, "report.pdf")
        page.write_text(html, encoding="utf-8")
        as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # it has none for root
        own = [f"--user-data-dir={place}/profile", f"--print-to-pdf={printed}", page.as_uri()]
        try:
            end = subprocess.run([program, *_OPTIONS, *as_root, *own], capture_output=True, timeout=_MOST_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StorageError(f"{program} did not write the PDF ({error}); {BY_HAND}") from error
        if not printed.is_file():
            last = (end.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {end.returncode}"])[-1]
            raise StorageError(f"{program} did not write the PDF ({last}); {BY_HAND}")
        return printed.read_bytes()
