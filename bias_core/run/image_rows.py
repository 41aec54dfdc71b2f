"""Turns a study's shots into manifest rows, for a model or for imported pictures, which are matched by prompt.

If the settings ask for it, the model that draws or a language model rewrites prompts first.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bias_core.errors import HubNotReached, InvalidInput, ModelUnavailable, UnknownModel, quoted
from bias_core.models.catalogue import check_condition, hosted_name
from bias_core.models.engines import EngineProgress, run_rows
from bias_core.prompts import SLOT, WORD_SLOT, fill_template, replace_word
from bias_core.protocols import ChangesSampler, ChecksSettings, Hosted, ReadsPrompts, RewritesPrompts, TextToImage
from bias_core.store.drawing_facts import PictureMetadata
from bias_core.store.found_pictures import ONE_FOR_ALL, key
from bias_core.store.imports import ImportedImages
from bias_core.study.classifiers import cut_texts
from bias_core.study.types import FAIR, OFF, OWN, Shot, StudySettings
from bias_core.study_services import StudyServices
from bias_core.types import ImageRow, ModelInfo, PromptLimit, Sampler
from bias_core.values import check_texts
from bias_core.wording import format_counts, format_list, typeset

FAIR_INSTRUCTION = (
    "You rewrite prompts for a model that draws pictures. Keep the subject, what it does and where it is exactly as "
    "they are. Where the prompt shows people and says nothing of their gender, skin tone, age or body, add in a few "
    "words that they may be of any, without choosing one for them. Add nothing else: no style, no mood, no objects."
)
"""Instruction of :data:`FAIR` to a language model; it is part of cached answers."""
_ENDPOINT = "endpoint"  # the language model of the settings of this machine
_ANSWER = "Answer with the new prompt alone, in one line."
_CALLED = re.compile(r"^(?:the |my )?(?:new |rewritten |revised )?prompt\s*:\s*", re.IGNORECASE)
_MOST_TOKENS, _LONGEST = 300, 2_000
_NEVER_CUT = 40  # bytes of a text that every text encoder reads
_TO_TAKE = (
    "take endpoint (set BIAS_LLM_URL and BIAS_LLM_MODEL), smollm2, or a model of the hub that follows instructions, as "
    "org/name (--rewriter)"
)


class Rewriting:
    """Rewrites every prompt once; the result is stored with the answers, and the next run reuses it.

    To ``estimate``, no language model is asked: new prompts stay as they are.
    """

    def __init__(self, instruction: str, name: str, services: StudyServices, *, estimate: bool = False) -> None:
        self.instruction, self.name = instruction, name
        self._services, self._estimate = services, estimate
        facts = services.reader_facts("language_model", name)
        self._key = " ".join(filter(None, (name, facts.name, facts.revision)))
        self._prompts: dict[str, str] = {}

    def rewrite_prompt(self, prompt: str) -> str:
        """Return the rewritten prompt; ModelUnavailable if the result cannot be used."""
        if prompt not in self._prompts:
            question = ("", f"{self.instruction}\n{prompt}")
            answers = self._services.answers.find(self._key, [question])
            if question not in answers and self._estimate:
                return prompt
            if question not in answers:
                answers = {question: self._rewritten(prompt)}
                self._services.answers.keep(self._key, answers)
            self._prompts[prompt] = answers[question]
        return self._prompts[prompt]

    def _rewritten(self, prompt: str) -> str:
        model = self._services.language_model(self.name)
        with self._services.reading(model):
            answer = model.complete(f"{self.instruction}\n{_ANSWER}\n\nPrompt: {prompt}", _MOST_TOKENS)
        text = _CALLED.sub("", " ".join(answer.split())).strip(" \"'“”`*")
        if not text or len(text) > _LONGEST:
            raise ModelUnavailable(
                f"{self.name} made {quoted(answer)} of the prompt {quoted(prompt)}, which is not a prompt; choose "
                "another rewriter or another instruction"
            )
        check_texts("a rewritten prompt", text)
        return text


def build_rewriting(settings: StudySettings, services: StudyServices, *, estimate: bool = False) -> Rewriting | None:
    """Return the rewriting by a language model for a run of one arm; None if there is none.

    UnknownModel for an unknown language model; InvalidInput if none is named, or it cannot follow instructions.
    """
    if settings.rewrite in ("", OFF, OWN):
        return None
    name = settings.rewriter or _ENDPOINT
    try:
        world = services.reader_world("language_model", name)
        if not world:
            instruction = FAIR_INSTRUCTION if settings.rewrite == FAIR else settings.rewrite
            return Rewriting(instruction, name, services, estimate=estimate)
    except UnknownModel:
        if settings.rewriter:
            raise
        raise InvalidInput(f"a language model must rewrite the prompts: {_TO_TAKE}") from None
    raise InvalidInput(f"{name} follows no instructions, so it cannot rewrite prompts; {_TO_TAKE}")


def check_own_rewriting(settings: StudySettings, generator: TextToImage | None) -> str:
    """Return the ``rewrite`` of a row: :data:`OWN` if the model that draws rewrites the prompt, else "".

    InvalidInput if the model cannot.
    """
    if settings.rewrite != OWN:
        return ""
    if generator is not None and not isinstance(generator, RewritesPrompts):
        raise InvalidInput(
            f"{settings.model} cannot rewrite prompts itself (rewrite={OWN}); use {FAIR} or your own instruction, "
            "which a language model follows"
        )
    if generator is not None:
        generator.check_rewriting()
    return OWN


def _rewriting_note(settings: StudySettings) -> list[str]:
    """Return a note on the model that rewrote the prompts, and its instruction."""
    if settings.rewrite in ("", OFF):
        return []
    if settings.rewrite == OWN:
        return [f"{settings.model} rewrote every prompt itself before drawing."]
    words = FAIR_INSTRUCTION if settings.rewrite == FAIR else settings.rewrite
    return [f"{settings.rewriter or _ENDPOINT} rewrote every prompt once before drawing. Instruction: “{words}”"]


T = TypeVar("T")
SEE_PICTURES = "(`pictures` names them)"
"""Ends the note that says how many files count."""
_SAMPLING = frozenset({"num_inference_steps", "guidance_scale", "negative_prompt"})
_LEAST_SIDE, _MOST_SIDE, _SIDE_OF = 64, 4096, 8  # pixels; sides are multiples of the last


@dataclass(frozen=True, kw_only=True)
class RowMaker:
    """Rows of one model under one set of settings."""

    info: ModelInfo
    condition: str
    revision: str
    seed: int
    num_inference_steps: int
    guidance_scale: float
    negative_prompt: str = ""
    template: str = ""
    rewrite: str = ""  # value of the rows
    rewriting: Rewriting | None = None  # by a language model
    sampler: Sampler = ""
    ignored: tuple[str, ...] = ()  # a sentence on each requested size or sampler that is not used
    has_seeds: bool = True  # True if the k-th picture of a shot has the same seed in every arm

    @classmethod
    def build(cls, settings: StudySettings, services: StudyServices, *, estimate: bool = False) -> "RowMaker":
        """Look the model up; UnknownModel or InvalidInput if that fails. To ``estimate``, an unknown revision is ""."""
        generator = _find_generator(services, settings.model)
        info = _find_drawn_info(services, settings, generator)
        condition = check_condition(info, settings.condition)
        try:
            revision = services.revision(settings.model)
        except HubNotReached:
            if not estimate:
                raise
            revision = ""
        hosted = hosted_name(info.id)
        # Settings without effect are 0: the renderer has no sampler, and some services do not take them.
        none = _SAMPLING if info.family == "renderer" else hosted.unsent if hosted else frozenset[str]()
        steps, guidance = settings.num_inference_steps, settings.guidance_scale
        steps = 0 if "num_inference_steps" in none else info.default_steps if steps is None else steps
        guidance = 0.0 if "guidance_scale" in none else info.default_guidance if guidance is None else guidance
        return cls(
            info=info,
            condition=condition,
            revision=revision,
            seed=settings.seed,
            num_inference_steps=steps,
            guidance_scale=float(guidance),
            negative_prompt="" if "negative_prompt" in none else settings.negative_prompt,
            template=treatment(settings),
            rewrite=check_own_rewriting(settings, generator),
            rewriting=build_rewriting(settings, services, estimate=estimate),
            sampler=_sampler(settings, info, generator),
            ignored=_ignored(settings, info),
            has_seeds=generator.has_seeds if isinstance(generator, Hosted) else hosted is None,
        )

    def get_prompt(self, shot: Shot) -> str:
        """Return the prompt of a shot in the template of this arm, before rewriting."""
        return treated(shot.prompt, self.template)

    def make_rows(self, shot: Shot) -> list[ImageRow]:
        """Return one row per picture of the shot."""
        prompt = self.get_prompt(shot)
        later = treated(shot.later_prompt, self.template) if shot.later_prompt else ""
        condition = check_condition(self.info, shot.condition) if shot.condition else self.condition
        texts = check_condition(self.info, shot.text_condition) if shot.text_condition else condition
        first = ImageRow(
            prompt=self.rewriting.rewrite_prompt(prompt) if self.rewriting else prompt,
            later_prompt=self.rewriting.rewrite_prompt(later) if self.rewriting and later else later,
            n_first_steps=max(1, int(shot.first_steps * self.num_inference_steps)) if later else 0,
            text_condition="" if texts == condition else texts,
            rewrite=self.rewrite,
            group=shot.group,
            seed=self.seed,
            model=self.info.id,
            revision=self.revision,
            condition=condition,
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            negative_prompt=self.negative_prompt,
            width=self.info.width,
            height=self.info.height,
            sampler=self.sampler,
        )
        return [replace(first, seed=self.seed + shot.first_seed + k) for k in range(shot.n)]

    def choose_unit_naming(self, shots: Sequence[Shot]) -> "UnitOf":
        """Return the naming by number, and without common seeds also by id."""
        return name_by_number if self.has_seeds else name_by_id

    def world(self, shots: Sequence[Shot], services: StudyServices) -> str:
        """Return the model's world."""
        return self.info.world

    def model(self, services: StudyServices) -> TextToImage:
        """Return the generator."""
        return services.text_to_image(self.info.id)

    def draw(
        self, rows: Sequence[ImageRow], services: StudyServices, *, cancelled: Callable[[], bool]
    ) -> Iterator[EngineProgress]:
        """Draw with the engine of this process."""
        return services.draw(rows, cancelled=cancelled)

    def notes_before_drawing(
        self, rows: Sequence[ImageRow], settings: StudySettings, services: StudyServices
    ) -> list[str]:
        """Return notes on rewriting, on settings and words without effect, and on prompts that are cut off."""
        notes = [*_rewriting_note(settings), *self.ignored, *_words_without_effect(rows)]
        return [*notes, *before_drawing(services, rows)]

    def notes(self, shots: Sequence[Shot]) -> list[str]:
        """Return no notes: the request is drawn as it is."""
        return []


@dataclass(frozen=True, kw_only=True)
class ImportedRows:
    """Rows of a folder or zip of pictures: shots are matched to them by prompt, and nothing is drawn."""

    source: ImportedImages
    revision: str = ""  # each picture has its own
    check: Callable[[], None] = lambda: None
    template: str = ""

    @classmethod
    def build(
        cls, settings: StudySettings, check: Callable[[], None] = lambda: None, template: str = "", prompt: str = ""
    ) -> "ImportedRows":
        """Scan a folder or zip (or InvalidInput), calling ``check``; prompts are in ``template``.

        If no picture has a prompt, all are taken as ``prompt``, unless that is "".
        """
        source = ImportedImages(
            Path(settings.images),
            prompts_from=settings.prompts_from,
            copies=settings.copies,
            drawn_with=settings.drawn_with,
            assumed_prompt=treated(prompt, template) if prompt else "",
        )
        return cls(source=source, check=check, template=template)

    def get_prompt(self, shot: Shot) -> str:
        """Return the prompt that the pictures of a shot have."""
        return treated(shot.prompt, self.template)

    def examine(self) -> None:
        """Read all pictures, so that only usable ones count; InvalidInput if there are none."""
        self.source.examine(self.check)

    def n_found(self, shots: Sequence[Shot]) -> int:
        """Return the number of pictures that these shots would use, without opening any."""
        return sum(min(shot.n, self.source.count_files(self.get_prompt(shot))) for shot in shots)

    def choose_unit_naming(self, shots: Sequence[Shot]) -> "UnitOf":
        """Return the naming by seed if every picture of a shot has its own, else by id."""
        seeds = [[self.source.get_picture(row.id).drawing.seed for row in self.make_rows(shot)] for shot in shots]
        if any(None in shot_seeds or len(set(shot_seeds)) < len(shot_seeds) for shot_seeds in seeds):
            return name_by_id
        # Arms with different seeds share no unit: a comparison of common seeds would leave pictures out.
        together = hashlib.sha256(
            json.dumps([sorted(map(str, shot_seeds)) for shot_seeds in seeds]).encode()
        ).hexdigest()[:12]
        return lambda _number, row: f"seed {row.seed}:{together}"

    def world(self, shots: Sequence[Shot], services: StudyServices) -> str:
        """Return the world of the models that the pictures record, if all agree and are known here; else ""."""
        records = {self.source.get_picture(row.id).record for shot in shots for row in self.make_rows(shot)}
        worlds = {services.pictures_world(*record) if all(record) else "" for record in records}
        return worlds.pop() if len(worlds) == 1 else ""

    def make_rows(self, shot: Shot) -> list[ImageRow]:
        """Return rows of the first pictures of the shot's prompt, as many as there are."""
        self.check()
        return [replace(row, group=shot.group) for row in self.source.rows(self.get_prompt(shot), shot.n)]

    def shots(self, scale: float, seed: int) -> list[Shot]:
        """Return shots of all pictures, for a study without shots of its own."""
        prompts = thinned(list(self.source.counts.items()), scale, minimum=2, seed=seed)
        return [Shot(prompt=prompt, n=n, group="imported") for prompt, n in prompts]

    def model(self, services: StudyServices) -> TextToImage:
        """Return the source of the pictures."""
        return self.source

    def draw(
        self, rows: Sequence[ImageRow], services: StudyServices, *, cancelled: Callable[[], bool]
    ) -> Iterator[EngineProgress]:
        """Copy the pictures in this process, because other machines do not have these files."""
        return run_rows(rows, self.source, services.images, lock=services.model_lock, cancelled=cancelled)

    def notes_before_drawing(
        self, rows: Sequence[ImageRow], settings: StudySettings, services: StudyServices
    ) -> list[str]:
        """Return no notes: nothing is drawn."""
        return []

    def notes(self, shots: Sequence[Shot]) -> list[str]:
        """Return notes on pictures that are missing, left over, or unreadable."""
        n_by_prompt: dict[str, int] = {}
        for shot in shots:
            prompt = key(self.get_prompt(shot))
            n_by_prompt[prompt] = max(shot.n, n_by_prompt.get(prompt, 0))
        short = {shot.prompt: (n, shot.n) for shot in shots if (n := len(self.make_rows(shot))) < shot.n}
        spare = {p: left for p, n in self.source.counts.items() if (left := n - n_by_prompt.get(key(p), 0)) > 0}
        parts = (
            (f"pictures of this study are missing, because {self.source.name} has fewer than it asks for",
             sum(asked - n for n, asked in short.values()),
             [f"{n:,} of {asked:,} of “{prompt}”" for prompt, (n, asked) in short.items()]),
            ("pictures are more than this study asks for", sum(spare.values()), [*spare]),
        )  # fmt: skip
        notes = [f"{n:,} {remark}: {format_list(examples, '; ')}." for remark, n, examples in parts if n]
        notes += [f"{self.source.name}: {len(lines):,} {remark}: {format_list(lines, '; ')}."
                  for remark, lines in self.source.remarks()]  # fmt: skip
        rows = [row for shot in shots for row in self.make_rows(shot)]
        return [
            *self._prompts_in_words(rows),
            *self._ways_in_words(rows),
            *notes,
            *self._files_in_words(rows),
            *drawn_elsewhere([self.source.get_picture(row.id).drawing for row in rows]),
        ]

    def _files_in_words(self, rows: Sequence[ImageRow]) -> list[str]:
        """Say how many files count, if some do not, or if several ways of drawing count together."""
        n_files, n_left_out = len(self.source.names), len(self.source.left_out)
        n_ways = len({self.source.get_picture(row.id).way for row in rows})
        n_counted = len({row.id for row in rows})
        n_others = n_files - n_left_out - n_counted
        parts = [
            f"{n_left_out:,} left out" * (n_left_out > 0),
            f"{n_others:,} of other prompts or more than asked for" * (n_others > 0),
            f"{n_ways:,} ways of drawing together" * (n_ways > 1),
        ]
        if not any(parts):
            return []
        said = ", ".join(filter(None, parts))
        return [f"{n_counted:,} of {n_files:,} files of {self.source.name} count: {said} {SEE_PICTURES}."]

    def _prompts_in_words(self, rows: Sequence[ImageRow]) -> list[str]:
        """Say where the prompts of these pictures come from."""
        if self.source.is_assumed:
            return [f"No picture has a prompt: all {len(rows):,} are taken as “{rows[0].prompt}”."] if rows else []
        sources = Counter(self.source.get_picture(row.id).prompt_source for row in rows)
        named = format_counts({source: n for source, n in sources.items() if source}, len(rows))
        without = f"{sources['']:,} pictures have no prompt." if sources[""] else ""
        return list(filter(None, (f"Prompts come from {named}." if named else "", without)))

    def _ways_in_words(self, rows: Sequence[ImageRow]) -> list[str]:
        """Say that pictures drawn in several ways are pooled, and how to compare them."""
        ways = Counter(self.source.get_picture(row.id).way for row in rows)
        named = [way for way in ways if way]
        if len(ways) < 2 or not named:
            return []
        parts = format_counts({way or "not known": n for way, n in ways.items()})
        arms = f" To compare them, make an arm of each, with “drawn with” {' or '.join(named)}."
        return [f"Pictures drawn in {len(ways)} ways are pooled: {parts}.{arms if len(named) > 1 else ''}"]

    def refuse_none(self, shots: Sequence[Shot]) -> None:
        """Raise InvalidInput if no picture belongs to any of the shots."""
        if (way := self.source.drawn_with) and not any(self.make_rows(shot) for shot in shots):
            other_ways = ", ".join(dict.fromkeys(self.source.left_out.values()))
            raise InvalidInput(f"no picture of {self.source.name} was drawn with {way}: {other_ways}")
        if not any(self.make_rows(shot) for shot in shots):
            prompts, given = [self.get_prompt(shot) for shot in shots], [*self.source.counts]
            explanation = f"It asks for: {format_list(prompts, '; ')}. The pictures have: {format_list(given, '; ')}"
            advice = f"To take all pictures as one prompt, set “prompts from” to “{ONE_FOR_ALL}{prompts[0]}”"
            raise InvalidInput(f"no picture of {self.source.name} has a prompt of this study. {explanation}. {advice}")


_FOREIGN = re.compile(
    r"\([^()]{1,300}:\d{0,3}\.?\d{0,6}\)|\bBREAK\b|<(?:lora|lyco|hypernet|embedding|ti):[^<>]{1,300}>|__[\w/*-]{1,100}?__"
)


def foreign_words(prompt: str) -> list[str]:
    """Return the parts of a prompt that other programs read as weights, breaks, networks and wildcards.

    >>> foreign_words("a photo of a (doctor:1.3) <lora:x:0.8> BREAK __hair__, at 8:30")
    ['(doctor:1.3)', '<lora:x:0.8>', 'BREAK', '__hair__']
    """
    return _FOREIGN.findall(prompt)


def _words_without_effect(rows: Sequence[ImageRow]) -> list[str]:
    """Return a sentence on parts of prompts that only other programs interpret; [] without any.

    Hosted models are left out: they may interpret them.
    """
    local_rows = [row for row in rows if not hosted_name(row.model)]
    texts = dict.fromkeys(text for row in local_rows for text in (row.prompt, row.later_prompt, row.negative_prompt))
    if not (words := dict.fromkeys(word for text in texts for word in foreign_words(text))):
        return []
    return [
        f"{format_list([*words], ', ')}: weights, BREAK, <lora:…> and __wildcards__ of other programs have no effect. "
        f"{local_rows[0].model} reads them as words."
    ]


UnitOf = Callable[[int, ImageRow], str]
"""Names a picture of a shot, from its number and row; pictures with the same name are compared between arms."""


def name_by_number(number: int, row: ImageRow) -> str:  # noqa: ARG001
    """Compare the k-th picture of one arm with the k-th of another."""
    return f"{number}"


def name_by_id(number: int, row: ImageRow) -> str:
    """Compare a picture with no other."""
    return f"{number}:{row.id}"


def drawn_elsewhere(drawings: Sequence[PictureMetadata]) -> list[str]:
    """Return sentences on how pictures say they were drawn; [] if they say nothing."""
    if not (n := sum(bool(drawing.record() or drawing.num_inference_steps) for drawing in drawings)):
        return []
    parts: dict[str, list[Any]] = {
        "program": [drawing.program for drawing in drawings],
        "model": [drawing.model for drawing in drawings],
        "sampler": [drawing.sampler for drawing in drawings],
        "steps": [drawing.num_inference_steps for drawing in drawings],
        "guidance": [drawing.guidance_scale for drawing in drawings],
        "size": [f"{drawing.width}x{drawing.height}" if drawing.width else "" for drawing in drawings],
        "negative prompt": [drawing.negative_prompt and f"“{drawing.negative_prompt[:80]}”" for drawing in drawings],
    }
    facts = [f"{name} {text}" for name, values in parts.items() if (text := _counted(values, len(drawings)))]
    if n_seeds := sum(drawing.seed is not None for drawing in drawings):
        facts.append(f"seeds of {n_seeds:,}")
    notes = [f"{n:,} of {len(drawings):,} pictures record how they were drawn: {'; '.join(facts)}."]
    if n_shaped := sum(bool(drawing.further) for drawing in drawings):
        further = _counted((text for drawing in drawings for text in drawing.further), len(drawings))
        notes.append(
            f"{n_shaped:,} of {len(drawings):,} pictures record further influences than their prompt: {further}."
        )
    return notes


def _counted(values: Iterable[object], n: int) -> str:
    """Return each value, with its count if not all are the same.

    >>> _counted([20, 20], 2), _counted([20, 20, 30, None], 4)
    ('20', '20 (2), 30 (1)')
    """
    counts = Counter(
        typeset(value) if isinstance(value, float) else str(value) for value in values if value not in (None, "")
    )
    return format_counts(counts, n)


Rows = RowMaker | ImportedRows  # source of the pictures of a study


def treatment(settings: StudySettings) -> str:
    """Return the template of every prompt in a run of one arm; "" if prompts do not change."""
    return (settings.arms[0].template or "") if len(settings.arms) == 1 else ""


def treated(prompt: str, template: str) -> str:
    """Return a prompt in the slot of a template, which may also replace a word.

    >>> treated("a photo of a doctor", "{}, whatever their gender"), treated("a doctor", "")
    ('a photo of a doctor, whatever their gender', 'a doctor')
    >>> treated("a photo of an engineer", "{engineer=person}")
    'a photo of a person'
    """
    if swap := WORD_SLOT.search(template):
        edited = replace_word(prompt, swap[1].strip(), swap[2].strip())
        return fill_template(WORD_SLOT.sub(SLOT, template), edited)
    return fill_template(template, prompt) if template else prompt


def _find_drawn_info(services: StudyServices, settings: StudySettings, generator: TextToImage | None) -> ModelInfo:
    """Return the catalogue's entry with the size that is really drawn for the requested size ("" for its own)."""
    info, size = services.model_info(settings.model), settings.size
    width, height = (info.width, info.height) if not size or info.family == "renderer" else parse_size(size)
    if generator is not None and isinstance(generator, ChecksSettings):
        width, height = generator.drawn_size(width, height)
    return replace(info, width=width, height=height)


def parse_size(size: str) -> tuple[int, int]:
    """Return width and height; InvalidInput for a size that cannot be drawn.

    >>> parse_size("768x512")
    (768, 512)
    """
    width, height = map(int, size.split("x"))
    if any(not _LEAST_SIDE <= side <= _MOST_SIDE or side % _SIDE_OF for side in (width, height)):
        raise InvalidInput(
            f"size must have sides of {_LEAST_SIDE} to {_MOST_SIDE:,} pixels that are multiples of {_SIDE_OF}, such as "
            f"512x512; got {size}"
        )
    return width, height


def _sampler(settings: StudySettings, info: ModelInfo, generator: TextToImage | None) -> Sampler:
    """Return the sampler of the rows; InvalidInput if this model cannot use it."""
    if not settings.sampler or info.family == "renderer":
        return ""
    if generator is not None and isinstance(generator, ChangesSampler):
        generator.check_sampler(settings.sampler)
    elif generator is not None or hosted_name(info.id):
        raise InvalidInput(f"{info.id} has no sampler that can be chosen; leave the sampler out")
    return settings.sampler


def _ignored(settings: StudySettings, info: ModelInfo) -> tuple[str, ...]:
    model_size = f"{info.width}x{info.height}"
    if info.family == "renderer":
        names = [f"the {name}" for name in ("size", "sampler") if getattr(settings, name)]
        effect = f"so {' and '.join(names)} of the settings {'has' if len(names) == 1 else 'have'} no effect"
        return (f"{info.id} draws by rules, always {model_size} pixels, {effect}.",) if names else ()
    if settings.size and settings.size != model_size:
        return (
            f"{info.id} draws {model_size} pixels instead of the requested {settings.size}, and is recorded with them.",
        )
    return ()


def _find_generator(services: StudyServices, name: str) -> TextToImage | None:
    """Return the generator, or None if it is unavailable; loading its weights raises the error later."""
    try:
        return services.text_to_image(name)
    except ModelUnavailable:
        return None


def scaled(n: int, scale: float, *, minimum: int = 2) -> int:
    """Return how many of ``n`` pictures a scaled study draws: at least ``minimum`` and at most ``n``.

    >>> scaled(10, 0.5), scaled(10, 0.01), scaled(1, 0.5)
    (5, 2, 1)
    """
    return min(n, max(minimum, math.ceil(n * scale - 1e-9)))


def thinned(items: Sequence[T], scale: float, *, minimum: int, seed: int) -> list[T]:
    """Return a random share of a list, in its order; always the same for a seed.

    >>> thinned("abcdefgh", 0.5, minimum=1, seed=0)
    ['c', 'd', 'e', 'g']
    """
    indices = np.sort(np.random.default_rng(seed).permutation(len(items))[: scaled(len(items), scale, minimum=minimum)])
    return [items[i] for i in indices]


def hash_to_seed(text: str) -> int:
    """Return a number below 10^9 that only the text decides: a first seed of its pictures.

    Pictures of a diffusion model on the same seed look alike, whatever their prompts say. Prompts whose pictures count
    as independent draws therefore each have a first seed of their own.
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % 10**9


def cut_notes(
    reader: object, version: str, texts: Iterable[str], services: StudyServices, text: str = "prompt"
) -> list[str]:
    """Return a sentence per text encoder of a generator or encoder that cuts off some texts.

    Counting their tokens imports a library for seconds: short texts are not counted, and counts are stored by the
    ``version`` of the reader.
    """
    unique_texts = list(dict.fromkeys(texts))
    if not isinstance(reader, ReadsPrompts) or all(
        len(unique_text.encode()) <= _NEVER_CUT for unique_text in unique_texts
    ):
        return []
    question = ("", f"tokens of {hashlib.sha256(json.dumps(unique_texts).encode()).hexdigest()}")
    if answers := services.answers.find(version, [question]):
        return cut_texts([PromptLimit(**limit) for limit in json.loads(answers[question])], text)
    if limits := reader.prompt_limits(unique_texts):
        services.answers.keep(version, {question: json.dumps([vars(limit) for limit in limits])})
    return cut_texts(limits, text)


def before_drawing(services: StudyServices, rows: Sequence[ImageRow]) -> list[str]:
    """Return notes of the generator on the settings and prompts of an arm, each once."""
    if not rows:
        return []
    generator, notes = services.text_to_image(rows[0].model), dict[str, None]()
    if isinstance(generator, ChecksSettings):
        distinct = {(row.guidance_scale, bool(row.negative_prompt), row.width): row for row in rows}
        notes = dict.fromkeys(note for row in distinct.values() for note in generator.check_settings(row))
    version = f"{rows[0].model} {rows[0].revision}"
    return [*notes, *cut_notes(generator, version, (row.prompt for row in rows), services)]
