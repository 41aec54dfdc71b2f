"""Serves the page: closed by default, behind access checks, and prepared before the first visitor."""

import atexit
import gc
import importlib.util
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from bias_core.app.build import TITLE, build_app
from bias_core.app.doors import HostCheck, OpenPaths, PageOwners, allowed_hosts, cors_options
from bias_core.app.gradio_faults import without_gradios_cors
from bias_core.app.request_limits import RequestLimits, limit_heads
from bias_core.app.responses import ErrorAsSentence, FirstPage, Opening, OpeningWatch, StreamEnd
from bias_core.app.shared import preview_tags, shared_routes
from bias_core.app.uploads import Uploads
from bias_core.errors import BiasCoreError, StorageError
from bias_core.explore.options import KIND, explore_settings
from bias_core.labels.api import label_routes
from bias_core.models.engines import RateStore
from bias_core.models.model_sources import share_freed_memory
from bias_core.report.palette import css_variables
from bias_core.run.history import gallery_folder
from bias_core.run.run import complete, run_study
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.store import reader
from bias_core.store.images import ImageStore
from bias_core.store.manifests import ManifestStore
from bias_core.store.readings import AnswerCache, EmbeddingCache
from bias_core.study.design import find_design
from bias_core.ui.templates import STATIC

_DATABASES = ("embeddings.sqlite", "answers.sqlite")
EXAMPLES = "examples"  # the only folder of the assets that is served
_OTHER_THREADS = 100
_CLOSING_SECONDS, _COPYING_SECONDS = 4.0, 25.0  # after a signal; the second for a server that copies answers to a hub
_ASK_SECONDS, _PAGE_SECONDS = 1.0, 60.0  # the warm-up waits for a browser that comes, and for its page to be there
_PICTURES = 8  # in a batch, from which the generator learns to preview unfinished pictures
_log = logging.getLogger(__name__)


def launch_options(services: Services, opening: Opening) -> dict[str, Any]:
    """Options of ``Blocks.launch``: closed by default; only pictures are served."""
    without_gradios_cors()
    settings = services.settings
    data = settings.data_dir
    on_a_space = bool(os.environ.get("SPACE_ID"))  # the Space's proxy connects from outside the container
    server_name = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if on_a_space else settings.host)
    hosts = allowed_hosts(settings, server_name)
    limit_heads()
    return {
        "server_name": server_name,
        "server_port": int(os.environ.get("GRADIO_SERVER_PORT", settings.port)),
        "share": False,
        "_frontend": False,  # otherwise Gradio requests its own page and gives up after three seconds
        "enable_monitoring": False,
        "run_history": False,
        "show_error": False,
        "ssr_mode": False,
        "mcp_server": importlib.util.find_spec("mcp") is not None,
        "max_threads": settings.runs_waiting + _OTHER_THREADS,  # each waiting run takes one thread
        "state_session_capacity": 200,
        "max_file_size": f"{settings.upload_mb}mb",  # the page checks it before an upload
        "allowed_paths": [str(data / "images"), str(settings.assets_dir / EXAMPLES), *_gallery_pictures(settings)],
        "blocked_paths": [
            *(str(data / name) for name in ("runs", "reports", "label_pictures", *_DATABASES)),
            *(str(data / f"labels.sqlite{end}") for end in ("", "-wal", "-journal")),
            *(str(path) for path in settings.assets_dir.iterdir() if path.name != EXAMPLES),
        ],
        "app_kwargs": {
            "routes": [*label_routes(services), *shared_routes(services)],
            "middleware": [
                Middleware(HostCheck, hosts=hosts, public=settings.public),
                Middleware(CORSMiddleware, **cors_options(hosts, settings.public)),
                Middleware(ErrorAsSentence),
                Middleware(OpenPaths),
                Middleware(Uploads, store=services.uploads, max_bytes=settings.upload_mb * 1024**2),
                Middleware(RequestLimits),
                Middleware(PageOwners),
                Middleware(StreamEnd),
                Middleware(OpeningWatch, opening=opening),
                Middleware(FirstPage, tags=preview_tags(services)),
            ],
        },
        "footer_links": ["api", "gradio", "settings"],
        "theme": build_theme(),
        "css": f":root {{ {css_variables('light')} }}\n.dark {{ {css_variables('dark')} }}",
        "css_paths": [STATIC / "app.css"],
        "favicon_path": STATIC / "favicon.svg",
    }


def _gallery_pictures(settings: Settings) -> list[str]:
    """Folder of the gallery's pictures; empty without a gallery."""
    with suppress(StorageError):  # the list of runs shows the error
        if (folder := gallery_folder(settings)) is not None:
            return [str(folder / "images")]
    return []


def build_theme() -> gr.themes.Base:
    """Light and dark in one theme, with Gradio's own fonts (their files of weight 600 lack letters: 700)."""
    look = json.loads((STATIC / "theme.json").read_text(encoding="utf-8"))
    hues = {name: gr.themes.Color(**shades, name=name) for name, shades in look["hues"].items()}
    theme = gr.themes.Base(
        primary_hue=hues["measured"],
        secondary_hue=hues["measured"],
        neutral_hue=hues["slate"],
        radius_size=gr.themes.sizes.radius_sm,
        font=(gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"),
        font_mono=(gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace"),
    )
    return theme.set(**look["colours"])


def bypass_proxy() -> None:
    """Keep a proxy of the environment out of Gradio's request to its own server."""
    given = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, (given, "127.0.0.1", "localhost")))


def launch(services: Services) -> None:
    """Build and serve until interrupted; print the address."""
    share_freed_memory()
    bypass_proxy()
    opening = Opening()
    options = launch_options(services, opening)
    reader.use_limits(reader.SHARED)
    print(f"{TITLE}: http://{options['server_name']}:{options['server_port']}", flush=True)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: end(services))
    services.label_copy()
    demo = build_app(services)
    gc.freeze()  # the page's objects live as long as the server; collecting them would delay answers
    gc.enable()
    try:
        demo.launch(quiet=True, prevent_thread_lock=True, **options)
        start_warm_up(services, demo.first_examples, opening)  # after all imports, or two threads import at once
        demo.block_thread()
    finally:
        services.close()


def end(services: Services) -> None:
    """Close the services and end the process with status 0, whatever its other threads do.

    Python would wait for threads that draw or load, and library code that a thread still runs can abort the process.
    """
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, signal.SIG_IGN)
    closing_thread = threading.Thread(target=_close, args=(services,), daemon=True, name="bias-close")
    closing_thread.start()  # in a thread, because the interrupted code may hold a lock
    closing_thread.join(_COPYING_SECONDS if services.settings.labels_repo else _CLOSING_SECONDS)
    os._exit(0)


def _close(services: Services) -> None:
    services.close()
    atexit._run_exitfuncs()  # noqa: SLF001 - deletes temporary folders


def start_warm_up(services: Services, examples: Iterable[Callable[[], object]], opening: Opening) -> threading.Thread:
    """Prepare each tab's first view in a thread that ends with the program; it gives way to a visitor's first page."""
    thread = threading.Thread(target=_work, args=(services, examples, opening), daemon=True, name="bias-warm-up")
    thread.start()
    return thread


def _work(services: Services, examples: Iterable[Callable[[], object]], opening: Opening) -> None:
    try:
        first, *later_examples = examples
        first()  # every page opens with it
        opening.wait(_ASK_SECONDS, _PAGE_SECONDS)
        reader.start()
        rehearse(services)
        for example in later_examples:
            example()
    except BiasCoreError as error:
        _log.info("not ready beforehand: %s", error)
    gc.collect()
    gc.freeze()  # libraries and caches of these views stay, too


def rehearse(services: Services) -> None:
    """Explore once with these services' models, and keep nothing."""
    settings = explore_settings(n_images=_PICTURES, attribute_a="", attribute_b="")
    with TemporaryDirectory(prefix="t2i-bias-warm-up-") as folder:
        elsewhere = copy_services(services, Path(folder))
        with closing(elsewhere.embeddings), closing(elsewhere.answers):
            complete(run_study(find_design(KIND), settings, elsewhere))


def copy_services(services: Services, folder: Path) -> Services:
    """The same models, with stores of their own in ``folder``."""
    view = copy(services)
    view.settings = services.settings.model_copy(update={"data_dir": folder})
    view.images, view.manifests = ImageStore(folder / "images"), ManifestStore(folder / "runs")
    view.embeddings = EmbeddingCache(folder / "embeddings.sqlite")
    view.answers = AnswerCache(folder / "answers.sqlite")
    view.rates = RateStore(folder / "rates.json")
    return view
