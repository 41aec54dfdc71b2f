"""The app: settings from the environment, services, page."""

import gc
from importlib.util import find_spec

if gc.get_threshold()[0] < 50_000:
    gc.set_threshold(50_000)  # new objects before a look for garbage; the usual 700 take a sixth of the start
if find_spec("spaces") is not None:
    import spaces  # noqa: F401 - on ZeroGPU it must come before torch, which it changes

from bias_core.app.serve import launch
from bias_core.services import Services

if __name__ == "__main__":
    launch(Services())
