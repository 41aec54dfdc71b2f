"""PST: the people in each picture, and the gender that people or classifiers perceive."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.measures.paired_stereotype import (
    ALL_ANSWERS,
    ANDROGYNOUS,
    CANNOT_IDENTIFY,
    NOT_TWO_PEOPLE,
    UNCLEAR,
    merge_ratings,
)
from bias_core.people import Box, boxes_of_text, boxes_text, crop_people, person_halves, whole_picture
from bias_core.protocols import ImageTextEncoder
from bias_core.report.report_text import get_table
from bias_core.run.attribute_scores import CALLS, ask_judge, choose_calls, question_about
from bias_core.run.limits import report_unread_on_stop
from bias_core.run.study_run import Run, Steps
from bias_core.store.readings import open_original
from bias_core.study.answers import AUTOMATIC, count_answers, make_answer_frame
from bias_core.study.attributes import find_attribute, load_attribute_sets
from bias_core.study.classifiers import Reader
from bias_core.study.label_tasks import POSITIONS, SINGLE
from bias_core.study.study import encoders_and_judge, get_judge_reader
from bias_core.study.types import AUTO, Design, StudyReport, StudySettings, get_options
from bias_core.study_services import StudyServices
from bias_core.types import Attribute, StoredImage
from bias_core.values import Options, setting, settings_class

T = TypeVar("T")

_WHERE = "where are the people?"  # under which their boxes are stored
_Found = tuple[list[Box], np.ndarray]
HALVES = "halves"  # no finder: trust the prompt and split every picture between the people asked for

MOST_ALSO_SEEN = 2  # attributes that a score is crossed with

RATERS_SPLIT = "raters split"
"""Column: two answers about a person have the same number of votes."""
LABELLED = "Perceived gender is labelled"  # start of the first note on labels
PEOPLE, BY_HAND = "people", "by hand"
"""The raters of labels, in addition to AUTOMATIC."""


@settings_class(frozen=True, kw_only=True)
class LabellingOptions(Options):
    """Options: the classifier that labels people."""

    labeller: Literal["finder", "vqa", "people"] = setting(
        "finder",
        "Labeller",
        "Labeller of each person: finder (cuts people out and compares them with the sentences), vqa (the "
        "paper's questions), or people (only their answers)",
    )
    finder: str = setting(
        AUTO,
        "Person finder",
        "Model that cuts people out; halves uses the left and right half of each picture, without a check",
    )
    answerer: str = setting(AUTO, "Answerer", "Model that answers the questions of vqa")
    sentences: tuple[str, ...] = setting(
        ("a photo of a man", "a photo of a woman"),
        "Sentences",
        "Sentences that each person is compared with; the first describes a masculine-looking person",
    )
    also_seen: tuple[str, ...] = setting(
        (), "Also seen", "One or two further attributes of each person, such as old; the score is also given for each"
    )
    margin: float = setting(
        0.01,
        "Margin",
        "Smallest difference between the two cosines; below it, a person cannot be identified",
        ge=0,
        le=2,
    )


@settings_class(frozen=True, kw_only=True)
class PairOptions(LabellingOptions):
    """Options: the classifier that labels, and the number of pictures of each identity alone."""

    single_images: int = setting(
        3, "Pictures of each alone", "Pictures of each occupation or role without the other", ge=1, le=1000
    )


def check_labelling(settings: StudySettings) -> None:
    """Raise InvalidInput for options that cannot be used, before drawing."""
    options = get_options(settings, LabellingOptions)
    if options.labeller == "people" and not settings.labels:
        raise InvalidInput("the labeller “people” needs a CSV of people's answers, under “People's answers”")
    if settings.judge and options.labeller != "finder":
        raise InvalidInput(
            "a judge needs people who are cut out, and the labeller "
            f"“{options.labeller}” cuts out none: take the labeller “finder”, or no judge"
        )
    if len(set(options.sentences)) != 2:
        raise InvalidInput(f"two sentences are needed, first for a masculine-looking person; got {options.sentences}")
    if also_seen(options.also_seen) and (settings.judge or options.labeller != "finder"):
        raise InvalidInput(
            "“Also seen” needs an encoder and people who are cut out: take the labeller “finder” without a "
            "judge, or leave “Also seen” empty"
        )


def also_seen(texts: Sequence[str]) -> tuple[Attribute, ...]:
    """Return the further attributes by names or sentences; InvalidInput for unknown, repeated or too many ones."""
    attributes = tuple(find_attribute(text, "", load_attribute_sets()) for text in texts)
    names = [attribute.name for attribute in attributes]
    if len(names) > MOST_ALSO_SEEN or len({*names}) < len(names):
        raise InvalidInput(f"“Also seen” takes at most {MOST_ALSO_SEEN} different attributes; got {', '.join(names)}")
    return attributes


def get_column(attribute: Attribute) -> str:
    """Return the column of an attribute in a table of people: 1 seen, 0 not seen, nan unknown."""
    return f"seen: {attribute.name}"


def labelling_readers(settings: StudySettings) -> tuple[Reader, ...]:
    """Return the classifiers that label people; () if raters alone do."""
    options = get_options(settings, LabellingOptions)
    if options.labeller == "people":
        return ()
    if options.labeller == "vqa":
        return (Reader(role="answerer", name=options.answerer),)
    finder = Reader(role="person_finder", name=options.finder)
    readers = get_judge_reader(settings) or encoders_and_judge(settings)
    return readers if options.finder == HALVES else (*readers, finder)


def labeller_ready(settings: StudySettings, services: StudyServices) -> None:
    """Check that the models that label are available."""
    options, blank = get_options(settings, LabellingOptions), Image.new("RGB", (64, 64))
    if options.labeller == PEOPLE:
        return
    if options.labeller == "vqa":
        answerer = services.answerer(options.answerer)
        with services.reading(answerer):
            answerer.answer([blank], ["What gender is the person in the picture?"])
    elif options.finder != HALVES:
        finder = services.person_finder(options.finder)
        with services.reading(finder):
            finder.find(blank)


def list_people(frame: pd.DataFrame, identities: pd.DataFrame) -> pd.DataFrame:
    """Return one row per person asked for: ``image_id, setting, seed, position, identity`` and the identity's columns.

    Parameters
    ----------
    frame : pictures with ``setting``, ``left`` and ``right`` (the identities asked for; ``left`` alone in the single
        setting); InvalidInput if empty.
    identities : ``stereotyped_gender`` and further columns, by identity.
    """
    if frame.empty:
        raise InvalidInput("no picture can be scored: none was drawn, or all were blocked")
    places = [(place, frame[frame[place].fillna("") != ""]) for place in POSITIONS[2]]
    people = pd.concat(
        [
            pictures.assign(identity=pictures[place], position=np.where(pictures["setting"] == SINGLE, SINGLE, place))
            for place, pictures in places
        ]
    ).sort_index(kind="stable")  # from left to right
    columns = ["image_id", "setting", "seed", "position", "identity"]
    columns += ["unit"] * ("unit" in people)
    return people[columns].join(identities, on="identity").reset_index(drop=True)


def count_requested_people(people: pd.DataFrame) -> "pd.Series[int]":
    """Return for each person the number of people asked for in the picture."""
    counts: pd.Series[int] = people.groupby("image_id")["position"].transform("nunique")
    return counts


def label_people(people: pd.DataFrame, design: Design, settings: StudySettings, data: Run) -> Steps[pd.DataFrame]:
    """Return ``people`` with the classifier's answers and the ground truth, if any.

    Returns
    -------
    DataFrame : with the columns ``automatic``, ``human`` (empty), ``truth`` (None where there is none), ``margin`` (by
        how much the classifier prefers the masculine sentence: a difference of cosines, or of a judge's probabilities
        of yes; nan if not asked), ``boxes`` (:func:`bias_core.people.boxes_text` of all people that the finder found),
        those of :func:`get_column` for further attributes, ``perceived_gender`` (the classifier's answer, None if only
        people label), and ``rater``.
    """
    labelled = people.assign(**dict.fromkeys(("automatic", "human", "truth", "perceived_gender")), margin=np.nan)
    labeller = get_options(settings, LabellingOptions).labeller
    if labeller == "finder":
        by_reader = _label_with_judge if settings.judge else _label_with_encoder
        labelled["automatic"], leans, labelled["boxes"], further = yield from by_reader(people, settings, data)
        labelled = labelled.assign(**further)
        labelled["margin"] = np.round(leans, 4)  # the last digits depend on the batch
    elif labeller == "vqa":
        labelled["automatic"] = yield from _label_with_answerer(people, design, settings, data)
    labelled["truth"] = [
        None if truth is None else recorded_gender(truth, position, n)
        for truth, position, n in zip(
            data.truths(people), people["position"], count_requested_people(people), strict=True
        )
    ]
    labelled["perceived_gender"], labelled["rater"] = labelled["automatic"], AUTOMATIC
    return labelled


def seen_in_pictures(people: pd.DataFrame, frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Return columns for ``frame``: gender seen on the left (or alone) and on the right, margins and boxes."""
    labels = people.set_index(["image_id", "position"])[["perceived_gender", "margin"]]
    columns: dict[str, list[Any]] = {}
    for side in POSITIONS[2]:
        alone = (frame["setting"] == SINGLE) & (side == "left")
        of_side = labels.reindex(pd.MultiIndex.from_arrays([frame["image_id"], np.where(alone, SINGLE, side)]))
        columns[f"{side}_seen_as"] = of_side["perceived_gender"].fillna("").tolist()
        columns[f"{side}_margin"] = of_side["margin"].tolist()
    if "boxes" in people:
        by_picture = people.dropna(subset="boxes").drop_duplicates("image_id").set_index("image_id")["boxes"]
        columns["boxes"] = by_picture.reindex(frame["image_id"]).fillna("").tolist()
    return columns


def with_answers(people: pd.DataFrame, answers: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return ``people`` with labels from answers, the answers as ratings, and notes.

    The majority of raters counts. A person without an answer has no label; in a setting without answers, all keep the
    classifier's label.
    """
    ratings = _ratings(people, answers)
    is_new = people["setting"].isin(ratings["setting"])
    human, _ = _merged(people, ratings[ratings["rater"] != AUTOMATIC])
    perceived, split = _merged(people, ratings)
    hand, _ = _merged(people, ratings[ratings["rater"] == BY_HAND])
    labelled = people.assign(
        human=human,
        perceived_gender=perceived.where(is_new, people["automatic"]),
        rater=np.select([hand.notna(), human.notna()], [BY_HAND, PEOPLE], AUTOMATIC),
    )
    by_hand = answers["task"].eq(BY_HAND).all()
    if by_hand and RATERS_SPLIT in people:  # answers that were merged earlier
        labelled[RATERS_SPLIT] = people[RATERS_SPLIT].astype(bool) & hand.isna()
    elif not by_hand:
        labelled[RATERS_SPLIT] = split
    kept = people.loc[~is_new & people["automatic"].notna(), "setting"].unique()
    notes = [
        f"Pictures in the {setting} setting keep the classifier's labels: people labelled none." for setting in kept
    ]
    return labelled, ratings, [] if by_hand else [*notes, count_answers(answers) + _split_note(labelled)]


_PERSON = ["image_id", "position"]


def _ratings(people: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers, one row each with its person."""
    person = people[[*_PERSON, "setting", "identity", "stereotyped_gender"]]
    given = answers[[*_PERSON, "answer", "rater"]].rename(columns={"answer": "perceived_gender"})
    return given.merge(person, on=_PERSON, how="inner")


def _merged(people: pd.DataFrame, ratings: pd.DataFrame) -> tuple["pd.Series[Any]", "pd.Series[Any]"]:
    """Return the majority answer for each person (None without answers), and True for ties."""
    columns = ["perceived_gender", "is_split"]
    merged = pd.DataFrame(columns=[*_PERSON, *columns]) if ratings.empty else merge_ratings(ratings)
    of_each = people[_PERSON].merge(merged[[*_PERSON, *columns]], on=_PERSON, how="left").set_index(people.index)
    answers = of_each["perceived_gender"].astype(object).where(of_each["perceived_gender"].notna(), None)
    return answers, of_each["is_split"].eq(True)


def _split_note(labelled: pd.DataFrame) -> str:
    """Return a sentence on people with tied votes; "" for none."""
    if not (n := int(labelled[RATERS_SPLIT].sum())):
        return ""
    of = labelled["human"].notna().sum()
    return f" Raters are split on {n:,} of {of:,} people (two answers with the same number of votes): no score."


def recorded_gender(truth: Any, position: str, n_people: int) -> str:
    """Return the ground truth at a position, as an answer, for a picture with ``n_people`` asked for."""
    prefix = "" if position == SINGLE else f"{position}_"
    return NOT_TWO_PEOPLE if truth["n_people"] != n_people else str(truth[f"{prefix}gender"])


Labelled = tuple[list[str], list[float], list[str], dict[str, list[float]]]
"""Each person's answer and margin, the boxes of all in the picture, and columns of further attributes."""


def _label_with_encoder(people: pd.DataFrame, settings: StudySettings, data: Run) -> Steps[Labelled]:
    """Find the people, cut each out, and ask the encoder for the closer of two sentences."""
    options = get_options(settings, LabellingOptions)
    masculine, feminine = data.sentences(options.sentences)
    direction, attributes = masculine - feminine, also_seen(options.also_seen)
    directions = np.zeros((len(attributes), direction.size))
    for place, attribute in enumerate(attributes):
        present, absent = data.sentences([attribute.positive, attribute.negative])
        directions[place] = present - absent
    boxes, by_picture = yield from _find_people(people, settings, data, data.encoder())
    ids = list(dict.fromkeys(people["image_id"]))
    rows = np.concatenate([by_picture[image_id].reshape(-1, direction.size) for image_id in ids])
    values = np.column_stack([rows @ direction, rows @ directions.T > 0])  # (n, 1 and what is also seen)
    of_pictures = map(list, np.split(values, np.cumsum([len(boxes[image_id]) for image_id in ids])[:-1]))
    results = _get_person_results(people, dict(zip(ids, of_pictures, strict=True)))
    where = [boxes_text(boxes[image_id]) for image_id in people["image_id"]]
    of_column = np.array(
        [[math.nan] * (1 + len(attributes)) if result is None else result for result in results]
    ).T.tolist()
    leans, further = of_column[0], dict(zip(map(get_column, attributes), of_column[1:], strict=True))
    kinds = [np.isnan(leans), np.abs(leans) <= options.margin, np.array(leans) > 0]
    return np.select(kinds, [NOT_TWO_PEOPLE, CANNOT_IDENTIFY, "masculine"], "feminine").tolist(), leans, where, further


def _label_with_judge(people: pd.DataFrame, settings: StudySettings, data: Run) -> Steps[Labelled]:
    """Find the people, cut each out, and ask the judge if each of two sentences is true.

    A person with both or neither cannot be identified.
    """
    by_picture, _ = yield from _find_people(people, settings, data)
    boxes, where = (
        _get_person_results(people, by_picture),
        [boxes_text(by_picture[picture]) for picture in people["image_id"]],
    )
    questions = tuple(map(question_about, get_options(settings, LabellingOptions).sentences))
    stored = data.stored(people)
    keys = [  # the place is part of the question, so that the answer goes with its picture
        None if box is None else [(image_id, f"{question} {box}") for question in questions]
        for image_id, box in zip(people["image_id"], boxes, strict=True)
    ]
    pictures = {
        key: partial(_crop_person, image, box)
        for key_pair, image, box in zip(keys, stored, boxes, strict=True)
        if key_pair is not None and box is not None
        for key in key_pair
    }
    answers = yield from ask_judge(
        data.services,
        settings.judge,
        "asking the judge about the people",
        pictures,
        data.check,
        data.judge_answers.extend,
    )
    labels, leans = [], []
    for key_pair in keys:
        given = np.full((2, 3), math.nan) if key_pair is None else np.array([answers[key] for key in key_pair])
        says_yes = [CALLS[place] == "yes" for place in choose_calls(given)]
        kind = NOT_TWO_PEOPLE if key_pair is None else CANNOT_IDENTIFY if says_yes[0] == says_yes[1] else None
        labels.append(kind or ("masculine" if says_yes[0] else "feminine"))
        leans.append(float(given[0, 0] - given[1, 0]))
    return labels, leans, where, {}


def _crop_person(stored: StoredImage, box: Box) -> Image.Image:
    return crop_people(open_original(stored), [box])[0]


@dataclass(frozen=True, kw_only=True)
class _People:
    """The people in pictures, by id and from left to right; a stored picture is not searched again.

    A picture's boxes are stored as an answer, its people's rows by the encoder as one embedding.
    """

    services: StudyServices
    found_by: str  # changes with the weights of the finder
    encoder: ImageTextEncoder | None
    boxes: dict[str, list[Box]]
    rows: dict[str, np.ndarray]  # flat, of all people in a picture

    @property
    def _reader_name(self) -> str:
        return f"{self.encoder.name}, {self.found_by}" if self.encoder else ""

    def look_up(self, image_ids: Sequence[str]) -> None:
        """Take what is stored of these pictures."""
        texts = self.services.answers.find(self.found_by, [(image_id, _WHERE) for image_id in image_ids])
        self.boxes.update({image_id: boxes_of_text(text) for (image_id, _), text in texts.items()})
        if self.encoder:
            stored = self.services.embeddings.find(self._reader_name, [(image_id,) for image_id in image_ids])
            self.rows.update({image_id: np.frombuffer(row, dtype=np.float32) for (image_id,), row in stored.items()})

    def lacks(self, image_id: str) -> bool:
        """Return True for a picture that is to be searched."""
        return image_id not in self.boxes or (self.encoder is not None and image_id not in self.rows)

    def search(self, find: Callable[[Image.Image], list[Box]], images: Sequence[Image.Image]) -> list[_Found]:
        """Return the boxes and rows of each picture."""
        everywhere = [find(image) for image in images]
        crops = [crop for image, boxes in zip(images, everywhere, strict=True) for crop in crop_people(image, boxes)]
        rows = self.encoder.encode_images(crops) if self.encoder else np.empty((len(crops), 0), dtype=np.float32)
        parts = np.split(rows, np.cumsum([len(boxes) for boxes in everywhere])[:-1])
        return [(boxes, part.ravel()) for boxes, part in zip(everywhere, parts, strict=True)]

    def keep(self, found: Mapping[str, _Found]) -> None:
        """Store the boxes and rows of pictures."""
        self.boxes.update({image_id: boxes for image_id, (boxes, _) in found.items()})
        self.services.answers.keep(
            self.found_by, {(image_id, _WHERE): boxes_text(boxes) for image_id, (boxes, _) in found.items()}
        )
        if self.encoder:
            self.rows.update({image_id: rows for image_id, (_, rows) in found.items()})
            self.services.embeddings.keep(
                self._reader_name, {(image_id,): rows.tobytes() for image_id, (_, rows) in found.items()}
            )


def _find_people(
    people: pd.DataFrame, settings: StudySettings, data: Run, encoder: ImageTextEncoder | None = None
) -> Steps[tuple[dict[str, list[Box]], dict[str, np.ndarray]]]:
    """Return the boxes of the people found in each picture, by its id, and their rows by an encoder."""
    name, boxes, rows = get_options(settings, LabellingOptions).finder, dict[str, list[Box]](), dict[str, np.ndarray]()
    finder = None if name == HALVES else data.services.person_finder(name)
    parts = []
    for n, image_ids in people.groupby(count_requested_people(people), sort=False)["image_id"]:
        found_by = finder.name if finder else f"{HALVES} of {n}"
        found = _People(services=data.services, found_by=found_by, encoder=encoder, boxes=boxes, rows=rows)
        found.look_up(ids := list(dict.fromkeys(image_ids)))
        parts.append((found, finder.find if finder else person_halves if n == 2 else whole_picture, ids))
    readers = [reader for reader in (encoder, finder) if reader is not None]
    with report_unread_on_stop(
        lambda: (image_id for found, _, ids in parts for image_id in ids if found.lacks(image_id))
    ):
        for found, find, ids in parts:
            missing = list(filter(found.lacks, ids))
            yield from data.read("looking for people", missing, partial(found.search, find), *readers, keep=found.keep)
    return boxes, rows


def _get_person_results(people: pd.DataFrame, by_picture: Mapping[str, Sequence[T]]) -> list[T | None]:
    """Return one result per person; None if the detector did not find exactly the expected people."""
    results: list[T | None] = []
    for image_id, position, n in zip(
        people["image_id"], people["position"], count_requested_people(people), strict=True
    ):
        picture_results = by_picture[image_id]
        results.append(picture_results[POSITIONS[n].index(position)] if len(picture_results) == n else None)
    return results


def _label_with_answerer(people: pd.DataFrame, design: Design, settings: StudySettings, data: Run) -> Steps[list[str]]:
    """Ask the paper's question about each person, with the whole picture."""
    vqa = design.data["vqa"]
    answers = yield from data.say(
        "asking about the people",
        people,
        data.services.answerer(get_options(settings, LabellingOptions).answerer),
        [
            vqa[side if side == SINGLE else "paired"].format(identity, side=side)
            for identity, side in zip(people["identity"], people["position"], strict=True)
        ],
    )
    return [gender_said(answer, vqa["answers"]) for answer in answers]


def gender_said(answer: str, words: dict[str, list[str]]) -> str:
    """Return the gender that a free answer names; "cannot_identify" if it names none or both.

    >>> words = {"masculine": ["male", "man"], "feminine": ["female", "woman"]}
    >>> gender_said("a woman", words), gender_said("man and woman", words)
    ('feminine', 'cannot_identify')
    """
    answer_words = set(answer.lower().replace(",", " ").replace(".", " ").split())
    named = [gender for gender, names in words.items() if answer_words & set(names)]
    return named[0] if len(named) == 1 else CANNOT_IDENTIFY


# Labels corrected by hand, and the report from them; nothing is drawn again.

Person = tuple[str, str]  # `image_id` and `position`
Answers = Mapping[Person, str]


def labelled_people(report: StudyReport) -> pd.DataFrame:
    """Return one row per person asked for, with ``perceived_gender`` and rater; InvalidInput for other studies."""
    try:
        frame = get_table(report, "labels").frame
    except KeyError as error:
        raise InvalidInput(f"{report.design.name} labels no people") from error
    return frame.rename(columns={"answer": "perceived_gender"})


def labels_after(people: pd.DataFrame, person: Person, answer: str) -> dict[Person, str]:
    """Return all labels that change if one person gets a new answer.

    A picture fails as a whole: "not_two_people" is the label of all. Once one of them is identified, the others become
    "cannot_identify" ("unclear" with four answers) until they are labelled. InvalidInput for an unknown answer or
    person.
    """
    if answer not in ALL_ANSWERS:
        raise InvalidInput(f"an answer is one of {', '.join(ALL_ANSWERS)}; got {answer!r}")
    image_id, position = person
    labels = people[people["image_id"] == image_id].set_index("position")["perceived_gender"]
    if position not in labels:
        raise InvalidInput(f"this run has no person {position!r} in a picture {image_id!r}")
    if answer == NOT_TWO_PEOPLE:
        return {(image_id, str(place)): answer for place in labels.index}
    freed = [(image_id, str(place)) for place in labels.index[labels == NOT_TWO_PEOPLE]]
    nobody_says = UNCLEAR if people["perceived_gender"].isin((ANDROGYNOUS, UNCLEAR)).any() else CANNOT_IDENTIFY
    return dict.fromkeys(freed, nobody_says) | {person: answer}


def labels_frame(people: pd.DataFrame, by_hand: Answers) -> pd.DataFrame:
    """Return the current labels of all people as a frame of answers; labels by hand replace others."""
    labels = people.set_index(_PERSON)[["perceived_gender", "rater"]].itertuples()
    rows = [(*key, by_hand[key], BY_HAND) if key in by_hand else (*key, old, rater) for key, old, rater in labels]
    columns = (*_PERSON, "answer", "rater")
    return make_answer_frame(
        {"task": BY_HAND, **dict(zip(columns, row, strict=True))} for row in rows if isinstance(row[2], str)
    )
