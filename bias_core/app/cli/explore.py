"""Explore, compare and suggest on the command line; lists of models and attributes."""

from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.console import Console
from rich.table import Table

from bias_core.app.cli.common import (
    DRAW,
    MEASURE,
    AsJson,
    Given,
    RunOptions,
    Stop,
    choose_engine,
    console,
    exit_stopped,
    open_services,
    option,
    run_with_bar,
    show_rows,
    show_table,
    user_errors,
    with_options,
)
from bias_core.app.cli.reports import finish
from bias_core.errors import InvalidInput, quoted
from bias_core.explore.concepts import ConceptList, distinct_concepts, read_concept_list, split_concepts
from bias_core.explore.extension import SUGGESTED, read_attributes, suggest_set
from bias_core.explore.options import (
    COMPARE_SETTINGS,
    EXPLORE_SETTINGS,
    SUGGEST_SETTINGS,
    attribute_text,
    build_concept_settings,
    choose_design,
    compare_settings,
    explore_settings,
    offered_settings,
    usual_suggest_settings,
)
from bias_core.installed import COMMAND
from bias_core.models.catalogue import Role
from bias_core.store.tables import ENDINGS, HUB
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.types import Progress, StudyReport, StudySettings, check_several, parse_arms
from bias_core.values import declared_settings

if TYPE_CHECKING:
    from bias_core.explore.suggest import Suggested

_MOST_LINES = 10  # of one kind of files, in what was understood of pictures
_SETTINGS = declared_settings(StudySettings)
_FLAGS = {"n_images": ("-n",), "n_clusters": ("--clusters",)}
_OF_EXPLORE = offered_settings(
    (*EXPLORE_SETTINGS, "images", "prompts_from", "copies", "drawn_with", "arms"), explore_settings()
)
_OF_A_CONCEPT = ("template", "attribute_a", "attribute_b", "n_attribute_images")
_OF_SUGGEST = offered_settings(SUGGEST_SETTINGS, usual_suggest_settings())
_OF_COMPARE = offered_settings(COMPARE_SETTINGS, compare_settings("", []))
Concept = Annotated[str, typer.Argument(help="Person or thing that is drawn, such as doctor.")]
Attributes = Annotated[
    list[str] | None,
    option(
        MEASURE,
        "Attribute to look for: a built-in name, or 'name|positive sentence|negative sentence[|P*|source]'. Repeat "
        "it for several (default: those that suit the concept, see `attributes`).",
        "--attribute",
    ),
]
NoAttributes = Annotated[bool, option(MEASURE, "Measure no attribute.", "--no-attributes")]


@with_options(_OF_EXPLORE, flags=_FLAGS)
def explore(
    concept: Annotated[
        list[str] | None,
        typer.Argument(
            help="Persons or things that are drawn, such as doctor, or doctor nurse CEO; none with --images takes all "
            "pictures."
        ),
    ] = None,
    *,
    given: Given,
    run_options: RunOptions,
    concepts: Annotated[
        str,
        option(
            DRAW,
            "A list of concepts: occupations, pst-occupations, nationalities, or a CSV file with the column concept, "
            "and attribute, rate, source, n where known.",
            "--concepts",
        ),
    ] = "",
    rate: Annotated[
        list[str] | None,
        option(MEASURE, "Real-world rate of one of several concepts: 'concept|attribute|P*|source'.", "--rate"),
    ] = None,
    count: Annotated[
        list[str] | None, option(DRAW, "Another number of pictures of one concept: 'concept|number'.", "--count")
    ] = None,
    prompts: Annotated[
        str, option(DRAW, f"Prompts instead of a concept: a file {' or '.join(ENDINGS)}, or {HUB}owner/name.")
    ] = "",
    attribute: Attributes = None,
    no_attributes: NoAttributes = False,
) -> None:
    """Draw pictures of one or several concepts and measure which attributes they show.

    Ctrl-C stops: finished pictures are scored, and the exit code is 130.
    """
    with user_errors():
        listed = read_concept_list(concepts) if concepts else ConceptList()
        names = distinct_concepts(
            [*(name for text in concept or () for name in split_concepts(text)), *listed.concepts]
        )
        check_source(names, prompts, given)
        attributes = [] if no_attributes else attribute
        chosen = {**given, "arms": parse_arms(given.get("arms", []))}
        if prompts:
            settings = explore_settings(attributes=(SUGGESTED,) if attributes is None else attributes, **chosen)
        else:
            concept_numbers = {"rates": (*listed.rates, *(rate or ())), "counts": (*listed.counts, *(count or ()))}
            settings = build_concept_settings(names, attributes, **concept_numbers, **chosen)
        if listed.note:
            console.print(listed.note, markup=False)
        _run(settings, run_options, pictures=True, prompts=prompts)


@with_options(_OF_COMPARE, flags=_FLAGS)
def compare(
    concept: Concept,
    *,
    given: Given,
    run_options: RunOptions,
    arm: Annotated[
        list[str],
        option(
            DRAW,
            "One arm, such as condition=fair or 'condition=fair|guidance=3'; repeat it for two to eight arms. An arm "
            "may change name, model, condition, template, negative, guidance, steps (default: as the renderer draws).",
        ),
    ],
    attribute: Attributes = None,
    no_attributes: NoAttributes = False,
) -> None:
    """Draw a concept with two to eight arms (settings to compare) on the same seeds, and test the differences.

    The same as `explore` with `--arm`, except that here an arm's template contains the concept.
    """
    with user_errors():
        arms = check_several(parse_arms(arm))
        attributes = [] if no_attributes else find_attributes(concept, attribute)
        _run(compare_settings(concept, arms, attributes=attributes, **given), run_options)


def check_source(concepts: Sequence[str], prompts: str, given: Given) -> None:
    """Raise InvalidInput if there is nothing to draw, or two things, or an option that prompts leave unused."""
    if not (concepts or prompts or given.get("images")):
        raise InvalidInput("name a concept, such as doctor, or give --prompts or --images")
    if prompts and concepts:
        raise InvalidInput(f"--prompts draws its own prompts: leave the concept {quoted(concepts[0])} out")
    if prompts and (unused := [name for name in _OF_A_CONCEPT if name in given]):
        raise InvalidInput(f"--prompts has no use for --{unused[0].replace('_', '-')}: that is about one concept")


def _run(settings: StudySettings, run_options: RunOptions, *, pictures: bool = False, prompts: str = "") -> None:
    """Run behind a progress bar, print and save. A signal stops within one step; finished pictures are scored."""
    from bias_core.explore.study import prepare_pack
    from bias_core.run.run import run_study

    with open_services(run_options.token_env) as services:
        choose_engine(services, run_options)
        design, settings = prepare_pack(prompts, settings) if prompts else (choose_design(settings), settings)

        def steps(cancelled: Stop) -> Generator[Progress, None, tuple[StudyReport, int]]:
            report = yield from run_study(design, settings, services, cancelled=cancelled)
            return report, cancelled.signal

        report, signum = run_with_bar(steps)
        finish(report, run_options, services, pictures=pictures)
        if signum or services.manifests.get(report.run_id).status == "cancelled":
            raise exit_stopped(signum)


def find_attributes(concept: str, texts: list[str] | None) -> list[str]:
    """Return attributes as a value of the option; without texts, the set that is suggested for the concept."""
    return [attribute_text(attribute) for attribute in read_attributes(texts or [SUGGESTED], concept)]


def models(*, as_json: AsJson = False) -> None:
    """List the models, conditions, encoders and other classifiers that have a name."""
    from bias_core.run.programs import FULL, format_json, models_answer

    with user_errors(), open_services() as services:
        if as_json:
            classifiers = [asdict(tool) | {"role": role} for role in get_args(Role) for tool in services.tools(role)]
            extra_answers = {"conditions": dict(services.catalogue.conditions), "classifiers": classifiers}
            typer.echo(format_json(models_answer(services.models(), FULL) | extra_answers))
            return
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
        show_rows(("model", "conditions", "steps", "guidance", "size", "licence", "on this machine"), rows)
        show_rows(("condition", "what is planted in the calibration world"), [*services.catalogue.conditions.items()])
        encoders = [(item.id, item.library, item.note or item.name) for item in services.tools("encoder")]
        show_rows(("encoder", "library", "what it is"), encoders)
        roles = get_args(Role)[1:]  # all except encoders
        tools = [(role.replace("_", " "), tool) for role in roles for tool in services.tools(role)]
        show_rows(
            ("reads and writes", "as", "what it is"), [(tool.id, role, tool.note or tool.name) for role, tool in tools]
        )


def pictures(
    path: Annotated[Path, typer.Argument(help="Folder or zip of pictures.")],
    *,
    prompts_from: Annotated[str, option(DRAW, f"{_SETTINGS['prompts_from'].sentence}.", "--prompts-from")] = "auto",
    copies: Annotated[str, option(DRAW, f"{_SETTINGS['copies'].sentence}.", "--copies")] = "count once",
    as_json: AsJson = False,
) -> None:
    """Show what is understood of your own pictures: prompts and where they come from, models, copies, unread files.

    Nothing is scored. `explore` and `study run` read --images in the same way, with the same options.
    """
    from bias_core.run.programs import FULL, format_json, look_answer
    from bias_core.store.imports import ImportedImages
    from bias_core.wording import format_counts, limit_list

    with user_errors():
        with Console(stderr=True, emoji=False).status("Reading …") as status:
            source = ImportedImages(path, prompts_from=prompts_from, copies=copies)
            look = source.look(lambda n: status.update(f"Reading: {n:,} of {sum(source.counts.values()):,} pictures"))
        if as_json:
            typer.echo(format_json(look_answer(look, FULL)))
            return
        head = f"{look.name}: {look.n:,} of its pictures count, {look.prompt_count_text}"
        console.print(f"{head}; {len(look.left_out):,} are left out.", markup=False, style="bold")
        show_rows(
            ("prompt", "pictures", "prompt from", "drawn with", "seeds", "to check"),
            [
                (summary.prompt, f"{summary.n:,}", format_counts(summary.sources, summary.n),
                 format_counts(summary.ways, summary.n),
                 f"{summary.n_seeds:,}", "; ".join(summary.checks))
                for summary in look.prompts
            ],
        )  # fmt: skip
        for sentence, lines in (("left out", [*look.left_out_lines]), *look.notes):
            if lines:
                console.print(f"{len(lines):,} {sentence}:", markup=False)
                console.print("\n".join(f"  {line}" for line in limit_list(lines, _MOST_LINES)), markup=False)


def attributes(
    concept: Annotated[str, typer.Argument(help="Show the set for this concept only.")] = "", *, as_json: AsJson = False
) -> None:
    """List the built-in attributes with their real-world rates P*."""
    from bias_core.run.programs import FULL, attributes_answer, format_json
    from bias_core.wording import format_given

    with user_errors(), open_services() as services:
        sets = load_attribute_sets(services.settings.assets_dir / "studies")
        sets = (suggest_set(concept, sets),) if concept else sets
        if as_json:
            typer.echo(format_json(attributes_answer(sets, FULL)))
            return
        rows = [
            (item.title, a.name, a.positive, a.negative, format_given(a.reference), a.reference_source)
            for item in sets
            for a in item.attributes
        ]
        show_rows(("set", "attribute", "positive", "negative", "P*", "source"), rows)


@with_options(_OF_SUGGEST, flags={"n_images": ("-n",)})
def suggest(
    concept: Concept,
    *,
    given: Given,
    run_options: RunOptions,
    words_only: Annotated[bool, option(DRAW, "Draw nothing; ask only the language model.", "--words-only")] = False,
    scenes: Annotated[
        bool, option(DRAW, "Write scenes with this word, for a study of it as a trigger word.", "--scenes")
    ] = False,
) -> None:
    """Suggest attributes to measure in pictures of a concept, with their sources.

    A language model suggests from the words; captions of the pictures are compared with those of a plain baseline.
    """
    from bias_core.explore.options import SuggestOptions
    from bias_core.explore.suggest import DESIGN, read_suggestions, suggested_by_words
    from bias_core.papers.tbyb.study import written_scenes
    from bias_core.run.programs import format_json
    from bias_core.run.run import run_study
    from bias_core.study.types import get_options

    with user_errors(), open_services(run_options.token_env) as services:
        settings = usual_suggest_settings(concept=concept, **given)
        if scenes:
            written = written_scenes(
                concept, get_options(settings, SuggestOptions).language_model, settings.model, services
            )
            if run_options.as_json:
                typer.echo(format_json({"scenes": list(written)}))
            else:
                _show_scenes(concept, written)
            return
        if words_only:
            _show(concept, suggested_by_words(settings, services), run_options)
            return
        choose_engine(services, run_options)

        def steps(cancelled: Stop) -> Generator[Progress, None, StudyReport]:
            return (yield from run_study(DESIGN, settings, services, cancelled=cancelled))

        report = run_with_bar(steps)
        if as_suggestions := run_options.as_json or not run_options.full:
            for note in () if run_options.as_json else report.results.notes:
                console.print(note, markup=False)
            _show(concept, read_suggestions(report), run_options)
        finish(report, run_options, services, pictures=True, is_shown=as_suggestions)


def _show_scenes(word: str, scenes: Sequence[str]) -> None:
    for scene in scenes:
        typer.echo(scene)
    console.print("\nTo draw them, edited or not:", markup=False)
    listed = ",".join(scene.replace(",", "\\,") for scene in scenes)
    typer.echo(f'{COMMAND} study run tbyb-task --option "triggers={word}" --option "scenes={listed}"')


def _show(concept: str, suggested: "list[Suggested]", run_options: RunOptions) -> None:
    if run_options.as_json:
        from bias_core.explore.suggest import suggestions_answer
        from bias_core.run.programs import FULL, SUMMARY, format_json

        typer.echo(format_json(suggestions_answer(suggested, FULL if run_options.full else SUMMARY)))
        return
    table = Table("attribute", "where it comes from", "P*", title=f"Suggested for {concept}")
    for suggestion in suggested:
        rate = suggestion.attribute.reference
        table.add_row(suggestion.attribute.name, suggestion.where_from, "" if rate is None else f"{rate:.2f}")
    show_table(table)
    if suggested:
        console.print("\nTo measure one, edited or not, for example:", markup=False)
        text = attribute_text(suggested[0].attribute)
        console.print(f'{COMMAND} explore "{concept}" --attribute "{text}"', markup=False)
    else:
        console.print("No suggestions: nothing stands out, and the language model names nothing.", markup=False)
