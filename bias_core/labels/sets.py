"""Set against set: which of two sets of a run's pictures shows more of something, and how many of one of them do.

Both sets stand side by side in one picture, so that a rater judges them at a glance; the count of one set, asked after
the judgement, says what a rater's judgement is worth in pictures. What is known of the sets stays with the task, and no
rater is told of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageOps

from bias_core.annotation.collected import LabelledItem
from bias_core.annotation.task_owner import TaskPicture
from bias_core.annotation.tasks import COUNT, HALF, SETS, Task, sets_task
from bias_core.errors import InvalidInput
from bias_core.metrics.set_judgements import ALIKE, LEFT, RIGHT, SetJudgements, set_judgements
from bias_core.protocols import TextToImage
from bias_core.stats.effects import wilson_interval
from bias_core.stats.intervals import mean_interval
from bias_core.studies.explore.options import KIND
from bias_core.studies.explore.results import CONCEPT
from bias_core.studies.kit.types import Finding, Results, StudyReport, columns, drawable, figure, finding, mark, table
from bias_core.studies.running.run_readings import readings_of
from bias_core.types import Estimate, ImageRow

JUDGED = "judgement slope"  # key of the finding that a headline tells
SIZE = 6  # pictures of a set
N_PAIRS = 40
EXAMPLE_MODEL = "calibration-renderer"
EXAMPLE_PROMPT, EXAMPLE_ABOUT = "a photo of a doctor", "man"
EXAMPLE_CONDITIONS = ("fair", "published", "extreme")
EXAMPLE_PICTURES, EXAMPLE_PAIRS, EXAMPLE_CHECKS = 30, 20, 3
_ACROSS = 2  # pictures of a set side by side
_SIDE, _GAP, _BETWEEN = 224, 6, 48  # pixels
_SMALL = 128  # pixels below which a picture is enlarged without smoothing
_BY_COUNT = "as raters count"
_JUDGED_NOTE = (
    "share: of the pictures shown, as the run's reader tells it; counted: mean over raters of the share that they "
    "count, with the interval of Student's t; strength: log odds of being judged to have more than the mean of all "
    "sets [bradley1952], robust over raters."
)
_HALF_NOTE = (
    "Raters were asked which set is closer to half: a difference is how much nearer to 50 % the share of the right set "
    "is than that of the left one, and a set's strength its log odds of being judged closer to half."
)
_BY_DIFFERENCE_NOTE = "Alike counts half. Wilson intervals, which take judgements to be independent."


@dataclass(frozen=True, kw_only=True)
class SetPicture:
    """A picture that a set may hold."""

    path: Path
    shows: float  # 1 or 0 as the reader says, nan where it cannot tell or was not asked


def sets_of(report: StudyReport, about: str) -> dict[str, list[SetPicture]]:
    """The run's stored pictures by arm, else by group, else by prompt; InvalidInput for fewer than two such sets."""
    frame = report.pictures
    if frame is None or frame.empty:
        raise InvalidInput("this run has no pictures to make sets of")
    if report.design.kind == KIND and (frame["group"] == CONCEPT).any():
        frame = frame[frame["group"] == CONCEPT]
    calls: dict[str, float] = {}
    for one in readings_of(report):
        if one.attribute is not None and one.attribute.name.casefold() == about.strip().casefold():
            codes = np.where(one.codes <= 1, one.codes.astype(float), np.nan)
            calls |= dict(zip(one.image_ids, codes.tolist(), strict=True))
    by = next((name for name in ("arm", "group", "prompt") if name in frame and frame[name].nunique() > 1), "")
    sets: dict[str, list[SetPicture]] = {}
    for row in (frame.drop_duplicates("image_id") if by else frame.iloc[:0]).to_dict("records"):
        stored = report.stored.get(row["image_id"])
        if stored is not None and stored.path.is_file():
            picture = SetPicture(path=stored.path, shows=calls.get(row["image_id"], np.nan))
            sets.setdefault(str(row[by])[:100], []).append(picture)
    if len(sets) < 2:
        raise InvalidInput(
            "sets are compared of a run with arms, groups or prompts: this one has fewer than two of them"
        )
    if few := [name for name, pictures in sets.items() if len(pictures) < SIZE]:
        raise InvalidInput(f"a set shows {SIZE} pictures, and {few[0]!r} has {len(sets[few[0]])}: draw more pictures")
    return sets


def set_items(
    sets: dict[str, list[SetPicture]], n_pairs: int, seed: int, folder: Path
) -> tuple[list[TaskPicture], dict[str, Any]]:
    """Pairs of sets as pictures, and by their ids what is known of them, for :attr:`Task.sets`.

    Which sets, which of their pictures, which side and which set is counted are drawn by lot.
    """
    rng, names = np.random.default_rng(seed), list(sets)
    made, facts = [], {}
    for number in range(1, n_pairs + 1):
        left, right = (names[i] for i in rng.choice(len(names), 2, replace=False))
        chosen = [[sets[name][i] for i in rng.choice(len(sets[name]), SIZE, replace=False)] for name in (left, right)]
        image_id = f"pair-{number}"
        path = folder / f"{image_id}.png"
        side_by_side(*[[one.path for one in some] for some in chosen]).save(path)
        identities = {COUNT: (LEFT, RIGHT)[int(rng.integers(2))]}
        made.append(TaskPicture(image_id=image_id, identities=identities, path=path))
        shares = [float(np.mean([one.shows for one in some])) for some in chosen]
        facts[image_id] = [left, right, *(None if np.isnan(share) else share for share in shares), SIZE]
    return made, facts


def check_items(
    sets: dict[str, list[SetPicture]], n: int, seed: int, folder: Path, *, half: bool = False
) -> list[TaskPicture]:
    """Pairs of sets whose answers are known by count, to see whether raters look; InvalidInput for too few pictures.

    All pictures of one set show it and none of the other's; or, asked which is closer to ``half``, half of one set's,
    and all or none of the other's. The pictures are of all sets, those of which it is known.
    """
    rng, pictures = np.random.default_rng([seed, 1]), [one for some in sets.values() for one in some]
    of = {shows: [one for one in pictures if one.shows == shows] for shows in (0.0, 1.0)}
    if n and min(map(len, of.values())) < SIZE:
        raise InvalidInput(
            f"an attention check of sets needs {SIZE} pictures that are known to show it and {SIZE} that do not; there "
            f"are {len(of[1.0])} and {len(of[0.0])}: draw more pictures, or set the attention checks to 0"
        )
    made = []
    for number in range(1, n + 1):
        other = SIZE * int(rng.integers(2)) if half else 0
        counts = [SIZE // 2 if half else SIZE, other]  # of the set that the answer names, and of the other one
        place = int(rng.integers(2))
        counts = counts if place == 0 else counts[::-1]
        chosen = [_some(of[1.0], count, rng) + _some(of[0.0], SIZE - count, rng) for count in counts]
        shuffled = [[some[i].path for i in rng.permutation(SIZE)] for some in chosen]
        counted = int(rng.integers(2))
        path = folder / f"check-{number}.png"
        side_by_side(*shuffled).save(path)
        gold = {HALF if half else SETS: (LEFT, RIGHT)[place], COUNT: str(counts[counted])}
        identities = {COUNT: (LEFT, RIGHT)[counted]}
        made.append(TaskPicture(image_id=path.stem, identities=identities, path=path, gold=gold))
    return made


def _some(pictures: Sequence[SetPicture], n: int, rng: np.random.Generator) -> list[SetPicture]:
    return [pictures[i] for i in rng.choice(len(pictures), n, replace=False)] if n else []


def sets_order(
    sets: dict[str, list[SetPicture]],
    about: str,
    n_pairs: int,
    seed: int,
    folder: Path,
    *,
    half: bool = False,
    n_checks: int = 0,
    **changes: Any,
) -> tuple[Task, list[TaskPicture]]:
    """The task about pairs of these sets, with its pictures in ``folder``; ``changes`` are other fields of it."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures, facts = set_items(sets, n_pairs, seed, folder)
    checks = check_items(sets, n_checks, seed, folder, half=half)
    return sets_task(about, SIZE, half=half, sets=facts, **changes), [*pictures, *checks]


def example_sets(generator: TextToImage, folder: Path) -> dict[str, list[SetPicture]]:
    """Sets of the calibration world of which it is on record who is in every picture: men, ever more of them."""
    folder.mkdir(parents=True, exist_ok=True)
    sets: dict[str, list[SetPicture]] = {}
    for condition in EXAMPLE_CONDITIONS:
        rows = [
            ImageRow(prompt=EXAMPLE_PROMPT, model=EXAMPLE_MODEL, condition=condition, seed=seed)
            for seed in range(EXAMPLE_PICTURES)
        ]
        for made in generator.generate(rows):
            path = folder / f"{condition}-{made.row.seed}.png"
            made.image.save(path)
            shows = float((made.truth or {}).get("gender") == "masculine")
            sets.setdefault(f"doctor, {condition}", []).append(SetPicture(path=path, shows=shows))
    return sets


def side_by_side(left: Sequence[Path], right: Sequence[Path]) -> Image.Image:
    """Both sets in one picture."""
    down = -(-max(len(left), len(right)) // _ACROSS)
    width = _ACROSS * _SIDE + (_ACROSS - 1) * _GAP
    whole = Image.new("RGB", (2 * width + _BETWEEN, down * _SIDE + (down - 1) * _GAP), "white")
    for paths, start in ((left, 0), (right, width + _BETWEEN)):
        for place, path in enumerate(paths):
            row, column = divmod(place, _ACROSS)
            with Image.open(path) as opened:
                picture = opened.convert("RGB")
            how = Image.Resampling.NEAREST if max(picture.size) <= _SMALL else Image.Resampling.LANCZOS
            fitted = ImageOps.pad(picture, (_SIDE, _SIDE), method=how, color="white")
            whole.paste(fitted, (start + column * (_SIDE + _GAP), row * (_SIDE + _GAP)))
    return whole


def judgements_of(labelled: Sequence[LabelledItem], task: Task) -> pd.DataFrame:
    """A row for each rater and pair: sets, difference of their shares, choice, and what was counted of which set.

    Asked which is closer to half, the difference is of how close the shares are to it.
    """
    rows, which = [], task.positions[0]
    for one in labelled:
        if one.item.gold is not None or one.item.image_id not in task.sets:
            continue
        left, right, *shares, size = task.sets[one.item.image_id]
        of_left, of_right = (np.nan if share is None else float(share) for share in shares)
        side = one.item.identities[COUNT]
        counted, share = (left, of_left) if side == LEFT else (right, of_right)
        rows += [
            (given.rater, left, right, _gap(of_left, of_right, half=which == HALF), given.choices[which], counted,
             int(given.choices[COUNT]) / size, share)
            for given in one.answers
        ]  # fmt: skip
    names = ("rater", "left", "right", "difference", "choice", "counted set", "counted", "share")
    return pd.DataFrame(rows, columns=names)


def _gap(of_left: Any, of_right: Any, *, half: bool) -> Any:
    """What the right set has more than the left one: of a share, or of how close it is to one half."""
    return abs(of_left - 0.5) - abs(of_right - 0.5) if half else of_right - of_left


def set_results(labelled: Sequence[LabelledItem], task: Task) -> Results:
    """What the judgements say: how fine raters see, in the reader's shares and in their own counts; the sets' order."""
    frame = judgements_of(labelled, task)
    if frame.empty:
        return Results()
    judged = set_judgements(frame)
    counted = frame.groupby("counted set")["counted"].mean()
    half = HALF in task.positions
    of_counts = _gap(frame["left"].map(counted), frame["right"].map(counted), half=half)
    by_count = set_judgements(frame.assign(difference=of_counts))
    by_difference, note = _by_difference(frame), f"{_HALF_NOTE} {_BY_DIFFERENCE_NOTE}" if half else _BY_DIFFERENCE_NOTE
    return Results(
        findings=tuple(_findings(frame, judged, by_count)),
        tables=(
            table("sets", "The sets, as read, as counted and as judged", _set_rows(frame, judged, task), _JUDGED_NOTE),
            table("judged", "What is judged, by the difference", by_difference, note),
        ),
        figures=drawable([_figure(by_difference, half=half)]),
    )


def _findings(frame: pd.DataFrame, judged: SetJudgements, by_count: SetJudgements) -> Iterator[Finding]:
    for key, words, one in (("", "by the reader’s shares", judged), (" counted", _BY_COUNT, by_count)):
        threshold = one.threshold
        says = threshold.note or _threshold_text(threshold)
        yield finding(f"{JUDGED}{key}", f"Slope of judgements, {words}", "judgement_slope", one.slope, says)
    yield finding(
        "judgement side", "Side that raters prefer", "judgement_side", judged.side,
        judged.side.note or "Where both sets have equally much.",
    )  # fmt: skip
    errors = (frame["counted"] - frame["share"]).groupby(frame["rater"]).mean().dropna()
    if len(errors):
        far = mean_interval(errors.to_numpy(), null_value=0.0)
        yield finding(
            "count error", "Counted share less the reader’s", "prevalence_difference", far,
            "Mean over raters, of the sets that they counted: raters see more than the reader, or less.",
        )  # fmt: skip


def _threshold_text(threshold: Estimate) -> str:
    points, low, high = (100 * end for end in (threshold.value, threshold.low, threshold.high))
    return f"A difference of {points:.0f} points ({low:.0f} to {high:.0f}) is seen in three of four judgements."


def _set_rows(frame: pd.DataFrame, judged: SetJudgements, task: Task) -> list[dict[str, Any]]:
    shares: dict[str, list[float]] = {}
    for left, right, of_left, of_right, _ in task.sets.values():
        for name, share in ((left, of_left), (right, of_right)):
            shares.setdefault(name, []).append(np.nan if share is None else share)
    rows = []
    for name, strength in judged.strengths.items():
        by_rater = frame[frame["counted set"] == name].groupby("rater")["counted"].mean()
        counted = mean_interval(by_rater.to_numpy()) if len(by_rater) else None
        rows.append({
            "set": name, "share": float(np.mean(shares[name])), **columns("counted", counted),
            **columns("strength", strength), "counts": int((frame["counted set"] == name).sum()), "note": strength.note,
        })  # fmt: skip
    return rows


def _by_difference(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The share that chose the right set, at each difference; halves of two who say alike are rounded up."""
    some = frame[frame["difference"].notna()]
    chosen = some["choice"].map({LEFT: 0.0, ALIKE: 0.5, RIGHT: 1.0})
    rows = []
    for points, picked in chosen.groupby((100 * some["difference"]).round().astype(int)):
        share = wilson_interval(int(np.floor(picked.sum() + 0.5)), len(picked))
        share = Estimate(
            value=float(picked.mean()), low=min(share.low, float(picked.mean())), high=share.high, n=share.n
        )
        rows.append({"right less left, points": points, **columns("right chosen", share), "judgements": len(picked)})
    return rows


def _figure(rows: Sequence[dict[str, Any]], *, half: bool) -> Any:
    marks = [
        mark(
            f"{row['right less left, points']:+d} points",
            Estimate(
                value=row["right chosen"],
                low=row["right chosen low"],
                high=row["right chosen high"],
                n=row["judgements"],
            ),
        )
        for row in rows
    ]
    than = "closer to half the right set is" if half else "more the right set has"
    caption = f"The {than}, the more often it should be chosen; on the line raters cannot tell."
    title = f"How often raters choose the right set, by how much {'closer to half it is' if half else 'more it has'}"
    return figure("intervals", "judged", title, marks, caption, x="share of judgements", null=0.5)
