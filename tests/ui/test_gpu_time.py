"""On a Space with ZeroGPU it stands beside the button how many more pictures a visitor's GPU time draws today."""

import threading

import pytest

from bias_core.errors import UnknownModel
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.paired.tab import PairedTab
from bias_core.ui.visitor import Visitor
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built


class OnZeroGpu(FakeServices):
    """A hub that knows one account, and a model that draws a picture a second."""

    def __init__(self, folder):
        super().__init__(folder)
        self.borrows_gpu = True
        self.asked = []

    def gpu_seconds_left(self):
        self.asked.append(self._token.get_secret_value())
        return 64.0 if self.asked[-1] else None

    def text_to_image(self, name):
        if name == "no such model":
            raise UnknownModel("no such model")
        return super().text_to_image(name) if name == "calibration-renderer" else Lent()


class Lent:
    def pictures_in(self, seconds, steps):
        return int(seconds) // steps


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    services = OnZeroGpu(tmp_path_factory.mktemp("space"))
    yield services
    services.close()


@pytest.fixture(scope="module")
def tab(services):
    return built(ExploreTab, services)


@pytest.fixture
def asked(services):
    """The tokens that the hub is asked with from now on."""
    services.asked.clear()
    return services.asked


def test_it_is_said_of_the_chosen_model_to_who_has_signed_in(tab, asked):
    visitor = Visitor()
    assert tab.on_gpu_time(visitor, "stable-diffusion-v1-5") == ""  # nobody knows
    visitor = Visitor()
    visitor.signed_in_token = "hf_mine"
    assert tab.on_gpu_time(visitor, "sd-turbo") == "About 32 more pictures today"
    assert tab.on_gpu_time(visitor, "stable-diffusion-v1-5", 20) == "About 3 more pictures today"
    assert tab.on_gpu_time(visitor, "stable-diffusion-v1-5", "65") == "No GPU time is left today for one more picture"
    assert tab.on_gpu_time(visitor, "calibration-renderer") == ""  # needs none of it
    assert tab.on_gpu_time(visitor, "no such model") == ""
    assert asked == ["", "hf_mine"]


def test_tabs_that_ask_at_once_ask_the_hub_once(services, asked):
    visitor = Visitor()
    visitor.signed_in_token = "hf_mine"
    threads = [threading.Thread(target=visitor.gpu_seconds_left, args=(services,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == ["hf_mine"]


def test_it_has_a_place_on_such_a_space_alone(services, tab, fakes):
    assert "gpu_time" in tab.parts
    assert "gpu_time" in built(PairedTab, services).parts
    assert "gpu_time" not in built(PairedTab, fakes).parts
