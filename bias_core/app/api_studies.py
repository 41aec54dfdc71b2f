"""Typed tools for the papers' studies and for comparisons, over HTTP and MCP."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial, wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import gradio as gr

from bias_core.errors import BiasCoreError, InvalidInput, quoted
from bias_core.given_values import check_arguments
from bias_core.metrics.cards import METRICS
from bias_core.studies.explore.options import KIND, SUGGESTED, compare_settings, read_attributes
from bias_core.studies.kit.designs import find_design, list_designs, option_settings, program_of
from bias_core.studies.kit.setting_fields import name_and_value, settings_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.saved import open_report
from bias_core.studies.reports.text import plain, to_dict
from bias_core.studies.running.arms import check_several, parse_arms
from bias_core.studies.running.run import run_study, with_options
from bias_core.studies.running.size import check_number as check_study
from bias_core.ui.messages import said
from bias_core.ui.run_turns import of_program

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.kit.types import Design

P = ParamSpec("P")
T = TypeVar("T")

_API = "api-"  # sessions of programs begin with this; only their reports can be asked for by their id


def tool(run: Callable[P, T]) -> Callable[P, T]:
    """A tool for programs: its arguments are of their types, and our own errors arrive as their message.

    Null stands for the default of an argument that has one, as Gradio sends it for what was left out.
    """
    defaults = {name: one.default for name, one in signature(run).parameters.items()}

    @wraps(run)
    def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature(run).bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if value is None and defaults[name] is not Parameter.empty:
                bound.arguments[name] = defaults[name]
        try:
            check_arguments(run, bound.arguments)
            bound.apply_defaults()
            return run(**bound.arguments)  # type: ignore[call-arg]
        except BiasCoreError as error:
            raise gr.Error(said(error), print_exception=False) from error

    return answer


def with_settings(run: Callable[..., T]) -> Callable[..., T]:
    """A method of programs with a parameter for every setting that they may give, in place of ``**given``."""
    declared = [one for one in settings_of(StudySettings).values() if not one.local]
    own = [one for one in signature(run).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    made = [
        Parameter(
            one.name,
            Parameter.POSITIONAL_OR_KEYWORD,
            default=None if one.kind in (object, tuple) else _SMALLER.get(one.name, one.default),
            annotation=_LISTS.get(one.name, one.annotation),
        )
        for one in declared
    ]
    parameters = [*own, *made]
    run.__signature__ = Signature(parameters, return_annotation=run.__annotations__["return"])  # type: ignore[attr-defined]
    del run.__annotations__["given"]
    run.__annotations__ |= {one.name: one.annotation for one in made}
    told = "".join(f"    {one.name}: {one.sentence}.\n" for one in declared)
    run.__doc__ = f"{cleandoc(run.__doc__ or '')}\n{told}"
    return run


_SMALLER = {"scale": 0.05}  # of the full size: what a program draws that asks for nothing else
_LISTS = {"options": list[str] | None, "arms": list[str] | None}  # as name=value, and key=value|key=value


def new_session() -> str:
    """A session for one call of a program; the run's id, which is made of it, cannot be guessed."""
    return _API + secrets.token_hex(16)


class StudyTools:
    """What programs may ask of studies."""

    def __init__(self, services: Services) -> None:
        self.services = services

    @tool
    @with_settings
    def run_study(self, study: str, **given: Any) -> dict[str, Any]:
        """Run a published study of bias on a text-to-image model and report its numbers.

        The report has findings (each with interval, n, null value, p-value where there is a test), tables,
        the data of the figures, notes, and a run_id for get_report.

        Args:
            study: A study of list_studies, for example "t2iat-tests".
        """
        design = _shipped(study)
        arms = parse_arms(given.pop("arms") or [])
        if any(arm.images for arm in arms):
            raise InvalidInput("an arm that is asked for over the network is drawn: it takes no images")
        options = dict(name_and_value(text) for text in given.pop("options") or [])
        settings = StudySettings(**given, options=options, arms=arms)
        check_study(design, with_options(design, settings), self.services.settings)
        start = partial(run_study, design, settings, self.services, session=new_session())
        return to_dict(of_program(self.services, start)[1])

    @tool
    def compare(
        self,
        concept: str,
        arms: list[str],
        attributes: list[str] | None = None,
        encoder: str = "calibration-clip",
        n_images: int = 60,
        n_attribute_images: int = 16,
        attribute_a: str = "",
        attribute_b: str = "",
        seed: int = 0,
        confidence: float = 0.95,
        force: bool = False,
    ) -> dict[str, Any]:
        """Draw a concept in two to eight ways on the same seeds and test what differs.

        Every difference has its interval, p-value (corrected for their number) and n.

        Args:
            concept: Who or what is drawn, for example "doctor".
            arms: Two to eight, each "key=value|key=value" with name, model, condition, template, negative,
                guidance, steps; for example "condition=fair".
            attributes: Built-in names such as "man", or "name|positive sentence|negative sentence|P*|source".
                Left out: the set suggested for the concept.
            encoder: Reader of the pictures.
            n_images: Seeds, that is pictures of each arm.
            n_attribute_images: Pictures of each arm guided to each association word.
            attribute_a: First word of the association; both empty for none.
            attribute_b: Second word of the association.
            seed: The i-th picture of every arm has seed + i.
            confidence: Of every interval, for example 0.95.
            force: Score anyway with a calibration reader; the report says so first.
        """
        settings = compare_settings(
            concept,
            check_several(parse_arms(arms)),
            attributes=read_attributes([SUGGESTED] if attributes is None else attributes, concept),
            attribute_a=attribute_a,
            attribute_b=attribute_b,
            encoder=encoder,
            n_images=n_images,
            n_attribute_images=n_attribute_images,
            seed=seed,
            confidence=confidence,
            force=force,
        )
        design = find_design(KIND)
        check_study(design, with_options(design, settings), self.services.settings)
        start = partial(run_study, design, settings, self.services, session=new_session())
        return to_dict(of_program(self.services, start)[1])

    @tool
    def get_report(self, run_id: str) -> dict[str, Any]:
        """Get the report of an earlier explore, run_study or compare call again; nothing is run.

        Args:
            run_id: As the report of that call names it.
        """
        manifest = self.services.manifests.find(run_id)
        saved = open_report(run_id, self.services)
        if manifest is None or saved is None or not manifest.session.startswith(_API):
            raise InvalidInput(f"no report of a run {run_id!r}; its id is in the report of the call")
        return to_dict(saved.report)

    def list_studies(self) -> list[dict[str, Any]]:
        """List the studies of run_study: what each asks, after which paper, its size and its options."""
        return [
            {
                "name": design.name,
                "title": design.title,
                "summary": design.summary,
                "reference": design.reference,
                "redraws": design.where,
                "pictures_at_full_size": _full_size(design.name),
                "options": {one.name: plain(one.default) for one in options},
                "ranges": {one.name: one.told()["range"] for one in options if one.range_words},
                "option_settings": [plain(one.told()) for one in options],
            }
            for design in list_designs()
            if _full_size(design.name)
            for options in [option_settings(design).values()]
        ]

    def list_measures(self) -> list[dict[str, Any]]:
        """List the measures with their ranges, what "no bias" reads, what higher means, and their limits."""
        return [
            plain(
                {
                    "key": metric.key,
                    "name": metric.name,
                    "summary": metric.summary,
                    "reference": metric.reference,
                    "equation": metric.equation,
                    "bounds": list(metric.bounds),
                    "null_value": metric.null_value,
                    "higher_means": metric.higher_means,
                    "inputs": [asdict(item) for item in metric.inputs],
                    "limits": metric.limits,
                }
            )
            for metric in METRICS.values()
        ]


def _shipped(name: str) -> Design:
    """A shipped design; never a file of this machine."""
    known = [design.name for design in list_designs()]
    if name not in known:
        raise InvalidInput(f"no study {quoted(name)}; there are {', '.join(known)}")
    return find_design(name)


@cache
def _full_size(name: str) -> int:
    """Pictures that a study asks for; 0 where it reads somebody's own."""
    design = find_design(name)
    return sum(shot.n for shot in program_of(design).shots(design, with_options(design, StudySettings())))
