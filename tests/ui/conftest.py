import pytest

from tests.ui.served import fakes, served

__all__ = ["fakes", "served"]


@pytest.fixture
def client(fakes):
    """The raters' door without the rest of the app."""
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    from bias_core.labels.api import LabelDoor

    with TestClient(Starlette(routes=LabelDoor(fakes).routes())) as client:
        yield client


@pytest.fixture(scope="module")
def programs(served):
    """The served app as programs ask it."""
    from gradio_client import Client

    client = Client(served.url, verbose=False, analytics_enabled=False, ssl_verify=False)  # else it reads certificates
    yield client
    client.close()
