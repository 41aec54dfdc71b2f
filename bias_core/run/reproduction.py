"""Shows the settings of a run as a table, and compares them with the protocol of its paper.

Before a run, :func:`replication_estimate` estimates what it draws and how long that takes.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from bias_core.errors import InvalidInput
from bias_core.models.catalogue import hosted_name, request_words
from bias_core.report.commands import DRAWING_SETTINGS
from bias_core.run.image_rows import ImportedRows, RowMaker, treatment
from bias_core.run.plan import check_size, count_requested_pictures, study_cost
from bias_core.run.study_run import Run
from bias_core.study.classifiers import READER_SETTINGS
from bias_core.study.design import (
    CHECKLIST,
    DIFFERS,
    MET,
    NOT_PRINTED,
    OUR_READING,
    ProtocolItem,
    get_protocol,
    readings_of_paper,
    typed_options,
)
from bias_core.study.types import Arm, Design, StudySettings, StudyTable, arm_text, table
from bias_core.types import ImageRow
from bias_core.values import Setting, declared_settings
from bias_core.wording import format_percent

SETTINGS = "settings"  # key of the table


def settings_table(design: Design, settings: StudySettings) -> StudyTable:
    """Return label, value and default of every setting, every option of the study and every arm.

    >>> from bias_core.study.design import find_design
    >>> design = find_design("oasis-spi")
    >>> frame = settings_table(design, StudySettings(seed=7, options=typed_options(design, {"guided": True}))).frame
    >>> frame[["setting", "value", "default"]].head(3).to_numpy().tolist()
    [['Model', 'calibration-renderer', 'calibration-diffusion'], ['Seed', '7', '0'], ['Guided velocities', 'yes', 'no']]
    """
    rows = list(_rows(design, settings))
    rows.sort(key=lambda row: row["value"] == row["default"])
    n = sum(row["value"] != row["default"] for row in rows)
    note = f"The first {n} differ from the study's defaults." if n else "All are the study's defaults."
    return table(SETTINGS, "Settings of this run", rows, note)


def _rows(design: Design, settings: StudySettings) -> Iterator[dict[str, str]]:
    usual = {name: option.default for name, option in declared_settings(StudySettings).items()} | dict(design.settings)
    for name, option in declared_settings(StudySettings).items():
        has_none = name == "condition" and not settings.condition  # the model has no conditions
        means_nothing = name in DRAWING_SETTINGS and settings.images
        if name not in ("options", "arms", "protocol") and not has_none and not means_nothing:
            yield _row(option, getattr(settings, name), usual[name])
    options = typed_options(design, {})
    for name, option in declared_settings(type(options)).items():
        yield _row(option, getattr(settings.options, name), getattr(options, name))
    for arm in settings.arms:
        drawn = Arm(**{**vars(arm), "images": arm.images and Path(arm.images).name})
        yield {"setting": f"Arm “{arm.name}”", "value": arm_text(drawn).partition("|")[2] or "as above", "default": ""}


def _row(setting: Setting, value: Any, usual: Any) -> dict[str, str]:
    return {"setting": setting.label, "value": _format_value(setting, value), "default": _format_value(setting, usual)}


def _format_value(setting: Setting, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ("", ()):
        return "left out"
    if isinstance(value, (tuple, list)):
        return ", ".join(str(part).partition("|")[0] for part in value)  # an attribute's name
    if setting.local:
        return Path(str(value)).name
    return format_percent(value) if setting.percent else setting.write(value)


NOTE = "The paper's protocol, item by item, next to this run. The last lines say how we fill in what it leaves open."
_TITLES = {
    "revision": "Revision of the model",
    "wording": "Wording of the prompts",
    "pictures": "Number of pictures",
    "images_per_prompt": "Pictures of each prompt",
    "people": "Labels by people",
}
_OF_EVERY_PAPER = (
    "model", "revision", "num_inference_steps", "guidance_scale", "size", "sampler", "seed", "wording", "pictures",
    "encoder",
)  # fmt: skip
_OF_ROWS: Mapping[str, Callable[[ImageRow], Any]] = {
    "num_inference_steps": attrgetter("num_inference_steps"),
    "guidance_scale": attrgetter("guidance_scale"),
    "size": lambda row: f"{row.width}x{row.height}",
    "sampler": attrgetter("sampler"),
}
_OF_DRAWING = {*_OF_ROWS, "model", "seed", "revision"} - {"size"}  # not known of imported pictures
_TRIAL = 8  # pictures that show how long one takes


def protocol_tables(run: Run) -> Iterator[StudyTable]:
    """Yield the checklist of a paper's study, with a column for the arm if there are several; none without a paper."""
    if not run.design.protocol:
        return
    items, rows = get_protocol(run.design), []
    for arm in run.each:
        name = {"arm": arm.name} if run.arms else {}
        rows += [name | row for row in _protocol_rows(items, arm)]
    empty = {"arm": ""} if run.arms else {}
    rows += [
        empty | _protocol_row("Where the paper leaves it open", NOT_PRINTED, text, OUR_READING)
        for text in readings_of_paper(run.design, run.settings)
    ]
    yield table(CHECKLIST, "The paper's protocol: met, or how this run differs", rows, NOTE)


def _protocol_row(item: str, paper: str, run_value: str, status: str) -> dict[str, str]:
    return {"item": item, "status": status, "the paper": paper, "this run": run_value}


def _protocol_rows(items: Mapping[str, ProtocolItem], run: Run) -> Iterator[dict[str, str]]:
    """Yield a line for each item that the paper has, and for those that every paper should have."""
    declared = {**declared_settings(StudySettings), **declared_settings(run.study.options)}
    readers = [name for name in READER_SETTINGS if name in declared]
    labelled = ["people"] if run.study.takes_labels else []
    for name in dict.fromkeys([*_OF_EVERY_PAPER, *readers, *labelled, *items]):
        item = items.get(name, ProtocolItem(says=NOT_PRINTED))
        run_value, is_met = _describe_run_value(name, declared, item, run)
        status = (MET if is_met and not item.here else DIFFERS) if item.is_printed else NOT_PRINTED
        run_value = ": ".join(filter(None, (item.here, run_value)))
        yield _protocol_row(_TITLES[name] if name in _TITLES else declared[name].label, item.words, run_value, status)


def _describe_run_value(name: str, declared: Mapping[str, Setting], item: ProtocolItem, run: Run) -> tuple[str, bool]:
    """Return the value of an item in this run, in words, and True if it is the paper's."""
    settings, rows = run.settings, run.manifest.rows
    if name in _OF_DRAWING and settings.images:
        return "not known: the pictures are imported", False
    if name in _OF_ROWS:
        return _describe_rows(name, item, run)
    if name == "pictures":
        finished = [row for row in rows if row.id in run.images_by_id]
        n_prompts = len({row.prompt for row in finished})
        n = f"{len(finished):,} of {n_prompts:,} prompt{'' if n_prompts == 1 else 's'}"
        return n, len(finished) == item.value
    if name == "images_per_prompt":
        return _range_words(counts := _numbers_of_shots(run)), counts == {item.value}
    if name == "revision":
        return run.manifest.versions.get("model_revision") or "not known", False
    if name == "seed":
        return f"{settings.seed} for the first picture of a prompt, then one more for each", False
    if name == "wording":
        changes = list(_changed_wording(run))
        return "; ".join(changes) or "as the paper's", not changes
    if name == "people":
        by_people = bool(settings.labels) or getattr(settings.options, "labeller", "") == "people"
        return ("people" if by_people else "a classifier"), by_people
    return _describe_setting(declared[name], item, run)


def _describe_setting(setting: Setting, item: ProtocolItem, run: Run) -> tuple[str, bool]:
    """Return the value of a setting or option in words, or the number of pictures that the run really took for it."""
    settings, name = run.settings, setting.name
    if counts := set(run.study.count_taken(settings, run.frame).get(name, ())):
        return _range_words(counts), counts == {item.value}
    value = getattr(settings, name) if hasattr(settings, name) else getattr(settings.options, name)
    if name in READER_SETTINGS and value not in {reader.name for reader in run.readers}:
        return "none: this run uses none", False
    is_met = item.is_paper_value(value)
    shown = _value_words(setting, value, is_met=is_met)
    return f"{shown}, {settings.condition}" if name == "model" and settings.condition else shown, is_met


def _range_words(counts: Collection[int]) -> str:
    return " to ".join(map(str, dict.fromkeys((min(counts), max(counts)))))


def _value_words(setting: Setting, value: Any, *, is_met: bool) -> str:
    """Return the value of a setting; a choice, or a list that is empty by default, if it is the paper's, as that."""
    if is_met and (setting.choices or value == ()):
        return "as in the paper"
    if value is None or value in ("", ()):
        return "default" if value is None else "none"
    return f"“{value}”" if setting.choices and not isinstance(value, bool) else _format_value(setting, value)


def _numbers_of_shots(run: Run) -> set[int]:
    """Return the numbers of pictures of a prompt: those planned, or those of the imported pictures that fit."""
    if isinstance(run.rows, ImportedRows):
        return {run.rows.n_found([shot]) for shot in run.shots}
    return {shot.n for shot in run.shots}


def _describe_rows(name: str, item: ProtocolItem, run: Run) -> tuple[str, bool]:
    """Return the value of an item from the rows of the pictures, which the model was really given."""
    values = list(dict.fromkeys(map(_OF_ROWS[name], run.manifest.rows)))
    info = run.rows.info if isinstance(run.rows, RowMaker) else None
    if info is not None and info.family == "renderer" and name != "size":
        return "none: the renderer draws by rules", False
    if info is not None and hosted_name(info.id) and not any(values):
        return "chosen by the host", False
    words = [f"{value:g}" if isinstance(value, (int, float)) else value or "the model's own" for value in values]
    return ", ".join(words), all(map(item.is_paper_value, values))


def _changed_wording(run: Run) -> Iterator[str]:
    settings = run.settings
    if wording := run.study.design_words(settings).get("wording"):
        yield wording
    if template := treatment(settings):
        yield f"every prompt as “{template}”"
    if settings.negative_prompt:
        yield f"with the negative prompt “{settings.negative_prompt}”"
    if settings.rewrite not in ("", "off"):
        yield "rewritten before they are drawn"


def replication_estimate(run: Run) -> str:
    """Return an estimate of a run (pictures, model, classifiers, downloads, time), and what is not possible here.

    The run must be laid out with ``estimate``: nothing is drawn or loaded for it.
    """
    n = count_requested_pictures(run) or len(run.manifest.rows)
    model = " and ".join(dict.fromkeys(_describe_model(arm) for arm in run.each))
    facts = [run.services.reader_facts(reader.role, reader.name) for reader in run.readers]
    readers = [f"{reader.name}{_download(reader.download_gb)}" for reader in dict.fromkeys(facts)]
    listed = " and ".join(filter(None, (", ".join(readers[:-1]), *readers[-1:])))
    read = f", classified by {listed}" if readers else ""
    problems = list(_problems(run))
    unmet = f" Not possible here: {'; '.join(problems)}." if problems else ""
    note = run.study.run_size(run.each[0].settings).note
    in_brackets = f" ({note})" if note else ""
    return f"{n:,} pictures{in_brackets} with {model}{read}: {_duration(run)}.{unmet}"


def _describe_model(arm: Run) -> str:
    if not isinstance(arm.rows, RowMaker):
        return "no model (they are imported)"
    info, first = arm.rows.info, arm.manifest.rows[0]
    download = "" if arm.services.model_fit(info.id).is_local else _download(info.download_gb)
    steps = f", {first.num_inference_steps} steps" if first.num_inference_steps else ""
    guidance = f", guidance {first.guidance_scale:g}" if first.guidance_scale else ""
    sampler = f", {first.sampler}" if first.sampler else ""
    return f"{info.name}{download} at {first.width}x{first.height} pixels{steps}{guidance}{sampler}"


def _download(gigabytes: float) -> str:
    return f" ({gigabytes:g} GB download)" if gigabytes else ""


def _duration(run: Run) -> str:
    hosted = Counter(
        {arm.settings.model: len(arm.manifest.rows) for arm in run.each if hosted_name(arm.settings.model)}
    )
    if hosted:
        return "; ".join(request_words(n, run.services.model_info(name)) for name, n in hosted.items())
    cost = study_cost(run)
    if all(arm.settings.images for arm in run.each):
        return "nothing is drawn"
    if math.isnan(cost.seconds):
        return f"time unknown here; to estimate it, draw {_TRIAL} first (-n or a small share)"
    stored = f", with {cost.n_stored:,} already stored" if cost.n_stored else ""
    minutes = cost.seconds / 60
    duration = f"{minutes / 60:.1f} h" if minutes >= 90 else f"{max(1, round(minutes))} min"
    return f"about {duration} on this machine{stored}"


def _problems(run: Run) -> Iterator[str]:
    """Yield the parts of the paper's protocol that this machine or this study cannot do."""
    for name in dict.fromkeys(arm.settings.model for arm in run.each if not arm.settings.images):
        fit = run.services.model_fit(name)
        if not fit.works:
            yield f"{name}: {fit.says.rstrip('.')}"
    try:
        if isinstance(run.rows, RowMaker):
            check_size(run, run.services.settings, run.rows)
    except InvalidInput as error:
        yield str(error)
    for name, item in get_protocol(run.design).items():
        if study_value := item.here or (run.study.design_words(run.settings).get(name) if name == "wording" else ""):
            title = _TITLES.get(name, name.replace("_", " "))
            yield f"{title[:1].lower() + title[1:]} (the paper: {item.words}; here: {study_value})"
