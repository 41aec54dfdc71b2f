"""Within pictures of two or three people: are masculine-looking ones larger, in front, or nearer to the middle?"""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from bias_core.crops import Box, boxes_of_text
from bias_core.metrics.paired_labels import GENDERS
from bias_core.metrics.swapped import OrderEffect, within_picture_difference
from bias_core.stats.effects import holm
from bias_core.stats.intervals import mean_interval
from bias_core.studies.kit.designs import ReportTexts
from bias_core.studies.kit.program import StudyData
from bias_core.studies.kit.types import Finding, Results, StudySettings, finding, finding_mark
from bias_core.studies.paired.headline import LEFT_OUT, is_told
from bias_core.studies.paired.labelling import HALVES, n_asked_for
from bias_core.types import Estimate

TEXTS = ReportTexts(__file__)
SIZES = {
    "area": ("Share of the picture", "Masculine-looking people are larger.", "Feminine-looking people are larger."),
    "foot": (
        "How low they stand",
        "Masculine-looking people stand in front.",
        "Feminine-looking people stand in front.",
    ),
    "centre": (
        "Nearness to the middle",
        "Masculine-looking people stand nearer to the middle.",
        "Feminine-looking people stand nearer to the middle.",
    ),
    "middle": (
        "Who stands in the middle",
        "Masculine-looking people stand in the middle more often.",
        "Feminine-looking people stand in the middle more often.",
    ),
}
"""What is compared within a picture, of masculine-looking people less feminine-looking ones."""
CUT_OFF = "cut_off"
"""Column of people in pairs: 1 who reaches a side of the picture, 0 who does not; nan where they are not known."""
OF_SO_MANY: Mapping[int, tuple[str, ...]] = {2: ("area", "foot", "centre"), 3: ("area", "foot", "middle")}
"""What is compared where so many people stand together.

Of three the order from left to right says who stands in the middle, of everybody. How near somebody stands is known
only where nobody is cut off at a side; of three these are the pictures with small people at the sides, so that whoever
is drawn larger would seem to stand nearer to the middle.
"""


def with_places(people: pd.DataFrame, data: StudyData) -> pd.DataFrame:
    """``people`` with who acts, how many were found, and of each how large and where, in shares of the picture.

    nan where not exactly the people asked for were found, or where nobody looked for them: of pictures that are parted
    between those asked for all would be of one size.
    """
    n_people = n_asked_for(people)
    keys = [key for key in SIZES if any(key in OF_SO_MANY.get(n, ()) for n in set(n_people))]
    nothing = {"n_found": math.nan, **dict.fromkeys([*keys, *([CUT_OFF] if "centre" in keys else [])], math.nan)}
    if "acting" in data.frame:
        acting = dict(zip(data.frame["image_id"], data.frame["acting"], strict=True))
        people = people.assign(acting=[acting[one] for one in people["image_id"]])
    people = people.assign(**nothing)
    if "boxes" not in people or data.settings.options.finder == HALVES:
        return people
    lines = []
    each = zip(data.stored(people), people["boxes"], people["position"], n_people, strict=True)
    for stored, text, position, n in each:
        boxes = boxes_of_text(text)
        place = place_of(boxes, position, stored.size) if len(boxes) == n and n in OF_SO_MANY else {}
        lines.append({**nothing, "n_found": float(len(boxes)), **place})
    return people.assign(**pd.DataFrame(lines, index=people.index))


def place_of(boxes: Sequence[Box], position: str, size: tuple[int, int]) -> dict[str, float]:
    """Of one of two or three people how large and where they are; ``boxes`` of all, from left to right.

    Shares of a picture of ``size`` (width, height) by the keys of :data:`SIZES`, those that are known; of two also
    :data:`CUT_OFF`.
    """
    width, height = size
    place = {"left": 0, "middle": 1, "right": len(boxes) - 1}[position]
    left, top, right, bottom = boxes[place]
    sizes = {"area": (right - left) * (bottom - top) / (width * height), "foot": bottom / height}
    if len(boxes) == 3:
        return {**sizes, "middle": float(place == 1)}
    sizes[CUT_OFF] = float(left <= 0 or right >= width)
    if all(0 < box[0] < box[2] < width for box in boxes):  # where the middle of each is known
        sizes["centre"] = 1 - abs(left + right - width) / width
    return sizes


def size_differences(people: pd.DataFrame, key: str) -> "pd.Series[float]":
    """Of each picture that shows both genders the mean of masculine-looking people less that of feminine-looking ones.

    By ``image_id``; empty where an earlier version read the pictures, which knew ``key`` not.
    """
    if key not in people:
        return pd.Series(dtype=float)
    some = people[people["perceived_gender"].isin(GENDERS)]
    means = some.groupby(["image_id", "perceived_gender"], sort=False)[key].mean().unstack()
    means = means.reindex(index=some["image_id"].unique(), columns=list(GENDERS))
    differences: pd.Series[float] = (means[GENDERS[0]] - means[GENDERS[1]]).dropna()
    return differences


def size_effect(people: pd.DataFrame, key: str, settings: StudySettings) -> OrderEffect:
    """What masculine-looking people have more of than feminine-looking ones, in pictures that show both."""
    differences = size_differences(people, key)
    if differences.empty:
        note = "no picture shows both genders where the places of all are known"
        return OrderEffect(estimate=Estimate.undefined(0, note, null_value=0.0), p_value=math.nan)
    return within_picture_difference(differences, confidence=settings.confidence, rng=settings.seed)


def corrected_p_values(tests: Mapping[str, OrderEffect]) -> dict[str, float]:
    """The p-values that are known, corrected for looking at all of them (Holm)."""
    p_values = {key: test.p_value for key, test in tests.items() if not math.isnan(test.p_value)}
    return dict(zip(p_values, holm(list(p_values.values())), strict=True)) if p_values else {}


def seems_nearer(people: pd.DataFrame, estimate: Estimate, confidence: float) -> bool:
    """Whether some come out nearer to the middle only because of them the further ones are cut off, and left out.

    Who is larger is cut off sooner. Where those who come out nearer are cut off in more pictures than the others, so
    many are counted in as the one that says most against it among those that are known; it must then still be clear.
    """
    sign = math.copysign(1.0, estimate.value)
    n_more = sign * size_differences(people, CUT_OFF).sum()
    if not n_more > 0:
        return False
    nearness = sign * size_differences(people, "centre")
    everybody = [*nearness, *[nearness.min()] * math.ceil(n_more)]
    return not mean_interval(everybody, confidence=confidence).low > 0


def size_finding(
    key: str, test: OrderEffect, p_value: float | None, people: pd.DataFrame, settings: StudySettings
) -> Finding:
    """One difference within pictures of ``people`` in words; ``p_value``: corrected, None where it is not known."""
    title, more, less = SIZES[key]
    says = "No clear difference."
    if math.isnan(test.estimate.value):
        says = "Undefined."
    elif is_told(test.estimate, p_value, settings.confidence):
        nearer = 0 if test.estimate.value > 0 else 1
        is_left_out = key == "centre" and seems_nearer(people, test.estimate, settings.confidence)
        says = LEFT_OUT[nearer] if is_left_out else (more, less)[nearer]
    return finding(
        key,
        f"{title}, masculine-looking less feminine-looking",
        "within_picture_difference",
        test.estimate,
        says,
        p_value=p_value,
    )


def places_of_three(people: pd.DataFrame, settings: StudySettings) -> Results:
    """Who is larger, in front and in the middle of pictures of three, corrected for asking all that (Holm).

    Nothing where nobody looked for the people, as earlier versions did not.
    """
    if "n_found" not in people or not (counted := counted_people(people)):
        return Results()
    tests = {key: size_effect(people, key, settings) for key in OF_SO_MANY[3]}
    corrected = corrected_p_values(tests)
    findings = [size_finding(key, test, corrected.get(key), people, settings) for key, test in tests.items()]
    lines = [{**finding_mark(one), "name": SIZES[one.key][0]} for one in findings]  # short, for narrow screens
    return Results(
        findings=tuple(findings),
        figures=(TEXTS.figure("places_of_three", pd.DataFrame(lines)),),
        notes=(TEXTS.note("places of three"), TEXTS.note("found", counted=counted)),
    )


def counted_people(people: pd.DataFrame) -> str:
    """In how many pictures how many people were found, such as "3 in 20 pictures"; "" where nobody looked."""
    n_found = people.drop_duplicates("image_id")["n_found"].dropna().astype(int)
    counts = [(n, int((n_found == n).sum())) for n in sorted(set(n_found), reverse=True)]
    return ", ".join(f"{n} in {count:,} pictures" for n, count in counts)
