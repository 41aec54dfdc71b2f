import asyncio

import pytest

from tests.ui.fakes import FakeServices
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


@pytest.fixture(scope="session")
def programs(served):
    """The served app as programs ask it."""
    from gradio_client import Client

    client = Client(served.url, verbose=False, analytics_enabled=False)
    yield client
    client.close()


@pytest.fixture(scope="session")
def whole_app(tmp_path_factory):
    """The whole app, laid out and served to nobody; it is not to be changed."""
    from bias_core.app.build import build_app

    async def laid_out():  # Gradio's queue wants a running loop
        return build_app(services)

    services = FakeServices(tmp_path_factory.mktemp("app"))
    yield asyncio.run(laid_out())
    services.close()
