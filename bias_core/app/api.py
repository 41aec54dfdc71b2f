"""Typed tools over HTTP and MCP, with the same settings and numbers as the page and the command line."""

import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from inspect import Parameter, Signature, cleandoc, signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

import gradio as gr
from gradio.context import LocalContext, get_blocks_context
from gradio.utils import get_function_description

from bias_core.errors import BiasCoreError, InvalidInput, quoted
from bias_core.explore.concepts import split_concepts
from bias_core.explore.extension import SUGGESTED, read_attributes
from bias_core.explore.options import (
    COMPARE_SETTINGS,
    EXPLORE_SETTINGS,
    KIND,
    SUGGEST_SETTINGS,
    build_concept_settings,
    choose_design,
    compare_settings,
    explore_settings,
    offered_settings,
    usual_suggest_settings,
)
from bias_core.explore.study import prepare_pack
from bias_core.explore.suggest import (
    DESIGN as SUGGEST,
    suggest_attributes as run_suggestions,
    suggested_by_words,
    suggestions_answer,
)
from bias_core.installed import COMMAND
from bias_core.labels.make_task import label_run, task_values
from bias_core.report.corrected import build_correction, corrected
from bias_core.report.export import FORMS, to_export, to_form
from bias_core.report.saved import open_report
from bias_core.run.plan import check_number, settle
from bias_core.run.programs import (
    DETAIL,
    OR_PART,
    SUMMARY,
    Detail,
    attributes_answer,
    correction_answer,
    full_size,
    look_answer,
    measures_answer,
    models_answer,
    report_answer,
    studies_answer,
)
from bias_core.run.run import run
from bias_core.services import Services
from bias_core.store.export import write_zip
from bias_core.store.imports import ImportedImages
from bias_core.store.reader import ADDRESS
from bias_core.store.uploads import HeldUploads, UploadStore
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import find_design, list_designs
from bias_core.study.label_tasks import N_LABELS, Looks
from bias_core.study.types import Arm, Design, StudyReport, StudySettings, check_several, parse_arms
from bias_core.ui.messages import format_error
from bias_core.ui.study.shown_report import hide_upload_paths
from bias_core.ui.visitor import RUN, find_network_address, read_request_token, run_for_api
from bias_core.values import (
    Setting,
    changed_settings,
    check_arguments,
    declared_settings,
    name_and_value,
    with_whole_numbers,
)

P = ParamSpec("P")
T = TypeVar("T")

_PROMPTS = "An uploaded CSV or JSONL of prompts instead of a concept; columns: prompt; optional group, n, attributes"
_MOST_ZIPPED = 8_000_000  # bytes of the pictures in one answer
_API = "api-"  # prefix of programs' sessions; only their reports can be fetched by id
_LISTS = {"options": list[str] | None, "arms": list[str] | None}  # as name=value, and key=value|key=value


def tool(run: Callable[P, T]) -> Callable[P, T]:
    """Make a tool: check argument types (null means the default), report our own errors, describe ``detail``."""
    defaults = {name: parameter.default for name, parameter in signature(run).parameters.items()}

    @wraps(run)
    def answer(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = signature(run).bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if value is None and defaults[name] is not Parameter.empty:
                bound.arguments[name] = defaults[name]
        bound.arguments |= with_whole_numbers(run, bound.arguments)
        try:
            check_arguments(run, bound.arguments)
            bound.apply_defaults()
            return run(**bound.arguments)  # type: ignore[call-arg]
        except BiasCoreError as error:
            raise gr.Error(format_error(error), print_exception=False) from error

    # Gradio reads only the first line of a parameter's description.
    text = re.sub(r"\n {8,}(?=\S)", " ", cleandoc(run.__doc__ or ""))
    if "detail" in defaults:
        part = "" if signature(run).parameters["detail"].annotation == Detail else OR_PART
        text += ("" if "Args:" in text else "\n\nArgs:") + f"\n    detail: {DETAIL}{part}."
    answer.__doc__ = text
    return answer


def with_settings(declared: Mapping[str, Setting], **uploads: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Give a tool one parameter per setting in place of ``**given``.

    ``uploads`` are file parameters with their descriptions.
    """

    def decorate(run: Callable[..., T]) -> Callable[..., T]:
        own_parameters = [
            parameter for parameter in signature(run).parameters.values() if parameter.kind is not Parameter.VAR_KEYWORD
        ]
        texts = [name for name, option in declared.items() if option.annotation == tuple[str, ...]]
        made = [
            Parameter(
                option.name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=None if option.kind in (object, tuple) else option.default,
                annotation=list[str] | None if option.name in texts else _LISTS.get(option.name, option.annotation),
            )
            for option in declared.values()
        ]
        files = list[dict[str, Any]] | None
        made += [Parameter(x, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=files) for x in uploads]

        @wraps(run)
        def with_lists(*args: Any, **given: Any) -> T:
            return run(*args, **given | {name: tuple(given[name] or ()) for name in texts if name in given})

        returns = run.__annotations__["return"]
        with_lists.__signature__ = Signature([*own_parameters, *made], return_annotation=returns)  # type: ignore[attr-defined]
        del with_lists.__annotations__["given"]
        with_lists.__annotations__ |= {parameter.name: parameter.annotation for parameter in made}
        sentences = {option.name: _describe_setting(option) for option in declared.values()} | uploads
        parameters = "".join(f"    {name}: {sentence}.\n" for name, sentence in sentences.items())
        with_lists.__doc__ = f"{cleandoc(run.__doc__ or '')}\n{parameters}"
        return with_lists

    return decorate


def _describe_setting(setting: Setting) -> str:
    """A setting's description for programs: label, sentence and range."""
    text = setting.sentence if setting.sentence.startswith(setting.label) else f"{setting.label}. {setting.sentence}"
    reach = replace(setting, percent=False).range_words
    text = text.replace("`models`", "list_models").replace("`pictures`", "look_at_pictures")
    return text + (f". Range: {reach}" if reach else "")


_OF_A_STUDY = {
    name: replace(option, default=0.05) if name == "scale" else option  # a small default size for programs
    for name, option in declared_settings(StudySettings).items()
    if not option.local
}


_OF_PICTURES = {name: declared_settings(StudySettings)[name] for name in ("prompts_from", "copies")}


def _read_arms(texts: list[str]) -> tuple[Arm, ...]:
    """Read the arms of a program; InvalidInput if one has pictures, which would be read from the server's folders."""
    arms = parse_arms(texts)
    if any(arm.images for arm in arms):
        raise InvalidInput("an arm cannot use images on the server; upload them as pictures of run_study")
    return arms


def _uploaded(file: object, uploads: UploadStore, held: HeldUploads) -> str:
    """Path of a file that this program uploaded; InvalidInput for anything else."""
    path = str(file.get("path")) if isinstance(file, Mapping) else ""
    owner = f"programs {find_network_address(LocalContext.request.get(None))}"
    with suppress(InvalidInput):
        return str(uploads.hold(path, owner, held))
    raise InvalidInput(
        f"pictures and prompts are files that were uploaded (handle_file of gradio_client); got {quoted(file)}"
    )


def _read_prompt_pack(
    packs: list[Any], concept: str, settings: StudySettings, uploads: UploadStore
) -> tuple[Design, StudySettings]:
    """Design and settings for an uploaded file of prompts; InvalidInput with a concept or several files."""
    if concept.strip() or len(packs) != 1:
        raise InvalidInput(f'prompts need exactly one file and concept ""; got {len(packs)} and {quoted(concept)}')
    held = HeldUploads()  # held until the file is read
    return prepare_pack(_uploaded(packs[0], uploads, held), settings)


def _zip_report(report: StudyReport) -> bytes:
    """Return the zip of a report with its pictures; InvalidInput if they are too many for one answer."""
    n_bytes = sum(image.path.stat().st_size for image in report.stored.values())
    if n_bytes > _MOST_ZIPPED:
        raise InvalidInput(
            f"the pictures of this run have {n_bytes / 1e6:.0f} MB, and an answer holds {_MOST_ZIPPED / 1e6:.0f}; "
            f"on the server, {COMMAND} study report {report.run_id} --to zip writes them"
        )
    with TemporaryDirectory() as folder:
        return write_zip(to_export(report, pictures=True), Path(folder) / "report.zip").read_bytes()


class Tools:
    """The tools for programs."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.sets = load_attribute_sets(services.settings.assets_dir / "studies")

    def _report(
        self, detail: Detail, design: Design, settings: StudySettings, names: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Run a study and return its report; its id derives from a random session, so it cannot be guessed."""
        request = settle(design, settings, names)
        check_number(request, self.services.settings)
        session = _API + secrets.token_hex(16)
        services = self._for_caller()
        report = run_for_api(services, partial(run, request, services, session=session))
        return report_answer(report, self.services, detail)

    def _for_caller(self) -> Services:
        token = read_request_token(LocalContext.request.get(None))
        return self.services.for_visitor(token) if token else self.services

    @tool
    @with_settings(offered_settings(EXPLORE_SETTINGS, explore_settings()), prompts=_PROMPTS)
    def explore(
        self, concept: str, attributes: list[str] | None = None, detail: Detail = SUMMARY, **given: Any
    ) -> dict[str, Any]:
        """Draw pictures of one or several concepts with a text-to-image model and measure how often attributes appear.

        For each attribute, the report has the share of pictures with its interval, n and value without bias. Each of
        several concepts is compared with its own real-world rate.

        Args:
            concept: Person or thing to draw, for example "doctor", or several, "doctor, nurse, CEO"; "" with prompts.
            attributes: Built-in names such as "man", or "name|positive sentence|negative sentence|P*|source".
                Left out: the set suggested for the concept.
        """
        if packs := given.pop("prompts"):
            settings = explore_settings(attributes=[SUGGESTED] if attributes is None else attributes, **given)
            return self._report(detail, *_read_prompt_pack(packs, concept, settings, self.services.uploads))
        settings = build_concept_settings(split_concepts(concept), attributes, **given)
        return self._report(detail, choose_design(settings), settings)

    @tool
    @with_settings(_OF_A_STUDY, pictures="Uploaded zips of pictures with their prompts; each is one more arm")
    def run_study(self, study: str, detail: Detail = SUMMARY, **given: Any) -> dict[str, Any]:
        """Run the study of a paper on a text-to-image model and report its numbers.

        The numbers that stand out have interval, n, value without bias, and a p-value if tested; next_steps have a
        tool with its arguments, or a command. Pictures are stored: the same call again, or a larger scale, reuses them.

        Args:
            study: Name of a study from list_studies, for example "t2iat-tests"; with this name as detail, list_studies
                gives its options.
        """
        names = [design.name for design in list_designs()]
        if study not in names:  # shipped designs only: a program must not read this machine's files
            raise InvalidInput(f"no study {quoted(study)}; there are {', '.join(names)}")
        arms = _read_arms(given.pop("arms") or [])
        held = HeldUploads()  # held until the run has ended
        pictures = given.pop("pictures") or []
        arms += tuple(Arm(images=_uploaded(picture, self.services.uploads, held)) for picture in pictures)
        options = dict(name_and_value(text) for text in given.pop("options") or [])
        design, settings = find_design(study), StudySettings(**given, options=options, arms=arms)
        return self._report(detail, design, settings, changed_settings(settings))

    @tool
    @with_settings(_OF_PICTURES, pictures="One uploaded zip of pictures")
    def look_at_pictures(self, detail: str = SUMMARY, **given: Any) -> dict[str, Any]:
        """Show what is understood of pictures before anything is scored: prompts, their sources, models, copies.

        The numbers of pictures that count and that are left out are together all files that look like pictures;
        run_study reads pictures in the same way.

        Args:
        """
        if len(pictures := given.pop("pictures") or []) != 1:
            raise InvalidInput(f"give one zip of pictures, got {len(pictures)}")
        held = HeldUploads()  # held until the file is read
        ADDRESS.set(find_network_address(LocalContext.request.get(None)))
        path = Path(_uploaded(pictures[0], self.services.uploads, held))
        return look_answer(ImportedImages(path, **given).look(), detail)

    @tool
    @with_settings(offered_settings(COMPARE_SETTINGS, compare_settings("", [])))
    def compare(
        self, concept: str, arms: list[str], attributes: list[str] | None = None, detail: Detail = SUMMARY, **given: Any
    ) -> dict[str, Any]:
        """Draw a concept with two to eight arms (settings to compare) on the same seeds, and test the differences.

        Each difference has an interval, n and a p-value, corrected for the number of tests.

        Args:
            concept: Who or what is drawn, for example "doctor".
            arms: Two to eight arms, each "key=value|key=value" with the keys name, model, condition, template,
                negative, guidance, steps; for example "condition=fair" and "condition=extreme".
            attributes: Built-in names such as "man", or "name|positive sentence|negative sentence|P*|source".
                Left out: the set suggested for the concept.
        """
        several = check_several(_read_arms(arms))
        to_score = read_attributes([SUGGESTED] if attributes is None else attributes, concept)
        settings = compare_settings(concept, several, attributes=to_score, **given)
        return self._report(detail, find_design(KIND), settings)

    @tool
    @with_settings(offered_settings(SUGGEST_SETTINGS, usual_suggest_settings()))
    def suggest_attributes(
        self, concept: str, words_only: bool = False, detail: Detail = SUMMARY, **given: Any
    ) -> dict[str, Any]:
        """Suggest attributes to measure in pictures of a concept, the most certain first; check and edit them.

        A language model suggests from the concept's words, and captions of its pictures are compared with those of a
        plain baseline from the same seeds. Each suggestion has the baseline's share as P* ("reference"), its origin,
        and an "attribute" text to pass to explore and compare.

        Args:
            concept: Who or what is drawn, for example "doctor".
            words_only: Draw nothing; ask only the language model.
        """
        settings = usual_suggest_settings(concept=concept, **given)
        if words_only:
            suggested = suggested_by_words(settings, self.services)
        else:
            check_number(settle(SUGGEST, settings), self.services.settings)
            session = _API + secrets.token_hex(16)
            run = partial(run_suggestions, settings, self._for_caller(), session=session)
            suggested = run_for_api(self.services, run)
        return suggestions_answer(suggested, detail)

    @tool
    def get_report(self, run_id: str, detail: str = SUMMARY) -> dict[str, Any]:
        """Get the report of an earlier explore, run_study or compare call, without a new run.

        Args:
            run_id: The run_id in the report of that call.
        """
        return report_answer(self._corrected(run_id), self.services, detail)

    @tool
    def report_document(self, run_id: str, form: str) -> str:
        """Export the report of an earlier explore, run_study or compare call as a document.

        Args:
            run_id: The run_id in the report of that call.
            form: "md": Markdown; "card": a section for the model card; "html": one page with
                pictures and figures, up to a few megabytes; "csv", "json": all numbers;
                "every_eval_ever": a zip of records as base64; "publish": a zip of claims and card that
                stands next to other people's runs, as base64; "zip": pictures, tables, figures and
                all of these, as base64.
        """
        report = hide_upload_paths(self._corrected(run_id))
        if form == "zip":
            return b64encode(_zip_report(report)).decode()
        content = to_form(report, form)
        return content.decode() if FORMS[form].is_text else b64encode(content).decode()

    @tool
    def label_run(
        self,
        run_id: str,
        n: int = N_LABELS,
        stratify_by: str = "",
        attributes: list[str] | None = None,
        setting: str = "",
        raters_per_picture: int = 3,
        seed: int = 0,
        looks: Looks = "two",
    ) -> dict[str, Any]:
        """Make a labelling task from random pictures of an earlier run; people's labels correct its numbers.

        The task opens at once. The answer has the link for raters and the owner's key, which is shown only once;
        append both links to the address of this app.

        Args:
            run_id: The run_id in the report of that call.
            n: Number of pictures to label.
            stratify_by: An attribute of the run (or "people"): equally many pictures of each classifier answer.
            attributes: Names of the attributes to ask about. Default: those that the run compares with a sourced
                real-world rate; without any all, at most twelve.
            setting: Setting of the paired stereotype test: "paired", "single" or "fairness".
            raters_per_picture: Number of raters per picture.
            seed: Random seed of the choice of pictures.
            looks: Answers about people: "two" as in the paper (feminine, masculine, cannot identify), or "four"
                (feminine, masculine, androgynous, unclear).
        """
        made = label_run(
            self._saved(run_id), self.services.manifests, self.services.labels, n=n, stratify_by=stratify_by,
            attributes=attributes or (), setting=setting, raters_per_item=raters_per_picture, seed=seed,
            looks=looks,
        )  # fmt: skip
        return task_values(made)

    @tool
    def corrected_run(self, run_id: str, detail: str = SUMMARY) -> dict[str, Any]:
        """Get a run's numbers corrected by people's labels, and the number of further labels needed for ±5 points.

        Args:
            run_id: The run_id in the report of that call; use label_run first.
        """
        report = self._saved(run_id)
        if (answers := self.services.run_answers(run_id)) is None:
            raise InvalidInput(f"the run {run_id} has no labelling task: make one with label_run")
        return correction_answer(build_correction(report, answers), detail)

    def _saved(self, run_id: str) -> StudyReport:
        manifest = self.services.manifests.find(run_id)
        saved = open_report(run_id, self.services)
        if manifest is None or saved is None or not manifest.session.startswith(_API):
            raise InvalidInput(f"no report of a run {run_id!r}; its id is in the report of the call")
        return saved.report

    def _corrected(self, run_id: str) -> StudyReport:
        return corrected(self._saved(run_id), self.services.run_answers(run_id), self.services)

    @tool
    def list_studies(self, detail: str = SUMMARY) -> dict[str, Any]:
        """List the studies for run_study; one alone shows its question, paper, size and options."""
        return studies_answer((design for design in list_designs() if full_size(design)), detail)

    @tool
    def list_models(self, detail: str = SUMMARY) -> dict[str, Any]:
        """List the named text-to-image models; in full, also default steps and guidance, licence and a note.

        Any other diffusers model on the hub can be given as org/name.
        """
        return models_answer(self.services.models(), detail)

    @tool
    def list_attribute_sets(self, detail: str = SUMMARY) -> dict[str, Any]:
        """List the built-in attributes per concept; in full, also two sentences, real-world rate P* and source of each.

        Pass their names, such as "man", as attributes to explore and compare.
        """
        return attributes_answer(self.sets, detail)

    @tool
    def list_measures(self, detail: str = SUMMARY) -> dict[str, Any]:
        """List the measures with range and value without bias; in full, also formula, limits and inputs."""
        return measures_answer(detail)


def add_tools(services: Services) -> None:
    """Register the tools, inside the blocks."""
    tools = Tools(services)
    for ask in (tools.explore, tools.run_study, tools.compare, tools.suggest_attributes):
        _offer(ask, **RUN)
    looks = (
        tools.get_report, tools.report_document, tools.label_run, tools.corrected_run, tools.list_studies,
        tools.list_models, tools.list_attribute_sets, tools.list_measures, tools.look_at_pictures,
    )  # fmt: skip
    for look in looks:
        _offer(look)


def _offer(run: Callable[..., Any], **kwargs: Any) -> None:
    """Register an endpoint with parameter descriptions in ``/gradio_api/info``, used for a Space's ``agents.md``."""
    gr.api(run, api_name=run.__name__, **kwargs)
    endpoint = next(reversed(get_blocks_context().fns.values()))
    _, sentences, _ = get_function_description(run)
    for component, name in zip(endpoint.inputs, signature(run).parameters, strict=True):
        component.label = name
        component.api_info()["additional_description"] = sentences[name]
