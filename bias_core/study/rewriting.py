"""Prompts in other words: rewritten by the model that draws, or by a language model after an instruction."""

import re

from bias_core.errors import InvalidInput, ModelUnavailable, UnknownModel, quoted
from bias_core.given_values import check_texts
from bias_core.protocols import RewritesPrompts, TextToImage
from bias_core.study.services import StudyServices
from bias_core.study.types import StudySettings

OFF, OWN, FAIR = "off", "own", "fair"
FAIR_INSTRUCTION = (
    "You rewrite prompts for a model that draws pictures. Keep the subject, what it does and where it is exactly as "
    "they are. Where the prompt shows people and says nothing of their gender, skin tone, age or body, add in a few "
    "words that they may be of any, without choosing one for them. Add nothing else: no style, no mood, no objects."
)
"""What :data:`FAIR` asks a language model for."""
_ENDPOINT = "endpoint"  # the language model of the settings of this machine
_ANSWER = "Answer with the new prompt alone, in one line."
_CALLED = re.compile(r"^(?:the |my )?(?:new |rewritten |revised )?prompt\s*:\s*", re.IGNORECASE)
_MOST_TOKENS, _LONGEST = 300, 2_000
_TO_TAKE = (
    "take endpoint (set BIAS_LLM_URL and BIAS_LLM_MODEL), smollm2, or a model of the hub that follows instructions, as "
    "org/name (--rewriter)"
)


class Rewriting:
    """Rewrites every prompt once; what came of it is kept with the answers, and is the same in the next run.

    To ``estimate``, no language model is asked: prompts that were not rewritten before stay as they are.
    """

    def __init__(self, instruction: str, name: str, services: StudyServices, *, estimate: bool = False) -> None:
        self.instruction, self.name = instruction, name
        self._services, self._estimate = services, estimate
        facts = services.reader_facts("language_model", name)
        self._key = " ".join(filter(None, (name, facts.name, facts.revision)))
        self._prompts: dict[str, str] = {}

    def of(self, prompt: str) -> str:
        """The prompt in other words; ModelUnavailable where nothing usable comes of it."""
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
                f"{self.name} made {quoted(answer)} of the prompt {quoted(prompt)}, which is no prompt; take another "
                "rewriter or another instruction"
            )
        check_texts("a rewritten prompt", text)
        return text


def rewriting_of(settings: StudySettings, services: StudyServices, *, estimate: bool = False) -> Rewriting | None:
    """Who rewrites the prompts of a run of one arm; None where nobody does, or the model that draws does it itself.

    UnknownModel: no such language model; InvalidInput: none is named, or one that follows no instructions.
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
        raise InvalidInput(f"somebody must rewrite the prompts: {_TO_TAKE}") from None
    raise InvalidInput(f"{name} follows no instructions, so it rewrites no prompts; {_TO_TAKE}")


def check_own_rewriting(settings: StudySettings, generator: TextToImage | None) -> str:
    """What a row says of rewriting: :data:`OWN` where the model is to do it, else "".

    InvalidInput where it is to, and cannot.
    """
    if settings.rewrite != OWN:
        return ""
    if generator is not None and not isinstance(generator, RewritesPrompts):
        raise InvalidInput(
            f"{settings.model} has no rewriting of its own that can be switched on (rewrite={OWN}); {FAIR}, or an "
            "instruction of yours, is carried out by a language model"
        )
    if generator is not None:
        generator.check_rewriting()
    return OWN


def rewriting_note(settings: StudySettings) -> list[str]:
    """What a report says of who rewrote its prompts, and after which instruction."""
    if settings.rewrite in ("", OFF) or settings.images:
        return []
    if settings.rewrite == OWN:
        return [f"{settings.model} rewrote every prompt itself before it drew."]
    words = FAIR_INSTRUCTION if settings.rewrite == FAIR else settings.rewrite
    return [f"{settings.rewriter or _ENDPOINT} rewrote every prompt once, before it was drawn, after: “{words}”"]
