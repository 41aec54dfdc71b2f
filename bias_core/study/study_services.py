"""The models and stores that a study is handed; ``bias_core.services.Services`` provides them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bias_core import protocols
from bias_core.models.catalogue import Role
from bias_core.models.engines import Engine, EngineProgress, RateStore
from bias_core.models.model_sources import ModelFit
from bias_core.settings import Settings
from bias_core.store.images import ImageStore
from bias_core.store.manifests import ManifestStore
from bias_core.store.readings import AnswerCache, EmbeddingCache, Repairs
from bias_core.study.types import StudyReport
from bias_core.types import Estimate, ImageRow, KnownPicture, ModelInfo, ReaderErrors, ReaderFacts
from bias_core.waiting import FairLock


class StudyServices(Protocol):
    """Models by name, the stores, and the lock that models are run under."""

    settings: Settings
    images: ImageStore
    embeddings: EmbeddingCache
    answers: AnswerCache
    manifests: ManifestStore
    repairs: Repairs
    model_lock: FairLock
    engine: Engine
    rates: RateStore

    def model_info(self, name: str) -> ModelInfo:
        """The catalogue's entry of a model."""

    def model_fit(self, name: str) -> ModelFit:
        """The fit of a model to this machine."""

    def revision(self, name: str) -> str:
        """The revision of the weights that a model name stands for now."""

    def reading_files(self, model: str) -> Iterator[tuple[int, int]]:
        """Read the files that identify the weights, if they are unknown: (bytes read, bytes in all)."""

    def text_to_image(self, name: str) -> protocols.TextToImage:
        """The generator of this name."""

    def draw(
        self, rows: Sequence[ImageRow], *, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[EngineProgress]:
        """Draw those of ``rows`` (all of one model) that are not in the store."""

    def find_engine(self, model: str) -> Engine:
        """The engine that draws rows of this model."""

    def reading(self, *readers: object) -> AbstractContextManager[None]:
        """Hold the lock while these classifiers run, one batch at a time; can be entered repeatedly."""

    def encoder(self, name: str) -> protocols.ImageTextEncoder:
        """The encoder of this name."""

    def captioner(self, name: str) -> protocols.Captioner:
        """The captioner of this name."""

    def answerer(self, name: str) -> protocols.VisualQuestionAnswerer:
        """The answerer of questions of this name."""

    def judge(self, name: str) -> protocols.Judge:
        """The judge of pictures of this name."""

    def language_model(self, name: str) -> protocols.LanguageModel:
        """The language model of this name."""

    def person_finder(self, name: str) -> protocols.PersonFinder:
        """The finder of people of this name."""

    def reader_errors(
        self, encoder: str, model: str, sentences: Sequence[tuple[str, str]]
    ) -> tuple[ReaderErrors | None, ...]:
        """Errors of the encoder for each (positive, negative) pair of sentences, None if unknown."""

    def known_pictures(self, model: str, positive: str, negative: str) -> tuple[KnownPicture, ...]:
        """Pictures of the model's world with known ground truth for a pair of sentences; () elsewhere."""

    def reader_world(self, role: Role, name: str) -> str:
        """The only world whose pictures a classifier can read: "calibration", or "" for any pictures."""

    def pictures_world(self, model: str, revision: str = "") -> str:
        """The world of a model's pictures: "calibration", or "" if unknown."""

    def default_reader(self, role: Role, world: str) -> str:
        """The default classifier for pictures of a world, "" for any other pictures."""

    def reader_facts(self, role: Role, name: str) -> ReaderFacts:
        """The weights of a classifier's name, and their download."""

    def fetch_reader(self, role: Role, name: str) -> None:
        """Download the files that a classifier lacks; ModelUnavailable if that fails."""

    def installed_readers(self, role: Role) -> tuple[str, ...]:
        """Named classifiers that are installed."""

    def fitting_readers(self, role: Role) -> tuple[str, ...]:
        """Classifiers of any pictures that fit this machine."""

    def unknown_words(self, model: str, prompt: str) -> tuple[str, ...]:
        """Words of the prompt that the model's world does not know."""

    def share_shown(self, sentence: str, truths: Sequence[Mapping[str, Any]]) -> float | None:
        """Share of pictures whose ground truth agrees with ``sentence``; None if that is undecidable."""

    def true_rate(self, rows: Sequence[ImageRow], sentence: str) -> Estimate | None:
        """The share of such pictures that a sentence is true of, measured on many others; None if not measured."""

    def n_to_label(self, report: StudyReport, n: int = ..., setting: str = "", attributes: Sequence[str] = ()) -> int:
        """The number of pictures in a labelling task of a run that is to have ``n``; 0 if none can be made."""

    def answered_tasks(self, task_ids: Sequence[str]) -> set[str]:
        """The labelling tasks with answers that count."""

    def tidy(self) -> Sequence[str]:
        """Bring the picture store below its limit."""
