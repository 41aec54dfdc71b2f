"""The app: settings from the environment, services, page."""

from importlib.util import find_spec

if find_spec("spaces") is not None:
    import spaces  # noqa: F401 - on ZeroGPU it must come before torch, which it changes

from bias_core.app.serve import launch
from bias_core.services import Services

if __name__ == "__main__":
    launch(Services())
