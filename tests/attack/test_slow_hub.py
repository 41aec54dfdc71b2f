"""A hub that never answers holds up who asked it, and nobody else; who asked can stop, and is told."""

import threading
from concurrent.futures import ThreadPoolExecutor

import huggingface_hub
import pytest

from bias_core import waiting
from bias_core.errors import Cancelled, ModelUnavailable
from bias_core.labels.rating import join, next_item
from bias_core.models import weights
from bias_core.models.encoders import TorchvisionPersonFinder
from bias_core.services import Services
from bias_core.settings import Settings
from tests.labels.raters import open_task


@pytest.fixture
def asked(monkeypatch):
    """Set when the hub was asked for files, which it never gives."""
    asked, over = threading.Event(), threading.Event()

    def never(*_args, **_options):
        asked.set()
        over.wait(30)
        raise OSError("the test is over")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", never)
    monkeypatch.setattr("torch.hub.download_url_to_file", never)
    yield asked
    over.set()


@pytest.fixture
def services(tmp_path):
    built = Services(Settings(data_dir=tmp_path / "data", device="cpu"))
    yield built
    built.close()


@pytest.mark.parametrize(
    ("role", "name"),
    [("encoder", "someone/clip-of-theirs"), ("captioner", "someone/blip-of-theirs"), ("person_finder", "")],
)
def test_raters_readers_and_who_draws_go_on_while_a_hub_keeps_a_reader_waiting(
    asked, services, tmp_path, role, name, monkeypatch
):
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    reader = getattr(services, role)(name) if name else TorchvisionPersonFinder("finder")
    stop = threading.Event()

    def read():
        def steps():
            with services.reading(reader):
                yield

        list(waiting.stoppable(steps(), stop.is_set))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert asked.wait(10)
        assert services.model_lock.acquire(timeout=1)  # as whoever draws does
        services.model_lock.release()
        with services.reading():  # as other readers do
            pass
        task = open_task(services.labels, tmp_path / "pictures", 2)
        code = join(services.labels, task.join_code).code
        assert next_item(services.labels, code).item
        stop.set()
        with pytest.raises(Cancelled, match="stopped while waiting"):
            reading.result(timeout=10)


def test_a_download_that_takes_too_long_is_given_up_in_words(asked, services, monkeypatch):
    monkeypatch.setattr(weights, "WEIGHTS_SECONDS", 0.2)
    with (
        pytest.raises(ModelUnavailable, match=r"took longer than .* check the network"),
        services.reading(services.encoder("someone/clip-of-theirs")),
    ):
        pass
    assert asked.is_set()
