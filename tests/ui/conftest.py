import pytest

from bias_core.ui.visitor import Visitor
from tests.ui.served import fakes, served

__all__ = ["fakes", "served"]


@pytest.fixture(scope="module")
def programs(served):
    """The served app as programs ask it."""
    from gradio_client import Client

    client = Client(served.url, verbose=False, analytics_enabled=False, ssl_verify=False)  # else it reads certificates
    yield client
    client.close()


@pytest.fixture
def visitor():
    visitor = Visitor()
    yield visitor
    visitor.leave()
