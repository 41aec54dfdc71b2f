"""Explore and compare on the command line, and the lists of what has a name."""

from collections.abc import Generator, Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.table import Table

from bias_core.app.cli.common import (
    EngineName,
    EngineOption,
    Given,
    Stop,
    TokenOption,
    WorkersOption,
    choose_engine,
    exit_stopped,
    open_services,
    run_with_bar,
    show_table,
    user_errors,
    with_options,
)
from bias_core.app.cli.reports import Out, OutWithPictures, save_study_report, show_study_report
from bias_core.errors import InvalidInput, quoted
from bias_core.explore.concept import SUGGESTED, read_attributes
from bias_core.explore.options import (
    COMPARE_SETTINGS,
    EXPLORE_SETTINGS,
    attribute_text,
    compare_settings,
    explore_settings,
    offered_settings,
)
from bias_core.models.catalogue import Role
from bias_core.store.tables import ENDINGS, HUB
from bias_core.study.arms import check_several, parse_arms
from bias_core.study.attributes import load_attribute_sets, suggest_set
from bias_core.study.design import find_design
from bias_core.study.types import Progress, StudyReport, StudySettings

_FLAGS = {"n_images": ("-n",), "n_clusters": ("--clusters",)}
_OF_EXPLORE = offered_settings((*EXPLORE_SETTINGS, "images", "arms"), explore_settings())
_OF_A_CONCEPT = ("template", "attribute_a", "attribute_b", "n_attribute_images")
_OF_COMPARE = offered_settings(COMPARE_SETTINGS, compare_settings("", []))
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", help="A built-in attribute, or 'name|positive sentence|negative sentence[|P*|source]'."
    ),
]
NoAttributes = Annotated[bool, typer.Option("--no-attributes", help="Score no attribute.")]


@with_options(_OF_EXPLORE, flags=_FLAGS)
def explore(
    concept: Annotated[str, typer.Argument(help="What is drawn, e.g. doctor; '' with --images: all pictures.")] = "",
    *,
    given: Given,
    prompts: Annotated[
        str, typer.Option(help=f"Prompts instead of a concept: a file {' or '.join(ENDINGS)}, or {HUB}owner/name.")
    ] = "",
    attribute: Attributes = None,
    no_attributes: NoAttributes = False,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    token_env: TokenOption = "",
    out: OutWithPictures = None,
    keep: Annotated[bool, typer.Option("--keep", help="Never evict the pictures of this run.")] = False,
) -> None:
    """Draw pictures of a concept and score what they show.

    Ctrl-C stops: what is finished is scored, and the exit code is 130.
    """
    with user_errors():
        check_source(concept, prompts, given)
        attributes = [] if no_attributes else find_attributes(concept, attribute)
        chosen = {**given, "attributes": attributes, "arms": parse_arms(given.get("arms", []))}
        if prompts and attribute is None and not no_attributes:
            chosen["attributes"] = (SUGGESTED,)  # those that the rows name
        settings, how = explore_settings(concept=concept, **chosen), (engine, workers)
        _run(settings, how, out, pictures=True, keep=keep, token_env=token_env, prompts=prompts)


@with_options(_OF_COMPARE, flags=_FLAGS)
def compare(
    concept: Annotated[str, typer.Argument(help="What is drawn, e.g. doctor.")],
    *,
    given: Given,
    arm: Annotated[
        list[str],
        typer.Option(
            help="Two to eight times: key=value|key=value with name, model, condition, template, negative, "
            "guidance, steps; e.g. 'condition=fair'. What is left out is the renderer's default."
        ),
    ],
    attribute: Attributes = None,
    no_attributes: NoAttributes = False,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    token_env: TokenOption = "",
    out: Out = None,
) -> None:
    """Draw a concept in two to eight ways on the same seeds, and test what differs.

    The same as `explore` with `--arm`; here the template of an arm holds the concept.
    """
    with user_errors():
        arms = check_several(parse_arms(arm))
        attributes = [] if no_attributes else find_attributes(concept, attribute)
        settings = compare_settings(concept, arms, attributes=attributes, **given)
        _run(settings, (engine, workers), out, token_env=token_env)


def check_source(concept: str, prompts: str, given: Given) -> None:
    """Raises InvalidInput: there is nothing to draw, or two things, or words that prompts of one's own leave unused."""
    if not (concept.strip() or prompts or given.get("images")):
        raise InvalidInput("name a concept, such as doctor, or give --prompts or --images")
    if prompts and concept.strip():
        raise InvalidInput(f"--prompts draws its own prompts: leave the concept {quoted(concept)} out")
    if prompts and (unused := [name for name in _OF_A_CONCEPT if name in given]):
        raise InvalidInput(f"--prompts has no use for --{unused[0].replace('_', '-')}: that is about one concept")


def _run(
    settings: StudySettings,
    engine: tuple[EngineName, int],
    out: Path | None,
    *,
    pictures: bool = False,
    keep: bool = False,
    token_env: str = "",
    prompts: str = "",
) -> None:
    """Run behind a progress bar, show and save. A signal stops within one step, and what is finished is scored."""
    from bias_core.explore.packs import pack_of
    from bias_core.study.run import run_study

    with open_services(token_env) as services:
        choose_engine(services, *engine)
        design, settings = pack_of(prompts, settings) if prompts else (find_design("explore"), settings)

        def steps(cancelled: Stop) -> Generator[Progress, None, tuple[StudyReport, int]]:
            report = yield from run_study(design, settings, services, cancelled=cancelled)
            return report, cancelled.signal

        report, signum = run_with_bar(steps)
        show_study_report(report, services)
        if keep:
            services.manifests.keep(report.run_id)
        save_study_report(report, out, pictures=pictures)
        if signum or services.manifests.get(report.run_id).status == "cancelled":
            raise exit_stopped(signum)


def find_attributes(concept: str, texts: list[str] | None) -> list[str]:
    """Attributes as a value of the option; none named: the set that is suggested for the concept."""
    return [attribute_text(one) for one in read_attributes(texts or [SUGGESTED], concept)]


def models() -> None:
    """List the models, their conditions, encoders and other readers that have a name."""
    with user_errors(), open_services() as services:
        rows = [
            (
                info.id,
                ", ".join(info.conditions) or "–",
                str(info.default_steps),
                f"{info.default_guidance:g}",
                f"{info.width}x{info.height}",
                info.licence,
                "embedded" if info.embedded else services.model_fit(info.id).short,
            )
            for info in services.models()
        ]
        _show(("model", "conditions", "steps", "guidance", "size", "licence", "on this machine"), rows)
        _show(("condition", "what is planted in the calibration world"), [*services.catalogue.conditions.items()])
        encoders = [(item.id, item.library, item.note or item.name) for item in services.tools("encoder")]
        _show(("encoder", "library", "what it is"), encoders)
        roles = get_args(Role)[1:]  # all but encoders
        tools = [(role.replace("_", " "), tool) for role in roles for tool in services.tools(role)]
        _show(("reads and writes", "as", "what it is"), [(one.id, role, one.note or one.name) for role, one in tools])


def attributes(concept: Annotated[str, typer.Argument(help="Show only the set for this concept.")] = "") -> None:
    """List the built-in attributes with their real-world rates P*."""
    from bias_core.number_text import format_given

    with user_errors(), open_services() as services:
        sets = load_attribute_sets(services.settings.assets_dir / "studies")
        rows = [
            (item.title, a.name, a.positive, a.negative, format_given(a.reference), a.reference_source)
            for item in ([suggest_set(concept, sets)] if concept else sets)
            for a in item.attributes
        ]
        _show(("set", "attribute", "positive", "negative", "P*", "source"), rows)


def runs(
    keep: Annotated[str, typer.Option(help="Never evict the pictures of this run.")] = "",
    release: Annotated[str, typer.Option(help="Let the pictures of this run be evicted again.")] = "",
    delete: Annotated[str, typer.Option(help="Forget this run.")] = "",
) -> None:
    """List the runs on record, newest first."""
    with user_errors(), open_services() as services:
        for run_id, is_kept in ((keep, True), (release, False)):
            if run_id:
                services.manifests.keep(run_id, is_kept)
        if delete:
            services.manifests.delete(delete)
        rows = [
            (
                run.id,
                run.study,
                run.title,
                str(run.settings.get("model", "")),
                str(len(run.image_ids)),
                run.status,
                "yes" if run.is_kept else "",
                datetime.fromtimestamp(run.updated).astimezone().strftime("%Y-%m-%d %H:%M"),
            )
            for run in services.manifests.list(session="")
        ]
        _show(("run", "study", "what", "model", "pictures", "status", "kept", "updated"), rows)


def _show(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(*headers)
    for row in rows:
        table.add_row(*row)
    show_table(table)
