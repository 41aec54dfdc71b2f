"""Builds and serves the page, the API and the command line.

``build`` builds the page and ``serve`` serves it. Requests pass ``doors``, ``request_limits`` and ``uploads``;
``responses`` answers them; ``gradio_faults`` holds all overrides of Gradio; ``api`` is the API, ``cli`` the command
line.
"""

import gc
import os
import signal
from importlib.util import find_spec


def start() -> None:
    """Serve the app until interrupted, with the settings of the environment."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until there is something to close
    if gc.get_threshold()[0] < 50_000:
        gc.set_threshold(50_000)  # new objects before a look for garbage; the usual 700 take a sixth of the start
    gc.disable()  # until the page is built: nearly all of its objects stay
    if find_spec("spaces") is not None:
        import spaces  # noqa: F401 - on ZeroGPU it must come before torch, which it changes
    from bias_core.app.serve import launch
    from bias_core.services import Services

    launch(Services())
