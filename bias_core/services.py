"""The parts that one process shares: settings, the stores, and the models, each built on first use.

Built once when the program starts (app, command line, a script) and handed to studies as an
argument. Nothing in it belongs to one visitor.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import SecretStr

from bias_core.errors import ModelUnavailable
from bias_core.models import encoders, endpoints, hosted_images, language_models
from bias_core.models.catalogue import Catalogue, Role, ToolInfo, hosted_name, load_catalogue
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.models.engines import Engine, EngineProgress, LocalEngine, RateStore, RayEngine
from bias_core.models.family_facts import own_defaults
from bias_core.models.model_sources import (
    ModelFit,
    ModelSources,
    cached_commit,
    check_version,
    default_reader,
    fetch_pipeline,
    fitting_readers,
    hosted_fit,
)
from bias_core.models.weights import ReadersTurn, cpu_threads
from bias_core.models.zero_gpu import ZeroGpuReader, ZeroGpuTextToImage, gpu_seconds_left, prepare
from bias_core.protocols import (
    Captioner,
    Hosted,
    ImageTextEncoder,
    Judge,
    LanguageModel,
    PersonFinder,
    TextToImage,
    VisualQuestionAnswerer,
)
from bias_core.settings import Settings, on_zero_gpu
from bias_core.store.files import FileHashes
from bias_core.store.images import ImageStore
from bias_core.store.manifests import ManifestStore, make_room
from bias_core.store.readings import AnswerCache, EmbeddingCache, Repairs
from bias_core.store.uploads import UploadStore
from bias_core.study.run_queue import RunQueue
from bias_core.types import IMPORTED, ImageRow, KnownPicture, ModelInfo, ReaderErrors, ReaderFacts
from bias_core.waiting import BuiltOnce, FairLock, StopSignal, never
from bias_core.world.measured_models import errors_of_sentences, held_out_embeddings, known_pictures, true_rate
from bias_core.world.models import CalibrationPersonFinder, CalibrationRenderer, shown_share, unknown_words

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.labels.answers import LabelCopy
    from bias_core.labels.label_store import LabelStore


class Services:
    """Models and stores by name; safe to use from several threads."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        data = self.settings.data_dir
        self.repairs = Repairs()  # what the stores found broken and had made anew
        self.images = ImageStore(data / "images", self.repairs)
        self.embeddings = EmbeddingCache(data / "embeddings.sqlite", self.repairs)
        self.answers = AnswerCache(data / "answers.sqlite", self.repairs)
        self.manifests = ManifestStore(data / "runs")
        self._hashes = FileHashes(data / "file_hashes.sqlite", self.repairs)
        self._sources = ModelSources(self.settings, self._hashes)
        # Held while drawing or loading, one batch at a time; readers take :meth:`reading`.
        self.model_lock, self._reader_lock = FairLock(), FairLock()
        self.engine: Engine = LocalEngine(self.settings.device)  # who draws the rows of a manifest
        self.rates = RateStore(data / "rates.json")  # how long drawing took before
        self.borrows_gpu = self.settings.device == "auto" and on_zero_gpu()
        self._device = "cpu" if self.borrows_gpu else self.settings.device
        if self.borrows_gpu:
            prepare()
        self._built = BuiltOnce()
        self._token = SecretStr("")  # of the visitor who asks for hosted models; see for_visitor
        self._hosted: dict[str, hosted_images.HostedTextToImage] = {}

    def for_visitor(self, token: str) -> "Services":
        """The same services for one visitor, who pays for hosted models with this token; it is kept nowhere else.

        A token that begins with ``hf_`` goes to Hugging Face alone, any other to the server of BIAS_IMAGES_URL alone.
        """
        view = copy(self)
        vars(view).update(_token=SecretStr(token.strip()), _hosted={})
        return view

    def gpu_seconds_left(self) -> float | None:
        """GPU seconds that the visitor of these services has left today; None where it is not known."""
        may_ask = self.borrows_gpu and not self.settings.offline
        return gpu_seconds_left(self._token.get_secret_value()) if may_ask else None

    @property
    def labels(self) -> "LabelStore":
        """People's answers; the database opens with the first of them."""
        from sqlalchemy import URL

        from bias_core.labels.label_store import LabelStore

        data, most = self.settings.data_dir, int(self.settings.label_pictures_gb * 1e9)
        url = self.settings.labels_url or URL.create("sqlite", database=str(data.absolute() / "labels.sqlite"))
        open_store = partial(LabelStore, url, pictures=data / "label_pictures", most_picture_bytes=most)
        return self._built.get("labels", "", open_store)

    def run_answers(self, run_id: str) -> "pd.DataFrame | None":
        """People's answers about a run, as a frame; None if no labelling task was made for it."""
        manifest = self.manifests.find(run_id) if run_id.isalnum() else None
        if manifest is None or not manifest.label_tasks:
            return None  # the store is not opened for nothing
        from bias_core.labels.answers import run_answers

        return run_answers(self.labels, run_id, manifest.label_tasks)

    def label_copy(self) -> "LabelCopy | None":
        """The copying of answers to a hub's dataset, running from now on; None where none is wanted."""
        settings = self.settings
        if not settings.labels_repo:
            return None
        from bias_core.labels.answers import LabelCopy

        start = partial(LabelCopy, self.labels, settings.data_dir / "label_copy", repo=settings.labels_repo)
        return self._built.get("label_copy", "", partial(start, minutes=settings.labels_repo_minutes))

    @cached_property
    def uploads(self) -> UploadStore:
        """The files that visitors sent."""
        return UploadStore(int(self.settings.uploads_gb * 1e9))

    @cached_property
    def run_queue(self) -> RunQueue:
        """The queue in which runs wait for their turn."""
        return RunQueue.of(self.settings)

    @cached_property
    def catalogue(self) -> Catalogue:
        """All models and readers that have a name, with the language model and the judge of the settings."""
        catalogue, settings = load_catalogue(self.settings.assets_dir / "models.yaml"), self.settings
        if settings.public:
            catalogue = replace(catalogue, allowed=tuple(settings.allowed_models.replace(",", " ").split()))
        tools = dict(catalogue.tools)
        servers: dict[Role, tuple[str, str, str]] = {
            "language_model": (settings.llm_url, settings.llm_model, "BIAS_LLM_URL"),
            "judge": (settings.judge_url, settings.judge_model, "BIAS_JUDGE_URL"),
        }
        for role, (url, model, named_by) in servers.items():
            if url and model:
                note = f"{model}, on a server of one's own ({named_by})"
                endpoint = ToolInfo(id="endpoint", name=model, library="endpoint", path="", note=note)
                tools[role] = (*tools.get(role, ()), endpoint)
        return replace(
            catalogue,
            tools=tools,
            folder_of=self._sources.hub_folder,
            defaults_of=own_defaults,
            checkpoint_folder=self._sources.checkpoint_folder,
        )

    def models(self) -> tuple[ModelInfo, ...]:
        """The named models, embedded ones first."""
        return self.catalogue.models

    def tools(self, role: Role) -> tuple[ToolInfo, ...]:
        """The named readers of a role, embedded ones first."""
        return self.catalogue.tools.get(role, ())

    def model_info(self, name: str) -> ModelInfo:
        """The catalogue's entry; UnknownModel where there is none."""
        return self.catalogue.model(name)

    def model_fit(self, name: str) -> ModelFit:
        """The fit of this model to this machine; nothing is loaded.

        Only for a model that the catalogue does not list, the hub is asked for its size, once.
        """
        info = self.model_info(name)
        if hosted := hosted_name(name):
            return hosted_fit(info, hosted, has_server=bool(self.settings.images_url))
        return self._sources.fit(info)

    def revision(self, name: str) -> str:
        """The version of a model's weights now: a hub revision, or a fingerprint of the files."""
        return self._hosted_model(name).version() if hosted_name(name) else self._sources.version(self.model_info(name))

    def reading_files(self, model: str) -> Iterator[tuple[int, int]]:
        """Read what says which weights these are, if that is not known: (bytes read, bytes in all)."""
        files = () if hosted_name(model) else self._sources.files(self.model_info(model))
        return self._hashes.reading(*files)

    def text_to_image(self, name: str) -> TextToImage:
        """The generator of this name; its weights load with the first picture, and anew once they changed."""
        if hosted_name(name):
            return self._hosted_model(name)
        info = self.model_info(name)
        version = self._sources.version(info)
        return self._built.get("model", info.id, lambda: self._build_model(info, version), version=version)

    def draw(self, rows: Sequence[ImageRow], *, cancelled: StopSignal = never) -> Iterator[EngineProgress]:
        """Draw, by the engine, those of ``rows`` (all of one model) that are not in the store.

        ModelUnavailable is raised where the model has other weights than the rows were planned with.
        """
        if not rows:
            return iter((EngineProgress(done=0, total=0),))
        first = rows[0]
        check_version(first.model, first.revision, partial(self.revision, first.model))
        model, engine = self.text_to_image(first.model), self.engine_of(first.model)
        if not (self.borrows_gpu or isinstance(model, Hosted)):
            self._sources.fetch(self.model_info(first.model), first.revision, self._device)
        events = engine.run(rows, model, self.images, lock=self.model_lock.turns, cancelled=cancelled)
        return self.rates.watch(events, rows[0], engine)

    def engine_of(self, model: str) -> Engine:
        """The engine for rows of this model: that of this process, or, for a hosted one, requests."""
        return hosted_images.RequestsEngine(self.settings.remote_at_once) if hosted_name(model) else self.engine

    def reading(self, *readers: object) -> ReadersTurn:
        """Held while these readers run, a batch at a time; entered as often as one likes."""
        return ReadersTurn(readers, self._reader_lock, self.model_lock, downloads=self._built)

    def encoder(self, name: str) -> ImageTextEncoder:
        """The encoder of this name; its weights load with the first input, and again when they changed."""
        return cast("ImageTextEncoder", self._reader("encoder", name))

    def captioner(self, name: str) -> Captioner:
        """The captioner of this name, likewise."""
        return cast("Captioner", self._reader("captioner", name))

    def answerer(self, name: str) -> VisualQuestionAnswerer:
        """The answerer of questions of this name, likewise."""
        return cast("VisualQuestionAnswerer", self._reader("answerer", name))

    def judge(self, name: str) -> Judge:
        """The judge of pictures of this name, likewise."""
        return cast("Judge", self._reader("judge", name))

    def language_model(self, name: str) -> LanguageModel:
        """The language model of this name, likewise."""
        return cast("LanguageModel", self._reader("language_model", name))

    def person_finder(self, name: str) -> PersonFinder:
        """The finder of people of this name; its weights load with the first picture."""
        return self._built.get("person_finder", name, partial(self._build_finder, name))

    def reader_errors(
        self, encoder: str, model: str, sentences: Sequence[tuple[str, str]]
    ) -> tuple[ReaderErrors | None, ...]:
        """The encoder's error rates on each (positive, negative) pair of sentences.

        Known for encoders that ship their embeddings of held-out renders, on pictures of that world, in its words.
        """
        if not sentences or (path := self._held_out(encoder, model)) is None:
            return (None,) * len(sentences)
        held_out = self._built.get("held out", encoder, lambda: held_out_embeddings(path))
        reader, both = self.encoder(encoder), [text for pair in sentences for text in pair]
        return errors_of_sentences(*held_out, self.embeddings.texts(reader, both, lock=self.reading(reader)), sentences)

    def _held_out(self, encoder: str, model: str) -> Path | None:
        """The file of the encoder's embeddings of held-out renders; None for pictures of another world."""
        world = self.reader_world("encoder", encoder)
        path = Path(self._sources.find(self.catalogue.tool("encoder", encoder).path)) / "held_out.npz"
        return path if world and world == self.pictures_world(model) and path.is_file() else None

    def known_pictures(self, model: str, positive: str, negative: str) -> tuple[KnownPicture, ...]:
        """As many pictures of the model's world that show what one sentence says as show what the other says."""
        return known_pictures(self.model_info(model).width, positive, negative) if self.pictures_world(model) else ()

    def reader_world(self, role: Role, name: str) -> str:
        """The only pictures that a reader can read, "calibration", or "" for any; by name or weights."""
        if role == "judge":  # looks at any picture
            return self.catalogue.tool(role, name).world
        listed = {info.id: info for info in self.tools(role)}
        self.catalogue.check_name(name, listed)
        if name in listed:
            return listed[name].world
        path = Path(name).expanduser()
        weights = self._hashes.fingerprint(path) if path.exists() else ""
        ours = (info for info in listed.values() if info.world and weights)
        return next((info.world for info in ours if self._sources.reader_version(info) == weights), "")

    def pictures_world(self, model: str, revision: str = "") -> str:
        """The world whose pictures a model draws: "calibration", or "" where it is not known.

        With a ``revision`` (of a picture from elsewhere) only a model that has a name here, at the revision
        that it has here, is known.
        """
        if model.startswith(IMPORTED):
            return ""
        if not revision:
            return self.model_info(model).world
        worlds = {info.id: info.world for info in self.models()}
        return worlds[model] if worlds.get(model) and self.revision(model) == revision else ""

    def readers_here(self, role: Role) -> tuple[str, ...]:
        """Readers that have a name and are on this machine: nothing is downloaded for them."""
        return tuple(info.id for info in self.tools(role) if not self.reader_facts(role, info.id).download_gb)

    def fitting_readers(self, role: Role) -> tuple[str, ...]:
        """Readers of any pictures that this machine has room for, those that are here first."""
        return fitting_readers(self.tools(role))

    def default_reader(self, role: Role, world: str) -> str:
        """The reader of pictures of a world, or of any others (""), where none is named: one that suits this machine.

        Offline it is one that is here, if any is.
        """
        settings = self.settings
        return default_reader(self.tools(role), world, on_cpu=settings.device == "cpu", offline=settings.offline)

    def reader_facts(self, role: Role, name: str) -> ReaderFacts:
        """The version of a reader's weights, and its download; nothing is loaded."""
        info = self.catalogue.tool(role, name)
        revision = self._sources.reader_version(info) or (cached_commit(info.path) if info.path else "")
        download_gb = 0.0 if revision else info.download_gb
        world = self.reader_world(role, name)
        return ReaderFacts(
            role=role, id=info.id, name=info.name, revision=revision, download_gb=download_gb, world=world
        )

    def fetch_reader(self, role: Role, name: str) -> None:
        """Download what a reader lacks; ModelUnavailable where that cannot be had."""
        self.reading(getattr(self, role)(name)).fetch()

    def unknown_words(self, model: str, prompt: str) -> tuple[str, ...]:
        """Words of ``prompt`` that the calibration world does not know; empty for other models."""
        return unknown_words(prompt, self.model_info(model)) if self.pictures_world(model) else ()

    shown = staticmethod(shown_share)
    true_rate = staticmethod(true_rate)

    def tidy(self) -> Sequence[str]:
        """Bring the stores below their limits; ids of the pictures that went."""
        removed = make_room(self.settings.data_dir, int(self.settings.cache_gb * 1e9), self.images, self.manifests)
        if removed:
            self.embeddings.forget(removed)
            self.answers.forget(removed)
        return removed

    def close(self) -> None:
        """Let go of files and workers."""
        self.engine.close()
        self.embeddings.close()
        self.answers.close()
        label_copy = self.label_copy() if ("label_copy", "") in self._built else None
        if label_copy is not None:
            label_copy.close()
        if ("labels", "") in self._built:
            self.labels.close()
        self._hashes.close()
        self.uploads.close()

    def _reader(self, role: Role, name: str) -> Any:
        """The reader with the files that lie under its path now."""
        info = self.catalogue.tool(role, name)
        self._sources.check_size(info.id, info.path, info.download_gb)
        version = self._sources.reader_version(info)
        return self._built.get(role, info.id, lambda: self._build_reader(role, info, version), version=version)

    def _build_reader(self, role: Role, info: ToolInfo, version: str) -> Any:
        """A reader, or where a GPU is borrowed for each call, one that works there."""
        unchanged = partial(check_version, info.id, version, partial(self._sources.reader_version, info))
        where = {"device": self._device, "offline": self.settings.offline, "unchanged": unchanged}
        local = self._local_reader(role, info, f"{info.id}@{version}" if version else info.id, where)
        if not self.borrows_gpu or info.embedded or info.library == "endpoint":
            return local
        return ZeroGpuReader(info.id, partial(build_elsewhere, self.settings, role, info.id), local, info.download_gb)

    def _local_reader(self, role: Role, info: ToolInfo, name: str, where: dict[str, Any]) -> Any:
        """The reader for this role; readings are kept under ``name``, which has the version of local weights."""
        settings = self.settings
        if info.library == "endpoint" and role == "judge":
            url, model, key = settings.judge_url, settings.judge_model, settings.judge_key.get_secret_value()
            server = endpoints.Endpoint(
                url=url, model=model, key=key, settings="BIAS_JUDGE", named_by="BIAS_JUDGE_MODEL"
            )
            return endpoints.EndpointJudge(info.name, server, at_once=settings.remote_at_once)
        if info.library == "endpoint":
            url, model, key = settings.llm_url, settings.llm_model, settings.llm_key.get_secret_value()
            return endpoints.EndpointLanguageModel(info.name, endpoints.Endpoint(url=url, model=model, key=key))
        source = self._sources.find(info.path)
        if info.library == "gguf":
            path = Path(info.local) if info.local else language_models.package_gguf(info.path)
            return language_models.TransformersLanguageModel(info.id, str(path.parent), gguf_file=path.name, **where)
        if info.library == "open_clip":
            architecture, _, weights = info.path.partition("/") if info.path != info.local else ("", "", info.path)
            return encoders.OpenClipEncoder(name, architecture, weights, **where)
        if info.library == "classifier":
            labels = language_models.read_labels(info.labels)
            return language_models.ClassifierJudge(name, source, labels, **where)
        if role == "language_model":
            return language_models.TransformersLanguageModel(info.id, source, **where)
        kinds: dict[str, Any] = {
            "encoder": encoders.TransformersEncoder,
            "captioner": language_models.BlipCaptioner,
            "answerer": language_models.BlipAnswerer,
            "judge": language_models.TransformersJudge,
        }
        return kinds[role](name, source, **where)

    def _build_finder(self, name: str) -> PersonFinder:
        """That of the calibration world asks an encoder; others look at one picture at a time, on the CPU."""
        info = self.catalogue.tool("person_finder", name)
        if info.library == "calibration":
            return CalibrationPersonFinder(self.encoder(info.path))
        return encoders.TorchvisionPersonFinder(info.id, info.path, device=self._device, offline=self.settings.offline)

    def _hosted_model(self, name: str) -> hosted_images.HostedTextToImage:
        """A hosted model, asked with the token of the visitor of these services; built anew for each of them."""
        if name not in self._hosted:
            token = self._token.get_secret_value()
            self._hosted[name] = hosted_images.hosted_model(self.model_info(name), self.settings, token)
        return self._hosted[name]

    def _build_model(self, info: ModelInfo, version: str) -> TextToImage:
        if info.family == "renderer":
            return CalibrationRenderer()
        name, info = info.id, self._sources.pinned(info)
        settings, unchanged = self.settings, partial(check_version, name, version, partial(self.revision, name))
        how: dict[str, Any] = {"compiled": settings.compile_models, "forming": settings.forming, "unchanged": unchanged}
        where: dict[str, Any] = {
            "device": self._device,
            "offline": settings.offline,
            "loras": self._sources.loras(info),
        }
        model = DiffusersTextToImage(info, str(info.options["path"]), **where, **how)
        if not self.borrows_gpu or info.embedded:
            return model
        there = partial(build_elsewhere, self.settings, "text_to_image", name)
        return ZeroGpuTextToImage(name, there, model, info, partial(fetch_pipeline, info))


_services_of = lru_cache(maxsize=1)(Services)


def build_elsewhere(settings: Settings, role: str, name: str) -> object:
    """A model for a process that has a GPU for a while: weights are on this machine by now."""
    return getattr(_services_of(settings.model_copy(update={"device": "cuda", "offline": True})), role)(name)


def draw_with_ray(services: Services, workers: int = 0) -> None:
    """Let ``services`` draw with Ray: by so many workers, 0 for one per GPU (per machine without GPUs).

    InvalidInput says how to install Ray where it is not.
    """
    services.engine.close()
    services.engine = RayEngine(partial(worker_model, services.settings, cpu_threads()), workers=workers)


def worker_model(settings: Settings, threads: int, row: ImageRow) -> TextToImage:
    """The generator of a row in a process of its own, which draws as the first process would.

    It computes with as many ``threads``: with another number, single pixels would differ. ModelUnavailable is
    raised where this machine has other weights, or another version of the program.
    """
    cpu_threads(threads)
    services = Services(settings)
    if (here := services.revision(row.model)) != row.revision:
        raise ModelUnavailable(
            f"a worker has {row.model} at {here or 'no revision'}, and the run wants "
            f"{row.revision or 'no revision'}: all machines need the same weights and program"
        )
    return services.text_to_image(row.model)
