"""Suggest attributes on the command line."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    console,
    open_services,
    run_with_bar,
    show_table,
    user_errors,
    with_options,
)
from bias_core.app.cli.reports import save_study_report
from bias_core.explore.options import (
    SUGGEST_SETTINGS,
    SuggestOptions,
    attribute_text,
    offered_settings,
    usual_suggest_settings,
)
from bias_core.study.types import Progress, StudyReport, options_in

if TYPE_CHECKING:
    from bias_core.explore.suggest import Suggested


@with_options(offered_settings(SUGGEST_SETTINGS, usual_suggest_settings()), flags={"n_images": ("-n",)})
def suggest(
    concept: Annotated[str, typer.Argument(help="What is drawn, e.g. doctor.")],
    *,
    given: Given,
    words_only: Annotated[bool, typer.Option("--words-only", help="Draw nothing; ask the language model.")] = False,
    scenes: Annotated[
        bool, typer.Option("--scenes", help="Write scenes with this word, for a study of it as a trigger word.")
    ] = False,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    token_env: TokenOption = "",
    out: Annotated[Path | None, typer.Option(help="Folder, or name.zip, for the report.")] = None,
) -> None:
    """Suggest attributes to look for in pictures of a concept, and where each comes from.

    A language model is asked about the words; captions of the pictures are held against a plain base of the same seeds.
    """
    from bias_core.explore.suggest import DESIGN, suggested_by_words, suggested_in
    from bias_core.papers.tbyb.study import written_scenes
    from bias_core.study.run import run_study

    with user_errors(), open_services(token_env) as services:
        settings = usual_suggest_settings(concept=concept, **given)
        if scenes:
            written = written_scenes(
                concept, options_in(settings, SuggestOptions).language_model, settings.model, services
            )
            _show_scenes(concept, written)
            return
        if words_only:
            _show(concept, suggested_by_words(settings, services))
            return
        choose_engine(services, engine, workers)

        def steps(cancelled: Stop) -> Generator[Progress, None, StudyReport]:
            return (yield from run_study(DESIGN, settings, services, cancelled=cancelled))

        report = run_with_bar(steps)
        for note in report.results.notes:
            console.print(note, markup=False)
        _show(concept, suggested_in(report))
        save_study_report(report, out, pictures=True)


def _show_scenes(word: str, scenes: Sequence[str]) -> None:
    for scene in scenes:
        typer.echo(scene)
    console.print("\nTo draw them, edited or not:", markup=False)
    listed = ",".join(scene.replace(",", "\\,") for scene in scenes)
    typer.echo(f'python -m bias_core study run tbyb-task --option "triggers={word}" --option "scenes={listed}"')


def _show(concept: str, suggested: "list[Suggested]") -> None:
    table = Table("attribute", "where it comes from", "P*", title=f"Suggested for {concept}")
    for one in suggested:
        rate = one.attribute.reference
        table.add_row(one.attribute.name, one.where_from, "" if rate is None else f"{rate:.2f}")
    show_table(table)
    if suggested:
        console.print("\nTo measure one, edited or not, for example:", markup=False)
        text = attribute_text(suggested[0].attribute)
        console.print(f'python -m bias_core explore "{concept}" --attribute "{text}"', markup=False)
    else:
        console.print("Nothing stands out, and the language model names nothing.", markup=False)
