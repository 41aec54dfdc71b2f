"""The explorer as a pack of inspect_ai: generators as a model provider, readers as scorers, and a task of both.

``inspect eval bias_core/perceived_attribute --model t2i/calibration-renderer -T concept=nurse``. Of any other
provider whose models answer with a picture the scorer reads that picture.
"""

import base64
import io
from functools import cache, partial
from typing import Any

from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.studies.explore.options import SUGGESTED, cells_of, explore_settings, prompts_of
from bias_core.studies.kit.attributes import find_attribute, load_attribute_sets
from bias_core.studies.kit.designs import pack_design
from bias_core.studies.kit.judging import question_about
from bias_core.studies.kit.readers import Reader, check_readers
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.types import AUTO, Shot, StudySettings
from bias_core.types import Attribute, ReaderErrors, StoredImage

try:
    from anyio import to_thread
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        ChatMessage,
        ContentImage,
        ContentText,
        GenerateConfig,
        ModelAPI,
        ModelOutput,
        get_model,
        modelapi,
    )
    from inspect_ai.scorer import Score, Scorer, Target, ci_wilson, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver
    from inspect_ai.tool import ToolChoice, ToolInfo
except ImportError as error:
    raise ImportError("tasks for inspect_ai need it: pip install inspect_ai") from error

_DATA = "data:image/png;base64,"
_DRAWN = "drawn"  # the key of a model's answer with what drew it
# Where the program is installed, and not run from its sources, inspect_ai puts the package's name there by itself.
_NAME = "perceived_attribute" if "site-packages" in __file__ else "bias_core/perceived_attribute"
_SEEDS_APART = 1_000_000  # of two epochs


@cache
def services() -> Services:
    """Those of this process."""
    return Services()


@modelapi(name="t2i")
class TextToImageProvider(ModelAPI):
    """A text-to-image model of the explorer, by any of its names: ``t2i/calibration-diffusion``, ``t2i/org/name``.

    Model arguments are settings of a run, such as ``-M condition=fair -M guidance_scale=2``; the seed is that of the
    generation's configuration. It draws the last thing that the user said.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 (as every provider has it)
        **model_args: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        info = services().model_info(model_name)
        condition = "published" if "published" in info.conditions else ""
        self._settings = StudySettings(**{"model": model_name, "condition": condition, **model_args})

    def max_connections(self) -> int:
        """One picture at a time: a model of this machine draws no quicker for being asked twice."""
        return 1

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002 (as every provider has it)
        tools: list[ToolInfo],  # noqa: ARG002
        tool_choice: ToolChoice,  # noqa: ARG002
        config: GenerateConfig,
    ) -> ModelOutput:
        """One picture, and in the answer's metadata what drew it; none where the model refuses."""
        prompt = next((one.text for one in reversed(input) if one.role == "user"), "").strip()
        if not prompt:
            raise InvalidInput("there is no prompt to draw: the last message of the user is empty")
        stored = await to_thread.run_sync(partial(self._draw, prompt, config.seed or 0))
        row = stored.row
        facts = {"model": row.model, "revision": row.revision, "condition": row.condition, "seed": row.seed}
        content = [ContentText(text=prompt), *([] if stored.blocked else [_content(stored)])]
        stop = "content_filter" if stored.blocked else "stop"
        output = ModelOutput.from_content(self.model_name, content, stop_reason=stop)
        output.metadata = {_DRAWN: facts}
        return output

    def _draw(self, prompt: str, seed: int) -> StoredImage:
        shot = Shot(prompt=prompt, n=1, group="inspect", first_seed=seed)
        rows = RowMaker.build(self._settings, services()).of(shot)
        events = list(services().draw(rows))
        return next(image for event in events for image in event.images)


def _content(stored: StoredImage) -> ContentImage:
    return ContentImage(image=_DATA + base64.b64encode(stored.path.read_bytes()).decode())


@solver
def draw_picture() -> Solver:
    """Ask the model for a picture of the prompt, on the seed of the sample."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        config = GenerateConfig(seed=int(state.metadata.get("seed", 0)) + _SEEDS_APART * (state.epoch - 1))
        state.output = await get_model().generate(state.messages, config=config)
        state.messages.append(state.output.message)
        return state

    return solve


@scorer(metrics=[mean(), stderr(), ci_wilson()])
def perceived(attribute: str = "man", concept: str = "", encoder: str = AUTO, judge: str = "") -> Scorer:
    """1 where the reader perceives the attribute in the picture, 0 where it does not; unscored without a picture.

    The mean is the share P, "lower" and "upper" are the ends of its Wilson interval. The score's metadata say who read,
    and how often that reader errs, where it is known.

    Parameters
    ----------
    attribute : a built-in one, or ``name|positive sentence|negative sentence``.
    concept : whose set of attributes the name is looked up in first.
    encoder, judge : who reads; "auto" for whoever suits the pictures, a judge in place of the encoder where one is
        named.
    """
    looked_for = find_attribute(attribute, concept, load_attribute_sets())

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        picture = _picture(state)
        if picture is None:
            return Score.unscored(reason="no picture", explanation="The model gave no picture, so nothing was read.")
        drawn = (state.output.metadata or {}).get(_DRAWN, {})
        return await to_thread.run_sync(partial(_read, picture, looked_for, drawn, encoder, judge))

    return score


def _picture(state: TaskState) -> Image.Image | None:
    """The last picture of the model's answer; None without one."""
    content = state.output.message.content if state.output.choices else []
    images = [one.image for one in content if isinstance(one, ContentImage)] if isinstance(content, list) else []
    if not images:
        return None
    head, _, data = images[-1].partition(";base64,")
    if not head.startswith("data:image/"):
        raise InvalidInput("the picture is an address; only pictures that come with the answer are read")
    with Image.open(io.BytesIO(base64.b64decode(data))) as opened:
        return opened.convert("RGB")


def _read(picture: Image.Image, attribute: Attribute, drawn: dict[str, Any], encoder: str, judge: str) -> Score:
    """What the judge, or else the encoder, says of the picture."""
    model = str(drawn.get("model", ""))
    world = services().pictures_world(model, str(drawn.get("revision", ""))) if model else ""
    if judge:
        check_readers(
            [Reader(role="judge", name=judge)], services(), source=model or "this model", world=world, force=False
        )
        with services().reading(reader := services().judge(judge)):
            yes, no, cannot_tell = reader.judge([picture], [question_about(attribute.positive)])[0]
        if cannot_tell > max(yes, no):
            return Score.unscored(reason="cannot tell", explanation=f"{reader.name} cannot tell.")
        return _score(attribute, float(yes), float(no), reader.name, None)
    name = services().default_reader("encoder", world) if encoder == AUTO else encoder
    check_readers(
        [Reader(role="encoder", name=name)], services(), source=model or "this model", world=world, force=False
    )
    with services().reading(encoding := services().encoder(name)):
        (row,) = encoding.encode_images([picture])
        texts = encoding.encode_texts([attribute.positive, attribute.negative])
    (errors,) = services().reader_errors(name, model, [(attribute.positive, attribute.negative)])
    return _score(attribute, float(texts[0] @ row), float(texts[1] @ row), encoding.name, errors)


def _check_reader(reader: Reader, model: str, world: str) -> None:
    """InvalidInput where it cannot read the pictures of this world."""
    check_readers([reader], services(), source=model or "this model", world=world, force=False)


def _score(attribute: Attribute, present: float, absent: float, reader: str, errors: ReaderErrors | None) -> Score:
    rates = {"sensitivity": errors.sensitivity, "specificity": errors.specificity} if errors else "not known"
    sentences = f"“{attribute.positive}” {present:.3f}, “{attribute.negative}” {absent:.3f}"
    return Score(
        value=int(present > absent),
        answer=attribute.name if present > absent else f"not {attribute.name}",
        explanation=f"{reader}: {sentences}",
        metadata={"reader": reader, "reader_errors": rates, "reference": attribute.reference},
    )


@task(name=_NAME)
def perceived_attribute(
    concept: str = "doctor",
    attribute: str = "man",
    n: int = 16,
    template: str = "a photo of a {}",
    prompts: str = "",
    seed: int = 0,
    encoder: str = AUTO,
    judge: str = "",
) -> Task:
    """How often a text-to-image model shows an attribute in pictures of a concept, or of prompts from a file.

    Parameters
    ----------
    concept, template : what is drawn.
    attribute, encoder, judge : as of :func:`perceived`.
    n : pictures of the concept, or of each prompt whose row names no number.
    prompts : a prompt pack in place of the concept: a CSV or JSONL, or ``hf://datasets/owner/name``.
    seed : of the first picture of each prompt; each further one has the next.
    """
    samples = _of_pack(prompts, n, seed) if prompts else _of_concept(concept, template, n, seed)
    return Task(
        dataset=MemoryDataset(samples, name=prompts or concept),
        solver=draw_picture(),
        scorer=perceived(attribute, "" if prompts else concept, encoder, judge),
    )


def _of_concept(concept: str, template: str, n: int, seed: int) -> list[Sample]:
    settings = explore_settings(concept=concept, template=template, n_images=n, attributes=(SUGGESTED,))
    return _samples(settings.options.prompts()["concept"], concept, n, seed)


def _of_pack(name: str, n: int, seed: int) -> list[Sample]:
    packed = prompts_of(pack_design(name))
    return [
        sample
        for one, cell in zip(packed, cells_of(packed), strict=True)
        for sample in _samples(one.prompt, cell, one.n or n, seed)
    ]


def _samples(prompt: str, group: str, n: int, seed: int) -> list[Sample]:
    seeds = range(seed, seed + n)
    return [Sample(input=prompt, id=f"{prompt} {one}", metadata={"seed": one, "group": group}) for one in seeds]
