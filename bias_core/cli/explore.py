"""Explore on the command line, and the lists of what has a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.table import Table

from bias_core.cli.common import (
    EngineName,
    EngineOption,
    ForceOption,
    Stop,
    WorkersOption,
    choose_engine,
    exit_stopped,
    open_services,
    run_with_bar,
    user_errors,
)
from bias_core.cli.study import save_study_report, show_study_report
from bias_core.cli.tables import show_table
from bias_core.models.catalogue import Role

if TYPE_CHECKING:
    from collections.abc import Generator

    from bias_core.services import Services
    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.types import StudyReport, StudySettings


def explore(
    concept: Annotated[str, typer.Argument(help="What is drawn, e.g. doctor; '' with --images: all pictures.")],
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="A built-in attribute, or 'name|positive sentence|negative sentence[|P*|source]'."),
    ] = None,
    no_attributes: Annotated[bool, typer.Option("--no-attributes", help="Score no attribute.")] = False,
    template: Annotated[str, typer.Option(help="Prompt with one {} for the concept.")] = "a photo of a {}",
    model: Annotated[str, typer.Option(help="A model of `models`, org/name, or a folder.")] = "calibration-diffusion",
    condition: Annotated[str, typer.Option(help="Planted condition of the calibration models.")] = "published",
    encoder: Annotated[str, typer.Option(help="Who reads the pictures.")] = "calibration-clip",
    n_images: Annotated[int, typer.Option("-n", "--n-images", help="Pictures of the concept.")] = 16,
    n_attribute_images: Annotated[int, typer.Option(help="Pictures guided to each attribute.")] = 8,
    attribute_a: Annotated[str, typer.Option(help="Association: first word; '' for none.")] = "male",
    attribute_b: Annotated[str, typer.Option(help="Association: second word; '' for none.")] = "female",
    steps: Annotated[int | None, typer.Option(help="Denoising steps; the model's default if left out.")] = None,
    guidance: Annotated[float | None, typer.Option(help="Guidance scale; the model's default if left out.")] = None,
    negative_prompt: Annotated[str, typer.Option(help="What the model should avoid.")] = "",
    seed: Annotated[int, typer.Option(help="Picture i has seed + i.")] = 0,
    clusters: Annotated[
        int, typer.Option("--clusters", "--n-clusters", help="Groups of look-alikes; 0: found by itself.")
    ] = 0,
    images: Annotated[str, typer.Option(help="Folder or zip of your own pictures, instead of drawing.")] = "",
    arm: Annotated[
        list[str] | None,
        typer.Option(help="Ways to draw the same, compared seed by seed: key=value|key=value, twice or more."),
    ] = None,
    force: ForceOption = False,
    confidence: Annotated[float, typer.Option(help="Of every interval.")] = 0.95,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    out: Annotated[Path | None, typer.Option(help="Folder, or name.zip, for pictures, scores and report.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Never evict the pictures of this run.")] = False,
) -> None:
    """Draw pictures of a concept and score what they show.

    Ctrl-C stops: what is finished is scored, and the exit code is 130.
    """
    from bias_core.studies.explore.options import explore_settings
    from bias_core.studies.running.arms import parse_arms

    with user_errors(), open_services() as services:
        choose_engine(services, engine, workers)
        settings = explore_settings(
            concept=concept,
            template=template,
            attributes=[] if no_attributes else find_attributes(concept, attribute or []),
            attribute_a=attribute_a,
            attribute_b=attribute_b,
            model=model,
            condition=condition,
            encoder=encoder,
            n_images=n_images,
            n_attribute_images=n_attribute_images,
            num_inference_steps=steps,
            guidance_scale=guidance,
            negative_prompt=negative_prompt,
            seed=seed,
            n_clusters=clusters,
            images=images,
            arms=parse_arms(arm or []),
            confidence=confidence,
            force=force,
        )
        report, signum = explored(settings, services)
        show_study_report(report)
        if keep:
            services.manifests.keep(report.run_id)
        save_study_report(report, out, pictures=True)
        if signum or services.manifests.get(report.run_id).status == "cancelled":
            raise exit_stopped(signum)


def models() -> None:
    """List the models, encoders and other readers that have a name."""
    with user_errors(), open_services() as services:
        table = Table("model", "conditions", "steps", "guidance", "size", "licence", "on this machine")
        for info in services.models():
            here = "embedded" if info.embedded else services.model_fit(info.id).short
            conditions, size = ", ".join(info.conditions) or "–", f"{info.width}x{info.height}"
            table.add_row(info.id, conditions, str(info.default_steps), f"{info.default_guidance:g}",
                          size, info.licence, here)  # fmt: skip
        show_table(table)
        encoders = Table("encoder", "library", "what it is")
        for item in services.encoders():
            encoders.add_row(item.id, item.library, item.note or item.name)
        show_table(encoders)
        tools = Table("reads and writes", "as", "what it is")
        for role in get_args(Role)[1:]:  # all but encoders
            for tool in services.tools(role):
                tools.add_row(tool.id, role.replace("_", " "), tool.note or tool.name)
        show_table(tools)


def attributes(concept: Annotated[str, typer.Argument(help="Show only the set for this concept.")] = "") -> None:
    """List the built-in attributes with their real-world rates P*."""
    from bias_core.studies.kit.attributes import load_attribute_sets, suggest_set
    from bias_core.studies.reports.number_text import format_given

    with user_errors(), open_services() as services:
        sets = load_attribute_sets(services.settings.assets_dir / "studies")
        table = Table("set", "attribute", "positive", "negative", "P*", "source")
        for item in [suggest_set(concept, sets)] if concept else sets:
            for a in item.attributes:
                rate = format_given(a.reference)
                table.add_row(item.title, a.name, a.positive, a.negative, rate, a.reference_source)
        show_table(table)


def runs(
    keep: Annotated[str, typer.Option(help="Never evict the pictures of this run.")] = "",
    release: Annotated[str, typer.Option(help="Let the pictures of this run be evicted again.")] = "",
    delete: Annotated[str, typer.Option(help="Forget this run.")] = "",
) -> None:
    """List the runs on record, newest first."""
    from datetime import datetime

    with user_errors(), open_services() as services:
        for run_id, kept in ((keep, True), (release, False)):
            if run_id:
                services.manifests.keep(run_id, kept)
        if delete:
            services.manifests.delete(delete)
        table = Table("run", "study", "what", "model", "pictures", "status", "kept", "updated")
        for run in services.manifests.list(session=""):
            when = datetime.fromtimestamp(run.updated).astimezone().strftime("%Y-%m-%d %H:%M")
            model, kept_mark = str(run.settings.get("model", "")), "yes" if run.kept else ""
            table.add_row(run.id, run.study, run.title, model, str(len(run.rows)), run.status, kept_mark, when)
        show_table(table)


def find_attributes(concept: str, texts: list[str]) -> list[str]:
    """Attributes as a value of the option; none named: the set that is suggested for the concept."""
    from bias_core.studies.explore.options import SUGGESTED, attribute_text, read_attributes

    return [attribute_text(one) for one in read_attributes(texts or [SUGGESTED], concept)]


def explored(settings: StudySettings, services: Services) -> tuple[StudyReport, int]:
    """Explore behind a progress bar: the report, and the signal that stopped it (0 for none).

    A signal stops within one denoising step, and what is finished is scored.
    """
    from bias_core.studies.kit.designs import find_design
    from bias_core.studies.running.run import run_study

    def steps(cancelled: Stop) -> Generator[Progress, None, tuple[StudyReport, int]]:
        report = yield from run_study(find_design("explore"), settings, services, cancelled=cancelled)
        return report, cancelled.signal

    return run_with_bar(steps)
