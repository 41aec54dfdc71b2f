"""The models and stores that a study is handed, each built on first use; ``bias_core.services`` adds the rest."""

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, cast

from pydantic import SecretStr

from bias_core.errors import ModelUnavailable
from bias_core.models import encoders, endpoints, hosted_images, language_models
from bias_core.models.catalogue import Catalogue, Role, ToolInfo, hosted_name, load_catalogue
from bias_core.models.diffusers_t2i import DiffusersTextToImage
from bias_core.models.engines import Engine, EngineProgress, LocalEngine, RateStore
from bias_core.models.family_facts import own_defaults
from bias_core.models.model_sources import (
    ModelFit,
    ModelSources,
    cached_commit,
    check_version,
    default_reader,
    fetch_pipeline,
    fitting_readers,
    get_machine,
    gpu_memory,
    hosted_fit,
    is_torch_for_cpu,
)
from bias_core.models.ray_engine import RayEngine
from bias_core.models.weights import ReadersTurn, cpu_threads
from bias_core.models.zero_gpu import ZeroGpuReader, ZeroGpuTextToImage, get_remaining_gpu_seconds, prepare
from bias_core.protocols import (
    Captioner,
    ImageTextEncoder,
    Judge,
    LanguageModel,
    PersonFinder,
    TextToImage,
    VisualQuestionAnswerer,
)
from bias_core.settings import Settings, on_zero_gpu
from bias_core.store.files import FileHashes, Repairs
from bias_core.store.images import ImageStore
from bias_core.store.manifests import ManifestStore, make_room
from bias_core.store.readings import AnswerCache, EmbeddingCache
from bias_core.types import IMPORTED, ImageRow, KnownPicture, ModelInfo, ReaderErrors, ReaderFacts
from bias_core.waiting import BuiltOnce, FairLock, StopSignal, never
from bias_core.world.measured_models import errors_of_sentences, held_out_embeddings, known_pictures, true_rate
from bias_core.world.models import CalibrationPersonFinder, CalibrationRenderer, shown_share, unknown_words


class StudyServices:
    """Models and stores by name; safe to use from several threads."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        data = self.settings.data_dir
        self.repairs = Repairs()  # notes on broken data that the stores made anew
        self.images = ImageStore(data / "images", self.repairs)
        self.embeddings = EmbeddingCache(data / "embeddings.sqlite", self.repairs)
        self.answers = AnswerCache(data / "answers.sqlite", self.repairs)
        self.manifests = ManifestStore(data / "runs")
        self._hashes = FileHashes(data / "file_hashes.sqlite", self.repairs)
        self._sources = ModelSources(self.settings, self._hashes)
        # Held while drawing or loading, one batch at a time; classifiers take :meth:`reading`.
        self.model_lock, self._reader_lock = FairLock(), FairLock()
        self.engine: Engine = LocalEngine(self.settings.device)  # engines that draw the rows of a manifest
        self.rates = RateStore(data / "rates.json")  # measured drawing times
        self.borrows_gpu = self.settings.device == "auto" and on_zero_gpu()
        self._device = "cpu" if self.borrows_gpu else self.settings.device
        if self.borrows_gpu:
            prepare()
        self._built = BuiltOnce()
        self._token = SecretStr("")  # a visitor's token for hosted models; see for_visitor
        self._hosted: dict[str, hosted_images.HostedTextToImage] = {}

    def for_visitor(self, token: str) -> Self:
        """Copy for one visitor, whose token pays for hosted models; the token is stored nowhere else.

        A token that begins with ``hf_`` goes only to Hugging Face, any other only to the server of BIAS_IMAGES_URL.
        """
        view = copy(self)
        vars(view).update(_token=SecretStr(token.strip()), _hosted={})
        return view

    def get_remaining_gpu_seconds(self) -> float | None:
        """GPU seconds that this visitor has left today; None if unknown."""
        may_ask = self.borrows_gpu and not self.settings.offline
        return get_remaining_gpu_seconds(self._token.get_secret_value()) if may_ask else None

    @cached_property
    def catalogue(self) -> Catalogue:
        """All named models and readers, with the language model and the judge of the settings."""
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
                note = f"{model}, on your own server ({named_by})"
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
        """The catalogue's entry; UnknownModel if there is none."""
        return self.catalogue.model(name)

    def model_fit(self, name: str) -> ModelFit:
        """Tell if a model fits this machine, without loading it; an unlisted one's size is asked of the hub, once."""
        info = self.model_info(name)
        if hosted := hosted_name(name):
            return hosted_fit(info, hosted, has_server=bool(self.settings.images_url))
        return self._sources.fit(info)

    def gpu_model(self) -> ModelInfo | None:
        """The named model to begin with on this machine's GPU; None without a GPU, or if none fits or can be had."""
        memory = 0 if is_torch_for_cpu() else gpu_memory(get_machine(), self.settings.device)
        fitting = [info for info in self.models() if info.default == "gpu" and info.memory_gb * 1e9 <= memory]
        fits = [(fit.is_local, info.memory_gb, info) for info in fitting if (fit := self.model_fit(info.id)).works]
        return max(fits, key=itemgetter(0, 1), default=(None,))[-1]

    def revision(self, name: str) -> str:
        """The current version of a model's weights: a hub revision, or a fingerprint of the files."""
        return self._hosted_model(name).version() if hosted_name(name) else self._sources.version(self.model_info(name))

    def reading_files(self, model: str) -> Iterator[tuple[int, int]]:
        """Hash the model's files if their version is unknown; yield (bytes read, bytes in all)."""
        files = () if hosted_name(model) else self._sources.files(self.model_info(model))
        return self._hashes.reading(*files)

    def text_to_image(self, name: str) -> TextToImage:
        """The generator of this name; its weights load with the first picture, and again after a change."""
        if hosted_name(name):
            return self._hosted_model(name)
        info = self.model_info(name)
        version = self._sources.version(info)
        return self._built.get("model", info.id, lambda: self._build_model(info, version), version=version)

    def draw(self, rows: Sequence[ImageRow], *, cancelled: StopSignal = never) -> Iterator[EngineProgress]:
        """Draw those ``rows`` of one model that are not stored; ModelUnavailable if its weights have changed."""
        if not rows:
            return iter((EngineProgress(done=0, total=0),))
        first = rows[0]
        check_version(first.model, first.revision, partial(self.revision, first.model))
        model, engine = self.text_to_image(first.model), self.find_engine(first.model)
        for _ in self.fetch_model(first.model, first.revision):
            pass
        events = engine.run(rows, model, self.images, lock=self.model_lock.turns, cancelled=cancelled)
        return self.rates.watch(events, rows[0], engine)

    def fetch_model(self, name: str, revision: str) -> Iterator[tuple[float, float]]:
        """Download a model's missing files; yield (gigabytes so far, in all), the second 0 if unknown."""
        if not (self.borrows_gpu or hosted_name(name)):
            yield from self._sources.fetch(self.model_info(name), revision, self._device)

    def find_engine(self, model: str) -> Engine:
        """The engine for this model: this process's, or requests for a hosted model."""
        return hosted_images.RequestsEngine(self.settings.remote_at_once) if hosted_name(model) else self.engine

    def reading(self, *readers: object) -> ReadersTurn:
        """A lock to hold while these readers run, batch by batch; it can be entered repeatedly."""
        return ReadersTurn(readers, self._reader_lock, self.model_lock, downloads=self._built)

    def encoder(self, name: str) -> ImageTextEncoder:
        """The encoder of this name; its weights load with the first input, and again after a change."""
        return cast("ImageTextEncoder", self._reader("encoder", name))

    def captioner(self, name: str) -> Captioner:
        """The captioner of this name; loads likewise."""
        return cast("Captioner", self._reader("captioner", name))

    def answerer(self, name: str) -> VisualQuestionAnswerer:
        """The question answerer of this name; loads likewise."""
        return cast("VisualQuestionAnswerer", self._reader("answerer", name))

    def judge(self, name: str) -> Judge:
        """The judge of this name; loads likewise."""
        return cast("Judge", self._reader("judge", name))

    def language_model(self, name: str) -> LanguageModel:
        """The language model of this name; loads likewise."""
        return cast("LanguageModel", self._reader("language_model", name))

    def person_finder(self, name: str) -> PersonFinder:
        """The person finder of this name; its weights load with the first picture."""
        return self._built.get("person_finder", name, partial(self._build_finder, name))

    def reader_errors(
        self, encoder: str, model: str, sentences: Sequence[tuple[str, str]]
    ) -> tuple[ReaderErrors | None, ...]:
        """The encoder's error rates on each (positive, negative) pair of sentences.

        Known for encoders that ship embeddings of held-out renders, for pictures and words of that world.
        """
        if not sentences or (path := self._held_out(encoder, model)) is None:
            return (None,) * len(sentences)
        held_out = self._built.get("held out", encoder, lambda: held_out_embeddings(path))
        reader, texts = self.encoder(encoder), [text for pair in sentences for text in pair]
        return errors_of_sentences(
            *held_out, self.embeddings.texts(reader, texts, lock=self.reading(reader)), sentences
        )

    def _held_out(self, encoder: str, model: str) -> Path | None:
        """The encoder's file of held-out embeddings; None for pictures of another world."""
        world = self.reader_world("encoder", encoder)
        path = Path(self._sources.find(self.catalogue.tool("encoder", encoder).path)) / "held_out.npz"
        return path if world and world == self.pictures_world(model) and path.is_file() else None

    def known_pictures(self, model: str, positive: str, negative: str) -> tuple[KnownPicture, ...]:
        """Pictures of the model's world with known truth, equally many for either sentence."""
        return known_pictures(self.model_info(model).width, positive, negative) if self.pictures_world(model) else ()

    def reader_world(self, role: Role, name: str) -> str:
        """The only world whose pictures a reader can read, "calibration", or "" for any; by name or weights."""
        if role == "judge":  # reads any picture
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
        """The world that a model draws, "calibration", or "" if unknown.

        With a ``revision`` (of an imported picture), only a named model at the revision
        that it has here is known.
        """
        if model.startswith(IMPORTED):
            return ""
        if not revision:
            return self.model_info(model).world
        worlds = {info.id: info.world for info in self.models()}
        return worlds[model] if worlds.get(model) and self.revision(model) == revision else ""

    def installed_readers(self, role: Role) -> tuple[str, ...]:
        """Named readers on this machine, which need no download."""
        return tuple(info.id for info in self.tools(role) if not self.reader_facts(role, info.id).download_gb)

    def fitting_readers(self, role: Role) -> tuple[str, ...]:
        """Readers for any pictures that fit this machine, local ones first."""
        return fitting_readers(self.tools(role))

    def default_reader(self, role: Role, world: str) -> str:
        """The default reader for pictures of a world ("" for any others) on this machine; offline, a local one."""
        settings = self.settings
        return default_reader(self.tools(role), world, on_cpu=settings.device == "cpu", offline=settings.offline)

    def reader_facts(self, role: Role, name: str) -> ReaderFacts:
        """The version of a reader's weights, and its download; nothing is loaded."""
        info = self.catalogue.tool(role, name)
        revision = self._sources.reader_version(info) or (cached_commit(info.path) if info.path else "")
        if info.library == "endpoint":  # two servers may give their models the same name; the address stays private
            url = self.settings.judge_url if role == "judge" else self.settings.llm_url
            revision = f"server {hashlib.sha256(url.encode()).hexdigest()[:8]}"
        download_gb = 0.0 if revision else info.download_gb
        world = self.reader_world(role, name)
        return ReaderFacts(
            role=role, id=info.id, name=info.name, revision=revision, download_gb=download_gb, world=world
        )

    def fetch_reader(self, role: Role, name: str) -> None:
        """Download a reader's missing files; ModelUnavailable if that fails."""
        if not self.catalogue.tool(role, name).embedded:
            self.reading(getattr(self, role)(name)).fetch()

    def unknown_words(self, model: str, prompt: str) -> tuple[str, ...]:
        """Words of ``prompt`` unknown to the calibration world; empty for other models."""
        return unknown_words(prompt, self.model_info(model)) if self.pictures_world(model) else ()

    share_shown = staticmethod(shown_share)
    true_rate = staticmethod(true_rate)

    def answered_tasks(self, task_ids: Sequence[str]) -> set[str]:
        """The labelling tasks with answers that count; none without a store of answers."""
        return set()

    def tidy(self) -> Sequence[str]:
        """Bring the stores below their limits; return the ids of deleted pictures."""
        removed = make_room(self.settings.data_dir, int(self.settings.cache_gb * 1e9), self.images, self.manifests)
        if removed:
            self.embeddings.forget(removed)
            self.answers.forget(removed)
        return removed

    def close(self) -> None:
        """Close files and workers."""
        self.engine.close()
        self.embeddings.close()
        self.answers.close()
        self._hashes.close()

    def _reader(self, role: Role, name: str) -> Any:
        """The reader for the current files of its path."""
        info = self.catalogue.tool(role, name)
        self._sources.check_size(info.id, info.path, info.download_gb)
        version = self._sources.reader_version(info)
        return self._built.get(role, info.id, lambda: self._build_reader(role, info, version), version=version)

    def _build_reader(self, role: Role, info: ToolInfo, version: str) -> Any:
        """Build a reader; on ZeroGPU, one that runs on the borrowed GPU."""
        unchanged = partial(check_version, info.id, version, partial(self._sources.reader_version, info))
        where = {"device": self._device, "offline": self.settings.offline, "unchanged": unchanged}
        local = self._local_reader(role, info, f"{info.id}@{version}" if version else info.id, where)
        if not self.borrows_gpu or info.embedded or info.library == "endpoint":
            return local
        return ZeroGpuReader(info.id, partial(build_elsewhere, self.settings, role, info.id), local, info.download_gb)

    def _local_reader(self, role: Role, info: ToolInfo, name: str, where: dict[str, Any]) -> Any:
        """Build the reader for this role; ``name`` is its cache key, with the version of local weights."""
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
        """Build a person finder; all but the calibration world's take one picture at a time, on the CPU."""
        info = self.catalogue.tool("person_finder", name)
        if info.library == "calibration":
            return CalibrationPersonFinder(self.encoder(info.path))
        return encoders.TorchvisionPersonFinder(info.id, info.path, device=self._device, offline=self.settings.offline)

    def _hosted_model(self, name: str) -> hosted_images.HostedTextToImage:
        """Build a hosted model with this visitor's token."""
        if name not in self._hosted:
            token = self._token.get_secret_value()
            self._hosted[name] = hosted_images.hosted_model(self.model_info(name), self.settings, token)
        return self._hosted[name]

    def _build_model(self, info: ModelInfo, version: str) -> TextToImage:
        if info.family == "renderer":
            return CalibrationRenderer()
        name, info = info.id, self._sources.pinned(info)
        settings, unchanged = self.settings, partial(check_version, name, version, partial(self.revision, name))
        drawing_options: dict[str, Any] = {
            "compiled": settings.compile_models,
            "forming": settings.forming,
            "unchanged": unchanged,
        }
        loading_options: dict[str, Any] = {
            "device": self._device,
            "offline": settings.offline,
            "loras": self._sources.loras(info),
        }
        model = DiffusersTextToImage(info, str(info.options["path"]), **loading_options, **drawing_options)
        if not self.borrows_gpu or info.embedded:
            return model
        build_remote = partial(build_elsewhere, self.settings, "text_to_image", name)
        return ZeroGpuTextToImage(name, build_remote, model, info, partial(fetch_pipeline, info))


_services_of = lru_cache(maxsize=1)(StudyServices)


def build_elsewhere(settings: Settings, role: str, name: str) -> object:
    """Build a model in a process with a borrowed GPU; its weights are already on this machine."""
    return getattr(_services_of(settings.model_copy(update={"device": "cuda", "offline": True})), role)(name)


def draw_with_ray(services: StudyServices, workers: int = 0) -> None:
    """Let ``services`` draw with Ray; 0 ``workers``: one per GPU, or per machine. InvalidInput if Ray is missing."""
    services.engine.close()
    services.engine = RayEngine(partial(worker_model, services.settings, cpu_threads()), workers=workers)


def worker_model(settings: Settings, threads: int, row: ImageRow) -> TextToImage:
    """The generator of a row in a worker process, which draws the same pictures as the first process.

    It uses the same number of ``threads``, because others would change single pixels. ModelUnavailable is
    raised if this machine has other weights, or another version of the program.
    """
    cpu_threads(threads)
    services = StudyServices(settings)
    if (local_revision := services.revision(row.model)) != row.revision:
        raise ModelUnavailable(
            f"a worker has {row.model} at {local_revision or 'no revision'}, and the run wants "
            f"{row.revision or 'no revision'}: all machines need the same weights and program"
        )
    return services.text_to_image(row.model)
