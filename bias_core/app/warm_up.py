"""Ready before the first visitor asks: while the server starts, the embedded models are loaded and used once.

What a first run would wait for (libraries, weights, the first pass through each network, the drawing of a figure) is
done in a thread beside the page. It draws a few pictures in a folder of its own, which goes; what fails says so when
somebody asks for it.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory

from bias_core.errors import BiasCoreError
from bias_core.explore.options import KIND, explore_settings
from bias_core.models.engines import RateStore
from bias_core.services import Services
from bias_core.store.images import ImageStore
from bias_core.store.manifests import ManifestStore
from bias_core.store.readings import AnswerCache, EmbeddingCache
from bias_core.study.design import find_design
from bias_core.study.run import complete, run_study

_PICTURES = 8  # of a batch, from which the generator learns how to show pictures that form
_log = logging.getLogger(__name__)


def warm_up(services: Services, examples: Iterable[Callable[[], object]]) -> threading.Thread:
    """Begin it, and then make what each tab opens with; the thread ends with the program."""
    thread = threading.Thread(target=_work, args=(services, examples), daemon=True, name="bias-warm-up")
    thread.start()
    return thread


def _work(services: Services, examples: Iterable[Callable[[], object]]) -> None:
    try:
        first, *others = examples
        first()  # which every page opens with
        rehearse(services)
        for example in others:
            example()
    except BiasCoreError as error:
        _log.info("not ready beforehand: %s", error)


def rehearse(services: Services) -> None:
    """Explore once with the models of these services, and keep nothing of it."""
    settings = explore_settings(n_images=_PICTURES, attribute_a="", attribute_b="")
    with TemporaryDirectory(prefix="t2i-bias-warm-up-") as folder:
        elsewhere = keeping_in(services, Path(folder))
        with closing(elsewhere.embeddings), closing(elsewhere.answers):
            complete(run_study(find_design(KIND), settings, elsewhere))


def keeping_in(services: Services, folder: Path) -> Services:
    """The same models, with stores of their own in ``folder``."""
    view = copy(services)
    view.settings = services.settings.model_copy(update={"data_dir": folder})
    view.images, view.manifests = ImageStore(folder / "images"), ManifestStore(folder / "runs")
    view.embeddings = EmbeddingCache(folder / "embeddings.sqlite")
    view.answers = AnswerCache(folder / "answers.sqlite")
    view.rates = RateStore(folder / "rates.json")
    return view
