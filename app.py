"""The app: settings from the environment, services, page."""

from bias_core.services import Services
from bias_core.ui.build import launch

if __name__ == "__main__":
    launch(Services())
