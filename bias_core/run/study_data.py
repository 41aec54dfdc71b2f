"""The pictures of a run while they are drawn, read and measured, with the classifiers that a study asks about them.

:meth:`StudyData.add_finished` counts refused and blanked pictures and leaves them out. Readings are stored.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from PIL import Image

from bias_core.errors import Cancelled, Interrupted
from bias_core.models.catalogue import hosted_name
from bias_core.protocols import Captioner, ImageTextEncoder, VisualQuestionAnswerer
from bias_core.report.stop_rules import ShareValues, StopRule, stop_rule
from bias_core.run.image_rows import Rows, cut_notes
from bias_core.run.limits import REFUSED, Countdown, DrawingView, Stoppable, Watch, report_unread_on_stop, unique_rows
from bias_core.store.readings import Question, batched, n_pixels, open_pictures
from bias_core.study.classifiers import Reader
from bias_core.study.types import JudgeAnswer, Progress, Shot, StudyReport, StudySettings, get_scored_pictures
from bias_core.study_services import StudyServices
from bias_core.types import ImageRow, StoredImage
from bias_core.waiting import never

T = TypeVar("T")
Steps = Generator[Progress, None, T]
ReadAhead = Callable[["StudyData", "Sequence[StoredImage]"], None]
"""Reads pictures as soon as they are finished, and stores the readings for the measuring."""

ReadShares = Callable[["StudyData", pd.DataFrame], Steps[list[ShareValues]]]
"""Reads shares in finished pictures, one row of the frame each, while the next are drawn."""

AT_ANY_TIME = "Intervals of shares hold at any time; other intervals assume a fixed number of pictures."
_COLUMNS = ["image_id", "group", "prompt", "seed", "unit"]
_SECONDS_BETWEEN_SHARES = 1.0
_PER_UPDATE = 256  # pictures embedded between two progress updates
_PER_READING = 32  # the same for captions and questions, which take longer


@dataclass(frozen=True, kw_only=True)
class DrawnPicture:
    """A finished picture of a study, which may be refused and blank."""

    unit: str  # as in :class:`StudyData`
    group: str
    prompt: str  # before any rewriting
    image: StoredImage


class StudyData(Stoppable):
    """Pictures as a data frame, and classifiers that answer for its rows; :class:`Stoppable`.

    Attributes
    ----------
    frame : one row per picture that can be scored: ``image_id, group, prompt, seed, unit`` and the shots'
        facts. A picture that two shots share has a row for each. The prompt is the study's own, even if an arm changes
        it; the unit is the same in every arm on the same seeds.
    drawn : the frame before anything was measured.
    n_planned, n_blocked : pictures requested, and those refused or blanked by a safety checker.
    images_by_id : every picture that was drawn or found.
    drawn_pictures : all finished pictures with their facts, including blanked ones.
    notes : notes on the source of the pictures.
    n_enough : number of pictures, in their order, after which the stop rule ended the drawing; None if it did not.
    is_measured : True if its measuring is over.
    """

    def __init__(
        self,
        settings: StudySettings,
        services: StudyServices,
        rows: Rows,
        *,
        cancelled: Callable[[], bool] = never,
        ahead: ReadAhead | None = None,
        watch: ReadShares | None = None,
    ) -> None:
        self.settings, self.services, self.rows = settings, services, rows
        self.cancelled = cancelled
        self._ahead, self._read_shares = ahead, watch
        self.frame = self.drawn = pd.DataFrame(columns=_COLUMNS)
        self.n_planned = self.n_blocked = self._n_shots = 0
        self.n_enough: int | None = None
        self.is_measured = False
        self.notes: list[str] = []
        self.images_by_id: dict[str, StoredImage] = {}
        self.drawn_pictures: list[DrawnPicture] = []
        self.judge_answers: list[JudgeAnswer] = []
        self._rows_by_shot: dict[int, tuple[Shot, list[ImageRow]]] = {}

    @classmethod
    def from_report(cls, report: StudyReport, services: StudyServices) -> "StudyData":
        """Return the pictures of a finished run, to be read again; none is drawn."""
        data = cls(report.settings, services, cast("Rows", None))
        data.frame = get_scored_pictures(report).reset_index(drop=True)
        data.drawn, data.images_by_id = data.frame.copy(), dict(report.stored)
        data.stopped = "the run was stopped" if report.stopped else ""
        return data

    @property
    def fixed_n(self) -> bool:
        """True if the number of pictures was fixed beforehand and all of them are drawn."""
        return not self.stopped and stop_rule(self.settings) is None

    def draw(self, shots: Sequence[Shot]) -> Steps[pd.DataFrame]:
        """Draw (or find) and read the pictures of ``shots``; return their rows, now in ``frame``."""
        yield from self.fetch(shots)
        return self.add_finished(shots)

    def fetch(self, shots: Sequence[Shot], n_first: int | None = None) -> Steps[None]:
        """Draw (or find) the pictures until a stop rule ends it, or only the ``n_first``; ``frame`` stays as it is."""
        rows, parts = list[ImageRow](), dict[str, str]()
        for shot in shots:
            rows += (of_shot := self._get_rows(shot))
            parts |= dict.fromkeys((row.id for row in of_shot), shot.part)
        rule = stop_rule(self.settings) if self._read_shares and n_first is None else None
        in_order = self._order_rows(shots)[:n_first]
        watch, unread = Watch((row.id for row in in_order), self.settings.confidence, rule), list[StoredImage]()
        drawn = {row.id: parts[row.id] for row in in_order}
        view, shares_due = DrawingView(rows, parts=drawn, watches_shares=self._read_shares is not None), 0.0
        entries = dict[str, list[dict[str, Any]]]()
        with closing(self.rows.draw(in_order, self.services, cancelled=self.cancelled)) as events:  # type: ignore[type-var]
            for event in events:
                self.images_by_id.update({stored.path.stem: stored for stored in event.images})
                yield (now := view.at(event, self.images_by_id))
                unread += event.images
                if self.cancelled() or (event.reused and rule is None):
                    continue
                fresh = [stored for stored in event.images if not (event.reused or stored.blocked)]
                if fresh and self._ahead is not None:
                    self._ahead(self, fresh)
                if unread and self._read_shares:
                    entries = entries or self._entries_by_id(shots)
                    yield from _now_and_then(self._watch(entries, unread, watch), now)
                    unread = []
                    if time.monotonic() >= shares_due or event.done == event.total or watch.n_enough is not None:
                        view.shares, shares_due = watch.shares(), time.monotonic() + _SECONDS_BETWEEN_SHARES
                        yield replace(now, shares=view.shares)
                if watch.n_enough is not None:
                    break
        if rule is not None:
            self.n_enough = watch.n_enough

    def _get_rows(self, shot: Shot) -> list[ImageRow]:
        if id(shot) not in self._rows_by_shot:
            self._rows_by_shot[id(shot)] = shot, self.rows.make_rows(shot)
        return self._rows_by_shot[id(shot)][1]

    def _order_rows(self, shots: Sequence[Shot]) -> list[ImageRow]:
        """Return the rows in the order of drawing.

        This is the order of the shots. Under a stop rule it is one row of each shot in random order, then another of
        each, so that the finished pictures show all prompts equally often.
        """
        rows = [self._get_rows(shot) for shot in shots]
        if stop_rule(self.settings) is None or not rows:
            return [row for of_shot in rows for row in of_shot]
        rng = np.random.default_rng(self.settings.seed)
        rounds = (rng.permutation(len(rows)) for _ in range(max(map(len, rows))))
        mixed = [rows[i][k] for k, places in enumerate(rounds) for i in places if k < len(rows[i])]
        return list({row.id: row for row in mixed}.values())

    def _watch(
        self, entries: Mapping[str, Sequence[dict[str, Any]]], images: Sequence[StoredImage], watch: Watch
    ) -> Steps[None]:
        """Read the shares of these pictures, and add them to the watch."""
        for start in range(0, len(images), _PER_READING):
            self.check()
            part = {stored.path.stem: stored for stored in images[start : start + _PER_READING]}
            frame = pd.DataFrame(
                [entry for key, stored in part.items() if not stored.blocked for entry in entries[key]]
            )
            read = self._read_shares
            shares = [] if read is None or frame.empty else (yield from read(self, frame))
            blanked = np.array([stored.blocked for stored in part.values()], dtype=float)
            hidden_at_zero = not hosted_name(self.settings.model)
            shares.append(
                ShareValues(name=REFUSED, image_ids=tuple(part), values=blanked, hidden_at_zero=hidden_at_zero)
            )
            watch.add(part, shares)

    def _entries_by_id(self, shots: Sequence[Shot]) -> dict[str, list[dict[str, Any]]]:
        by_id: dict[str, list[dict[str, Any]]] = {}
        for entry, row in self._entries(shots):
            by_id.setdefault(row.id, []).append(entry)
        return by_id

    def _entries(self, shots: Sequence[Shot]) -> list[tuple[dict[str, Any], ImageRow]]:
        """Return the facts of every planned picture, one entry per shot that it belongs to."""
        unit_of, entries = self.rows.choose_unit_naming(shots), []
        for place, shot in enumerate(shots, start=self._n_shots):
            for k, row in enumerate(self._get_rows(shot)):
                values = (row.id, row.group, shot.prompt, row.seed, f"{place}:{unit_of(k, row)}")
                entries.append(({**dict(zip(_COLUMNS, values, strict=True)), **shot.facts}, row))
        return entries

    def add_finished(self, shots: Sequence[Shot]) -> pd.DataFrame:
        """Add the finished pictures of ``shots`` that can be scored to ``frame``; return their rows."""
        if (rule := stop_rule(self.settings)) is not None and self._read_shares:
            self._under(rule, shots)
        prompts = {id(shot): self.rows.get_prompt(shot) for shot in shots}
        entries, n_finished = [], 0
        places = [shot for shot in shots for _ in self._get_rows(shot)]
        for shot, (entry, row) in zip(places, self._entries(shots), strict=True):
            if (image := self.images_by_id.get(row.id)) is None:
                continue
            n_finished += 1
            prompt = prompts[id(shot)]
            self.drawn_pictures.append(DrawnPicture(unit=entry["unit"], group=row.group, prompt=prompt, image=image))
            if not image.blocked:
                entries.append(entry)
        self._n_shots += len(shots)
        self.n_planned += sum(shot.n for shot in shots)
        self.notes += self.rows.notes(shots)
        self.n_blocked += n_finished - len(entries)
        names = dict.fromkeys((*_COLUMNS, *(name for shot in shots for name in shot.facts)))
        drawn = pd.DataFrame(entries, columns=None if entries else list(names))
        self.frame = pd.concat([self.frame, drawn], ignore_index=True) if len(self.frame) else drawn
        self.drawn = self.frame.copy()
        return drawn

    def _under(self, rule: StopRule, shots: Sequence[Shot]) -> None:
        """Keep the pictures that count, and add a note on the rule."""
        if (n := self.n_enough) is None:
            if not self.stopped:
                self.notes.append(
                    f"All pictures were drawn before the stop rule took effect: {rule.words}. {AT_ANY_TIME}"
                )
            return
        ids = [row.id for row in self._order_rows(shots)]
        self.images_by_id = {key: self.images_by_id[key] for key in ids[:n] if key in self.images_by_id}
        self.notes.append(
            f"Ended by its stop rule after {n:,} of {len(ids):,} requested pictures: {rule.words}. {AT_ANY_TIME} The "
            "same settings without the rule, or with a narrower one, continue from these pictures; further pictures "
            "are stored, but not scored."
        )

    def keep_finished_pictures(self, shots: Sequence[Shot], error: Cancelled) -> None:
        """Continue a stopped run with the finished pictures, and add a note."""
        self.cancelled = never
        planned = unique_rows([row for shot in shots for row in self._get_rows(shot)])
        unseen = {row.id: row for row in planned if row.id not in self.images_by_id}
        self.images_by_id |= self.services.images.find(unseen)  # drawn in the meantime, or earlier
        begin = f"{error}. The" if isinstance(error, Interrupted) else "Stopped: the"
        of = f"{len(self.images_by_id):,} of {len(planned):,} pictures that were finished"
        self.stopped = f"{begin} scores use the {of}."
        self.add_finished(shots)
        self.notes.append(f"{self.stopped} {AT_ANY_TIME}")

    def use_read_so_far(self, unread: Collection[str], after: str) -> None:
        """Continue a run that was stopped during reading with the pictures read ``after`` so many, in words.

        ``after`` is "" if all were read.
        """
        self.cancelled = never
        self.drawn = self.drawn[~self.drawn["image_id"].isin(unread)].reset_index(drop=True)
        self.frame = self.drawn.copy()
        if after:
            self.stopped_after, self.stopped = after, f"Stopped after {after}; the numbers rest on these."
            self.notes.append(self.stopped)

    def copy_for_encoder(self, encoder: str) -> "StudyData":
        """Return the same pictures for another encoder."""
        data = copy(self)
        data.settings = replace(self.settings, encoder=encoder, further_encoders=())
        data.frame, data.notes = self.drawn.copy(), list(self.notes)
        return data

    def embed(self, frame: pd.DataFrame, encoder: str = "") -> Steps[np.ndarray]:
        """Return unit rows ``(len(frame), d)`` of the pictures, in the order of ``frame``."""
        reader = self.encoder(encoder)
        lock = self.services.reading(reader)

        def work(part: Sequence[StoredImage]) -> np.ndarray:
            return self.services.embeddings.images(reader, part, lock=lock)

        with report_unread_on_stop(partial(self._not_embedded, reader)):
            return np.concatenate(
                (yield from self._run_in_batches("classifying the pictures", self.stored(frame), work, _PER_UPDATE))
            )

    def _not_embedded(self, reader: ImageTextEncoder) -> set[str]:
        ids = set(self.drawn["image_id"])
        return ids - {key for (key,) in self.services.embeddings.find(reader.name, [(key,) for key in ids])}

    def texts(self, texts: Iterable[str], encoder: str = "") -> np.ndarray:
        """Return unit rows ``(n, d)`` of sentences."""
        reader = self.encoder(encoder)
        return self.services.embeddings.texts(reader, list(texts), lock=self.services.reading(reader))

    def sentences(self, texts: Iterable[str]) -> np.ndarray:
        """Return unit rows ``(n, d)`` of sentences of attributes; a note names parts that the encoder cuts off."""
        texts, encoder = list(texts), self.encoder()
        notes = cut_notes(encoder, encoder.name, texts, self.services, "sentence")
        self.notes += [note for note in notes if note not in self.notes]
        return self.texts(texts)

    def encoder(self, name: str = "") -> ImageTextEncoder:
        """Return the encoder of this name; default: the study's own."""
        return self.services.encoder(name or self.settings.encoder)

    def stored(self, frame: pd.DataFrame) -> list[StoredImage]:
        """Return the stored pictures of these rows."""
        return [self.images_by_id[image_id] for image_id in frame["image_id"]]

    def truths(self, frame: pd.DataFrame) -> list[Mapping[str, Any] | None]:
        """Return the ground truth of each picture; None if unknown."""
        return [stored.truth for stored in self.stored(frame)]

    def read(
        self,
        activity: str,
        image_ids: Iterable[str],
        read: Callable[[list[Image.Image]], Sequence[T]],
        *readers: object,
        keep: Callable[[dict[str, T]], None],
    ) -> Steps[None]:
        """Apply ``read`` to pictures, a batch at a time while ``readers`` are free; ``keep`` gets each batch by id."""
        turn = self.services.reading(*readers)

        def work(part: Sequence[StoredImage]) -> None:
            pictures = open_pictures(part)
            with turn:
                values = read(pictures)
            keep(dict(zip((stored.path.stem for stored in part), values, strict=True)))

        yield from self._run_in_batches(activity, [self.images_by_id[key] for key in image_ids], work, _PER_READING)

    def say(
        self,
        activity: str,
        frame: pd.DataFrame,
        reader: Captioner | VisualQuestionAnswerer,
        questions: Sequence[str] | None = None,
    ) -> Steps[list[str]]:
        """Caption each picture, or answer a question per row; nothing is asked twice."""
        keys = list(zip(frame["image_id"], questions or [""] * len(frame), strict=True))
        answers_by_key = self.services.answers.find(reader.name, list(dict.fromkeys(keys)))
        missing = [key for key in dict.fromkeys(keys) if key not in answers_by_key]

        def work(part: Sequence[Question]) -> None:
            answers_by_key.update(self.ask_now(reader, part))

        with report_unread_on_stop(lambda: (key[0] for key in missing if key not in answers_by_key)):
            yield from self._run_in_batches(
                activity, missing, work, _PER_READING, lambda key: self.images_by_id[key[0]]
            )
        return [answers_by_key[key] for key in keys]

    def ask_now(self, reader: Captioner | VisualQuestionAnswerer, questions: Sequence[Question]) -> dict[Question, str]:
        """Ask a model now, and store its answers."""
        pictures = open_pictures([self.images_by_id[image_id] for image_id, _ in questions])
        with self.services.reading(reader):
            answers = (
                reader.caption(pictures)
                if isinstance(reader, Captioner)
                else reader.answer(pictures, [question for _, question in questions])
            )
        new = dict(zip(questions, answers, strict=True))
        self.services.answers.keep(reader.name, new)
        return new

    def keep(self, frame: pd.DataFrame, **columns: Sequence[Any] | np.ndarray | pd.Series) -> None:
        """Add columns of measured values for the pictures of ``frame``, a part of ``self.frame``; others have nan."""
        for name, values in columns.items():
            found = pd.Series(values, index=frame.index)
            if name in self.frame:
                self.frame.loc[frame.index, name] = found
            else:  # pandas before 3.1 would write a missing word as the text "nan"
                self.frame[name] = found.reindex(self.frame.index)

    def _run_in_batches(
        self,
        activity: str,
        items: Sequence[Any],
        work: Callable[[Sequence[Any]], T],
        size: int,
        picture_of: Callable[[Any], StoredImage] = lambda item: item,
    ) -> Steps[list[T]]:
        """Apply ``work`` to the items (pictures, or questions about them) a part at a time."""
        parts, done, countdown = [], 0, Countdown(len(items))
        for part in batched(items, [n_pixels(picture_of(item)) for item in items], max_items=size):
            self.check()
            parts.append(work(part))
            done += len(part)
            yield countdown.progress(done, f"{activity}: {done:,} of {len(items):,}")
        return parts


def _now_and_then(reading: Steps[None], drawing: Progress) -> Steps[None]:
    """Follow the reading, and yield progress if it takes long."""
    due = time.monotonic() + _SECONDS_BETWEEN_SHARES
    with closing(reading):
        for step in reading:
            if time.monotonic() >= due:
                due = time.monotonic() + _SECONDS_BETWEEN_SHARES
                yield replace(drawing, message=f"{drawing.message}; {step.message}")


def read_ahead(readers: Sequence[Reader], data: StudyData, images: Sequence[StoredImage]) -> None:
    """Embed and caption finished pictures while the next are drawn; further encoders read them at the end."""
    services = data.services
    for reader in readers:
        if reader.role == "encoder" and reader.name not in data.settings.further_encoders:
            encoder = services.encoder(reader.name)
            services.embeddings.images(encoder, images, lock=services.reading(encoder))
        elif reader.role == "captioner":
            data.ask_now(services.captioner(reader.name), [(image.path.stem, "") for image in images])
