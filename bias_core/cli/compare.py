"""Compare on the command line: an exploration in several arms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bias_core.cli.common import (
    EngineName,
    EngineOption,
    ForceOption,
    WorkersOption,
    choose_engine,
    console,
    exit_stopped,
    open_services,
    user_errors,
)
from bias_core.cli.explore import explored, find_attributes
from bias_core.cli.study import save_study_report, show_study_report


def compare(
    concept: Annotated[str, typer.Argument(help="What is drawn, e.g. doctor.")],
    arm: Annotated[
        list[str],
        typer.Option(
            help="Two to eight times: key=value|key=value with name, model, condition, template, negative, "
            "guidance, steps; e.g. 'condition=fair'. What is left out is the renderer's default."
        ),
    ],
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="A built-in attribute, or 'name|positive sentence|negative sentence[|P*|source]'."),
    ] = None,
    no_attributes: Annotated[bool, typer.Option("--no-attributes", help="Score no attribute.")] = False,
    encoder: Annotated[str, typer.Option(help="Who reads the pictures.")] = "calibration-clip",
    n_images: Annotated[int, typer.Option("-n", "--n-images", help="Seeds: pictures of each arm.")] = 60,
    n_attribute_images: Annotated[int, typer.Option(help="Pictures guided to each word, per arm.")] = 16,
    attribute_a: Annotated[str, typer.Option(help="Association: first word; '' for none.")] = "",
    attribute_b: Annotated[str, typer.Option(help="Association: second word; '' for none.")] = "",
    seed: Annotated[int, typer.Option(help="The i-th picture of every arm has seed + i.")] = 0,
    force: ForceOption = False,
    confidence: Annotated[float, typer.Option(help="Of every interval.")] = 0.95,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    out: Annotated[Path | None, typer.Option(help="Folder, or name.zip, for report, tables and figures.")] = None,
) -> None:
    """Draw a concept in two to eight ways on the same seeds, and test what differs.

    The same as `explore` with `--arm`; here the template of an arm holds the concept.
    """
    from bias_core.studies.explore.arms import arms_summary
    from bias_core.studies.explore.options import compare_settings
    from bias_core.studies.running.arms import check_several, parse_arms

    with user_errors(), open_services() as services:
        choose_engine(services, engine, workers)
        settings = compare_settings(
            concept,
            check_several(parse_arms(arm)),
            attributes=[] if no_attributes else find_attributes(concept, attribute or []),
            attribute_a=attribute_a,
            attribute_b=attribute_b,
            encoder=encoder,
            n_images=n_images,
            n_attribute_images=n_attribute_images,
            seed=seed,
            confidence=confidence,
            force=force,
        )
        report, signum = explored(settings, services)
        show_study_report(report)
        console.print(arms_summary(report), markup=False)
        save_study_report(report, out)
        if signum:
            raise exit_stopped(signum)
