"""One run of a study: its request, the rows that it draws, its pictures, and the classifiers that read them.

:meth:`Run.add_finished` leaves blocked pictures out (``report/blocked_pictures.py``). Readings are stored.
"""

import math
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from PIL import Image

from bias_core.errors import Cancelled, Interrupted
from bias_core.protocols import Captioner, ImageTextEncoder, VisualQuestionAnswerer
from bias_core.report.blocked_pictures import count_blocked, watched_share
from bias_core.report.picture_facts import DrawnPicture
from bias_core.report.stop_rules import StopRule, stop_rule
from bias_core.run.image_rows import Rows, cut_notes
from bias_core.run.limits import Countdown, DrawingView, Stoppable, Watch, report_unread_on_stop, unique_rows
from bias_core.store.manifests import Manifest
from bias_core.store.readings import Question, batched, n_pixels, open_pictures
from bias_core.study.classifiers import Reader
from bias_core.study.study import Study
from bias_core.study.types import (
    Design,
    JudgeAnswer,
    Progress,
    Shot,
    StudyReport,
    StudySettings,
    each_arm,
    get_scored_pictures,
)
from bias_core.study_services import StudyServices
from bias_core.types import ImageRow, ReaderFacts, StoredImage
from bias_core.waiting import never

T = TypeVar("T")
Steps = Generator[Progress, None, T]
AT_ANY_TIME = "Intervals of shares hold at any time; other intervals assume a fixed number of pictures."
_COLUMNS = ["image_id", "group", "prompt", "seed", "unit"]
_SECONDS_BETWEEN_SHARES = 1.0
_PER_UPDATE = 256  # pictures embedded between two progress updates
_PER_READING = 32  # the same for captions and questions, which take longer


class Run(Stoppable):
    """A run of a study, or one arm of it: a request, then the rows that it draws, then its pictures as a data frame.

    :func:`bias_core.run.plan.settle` makes the request, :func:`bias_core.run.plan.lay_out` adds what it draws, and the
    classifiers of a study answer for the rows of its frame.

    Attributes
    ----------
    study, settings : what is asked; protocol, defaults and options are filled in.
    answers : people's answers that correct the report (``settings.labels``), only those that count once the run is laid
        out; None without any.
    arms : the runs that are compared, each as if it ran alone; () for a run of one arm.
    name : that of an arm; "" for a run of one arm.
    services, rows, shots, manifest : models and stores, source of the pictures (that of the first arm), pictures to
        draw, and their unsaved rows; missing until the run is laid out.
    world : that of the pictures: "calibration", or "" for any other.
    warning : first sentence of the report; "" for none.
    state : ``drawing`` until all pictures are drawn, ``reading`` while classifiers read them, then ``measuring``.
    reads_while_drawing : False if pictures are only drawn, and nothing is read that a stop rule does not need.
    frame : one row per picture that can be scored: ``image_id, group, prompt, seed, unit`` and the shots'
        facts. A picture that two shots share has a row for each. The prompt is the study's own, even if an arm changes
        it; the unit is the same in every arm on the same seeds.
    drawn : the frame before anything was measured.
    n_planned : pictures requested.
    images_by_id : every picture that was drawn or found.
    drawn_pictures : all finished pictures with their facts, including blocked ones.
    notes : notes on the source of the pictures.
    n_enough : number of pictures, in their order, after which the stop rule ended the drawing; None if it did not.
    """

    services: StudyServices
    rows: Rows
    shots: list[Shot]
    manifest: Manifest
    name = world = warning = ""

    def __init__(
        self,
        study: Study,
        settings: StudySettings,
        services: StudyServices | None = None,
        rows: Rows | None = None,
        *,
        answers: pd.DataFrame | None = None,
        cancelled: Callable[[], bool] = never,
    ) -> None:
        self.study, self.settings, self.answers, self.cancelled = study, settings, answers, cancelled
        if services is not None:
            self.services = services
        if rows is not None:
            self.rows = rows
        self.arms: tuple[Run, ...] = ()
        if len(settings.arms) > 1:
            self.arms = tuple(Run(study, arm_settings, cancelled=cancelled) for arm_settings in each_arm(settings))
            for run, arm in zip(self.arms, settings.arms, strict=True):
                run.name = arm.name
        self.state: Literal["drawing", "reading", "measuring"] = "drawing"
        self.reads_while_drawing = True
        self.frame = self.drawn = pd.DataFrame(columns=_COLUMNS)
        self.n_planned = self._n_shots = 0
        self.n_enough: int | None = None
        self.notes: list[str] = []
        self.images_by_id: dict[str, StoredImage] = {}
        self.drawn_pictures: list[DrawnPicture] = []
        self.judge_answers: list[JudgeAnswer] = []
        self._rows_by_shot: dict[int, tuple[Shot, list[ImageRow]]] = {}

    @classmethod
    def from_report(cls, study: Study, report: StudyReport, services: StudyServices) -> "Run":
        """Return the pictures of a finished run of one arm, to be read again; none is drawn."""
        run = cls(study, report.settings, services)
        run.frame = get_scored_pictures(report).reset_index(drop=True)
        run.drawn, run.images_by_id = run.frame.copy(), dict(report.stored)
        run.stopped = "the run was stopped" if report.stopped else ""
        return run

    @property
    def design(self) -> Design:
        """The design of the study."""
        return self.study.design

    @property
    def each(self) -> "tuple[Run, ...]":
        """Every arm; with one arm, the run itself."""
        return self.arms or (self,)

    @cached_property
    def requested_shots(self) -> list[Shot]:
        """The pictures that the study asks for; [] if it takes all imported ones."""
        return self.study.shots(self.settings)

    @cached_property
    def readers(self) -> Sequence[Reader]:
        """The classifiers and encoders that read the pictures."""
        return self.study.readers(self.settings)

    @cached_property
    def reader_facts(self) -> dict[Reader, ReaderFacts]:
        """Their weights and downloads before the run; UnknownModel if one does not exist."""
        return {reader: self.services.reader_facts(reader.role, reader.name) for reader in self.readers}

    @cached_property
    def image_ids(self) -> frozenset[str]:
        """The ids of all planned pictures."""
        return frozenset(row.id for row in self.manifest.rows)

    @cached_property
    def notes_before_drawing(self) -> list[str]:
        """Notes on an arm before it is drawn."""
        return self.rows.notes_before_drawing(self.manifest.rows, self.settings, self.services)

    def with_settings(self, **changes: Any) -> "Run":
        """Return a request with other values of some settings."""
        return Run(self.study, replace(self.settings, **changes), answers=self.answers)

    def set_stop_signal(self, cancelled: Callable[[], bool]) -> None:
        """Let this end the run with all its arms."""
        for run in (self, *self.arms):
            run.cancelled = cancelled

    @property
    def n_blocked(self) -> int:
        """Number of blocked pictures among the finished ones of every arm."""
        return count_blocked(picture.image for arm in self.each for picture in arm.drawn_pictures)

    @property
    def fixed_n(self) -> bool:
        """True if the number of pictures was fixed beforehand and all of them are drawn."""
        return not self.stopped and not self.settings.may_stop_early

    def draw_all(self) -> Steps[None]:
        """Draw the planned pictures of every arm, one arm after the other, with one progress over all of them.

        Under a stop rule, as many pictures of each arm, so that they share their seeds.
        """
        yield from self._fetch_models()
        if self.arms:
            yield from self._draw_in_sequence(dict.fromkeys(range(len(self.arms))))
            if self.settings.may_stop_early:
                yield from self._draw_to_same_size()
            for arm in self.arms:
                arm.add_finished(arm.shots)
        else:
            yield from self.draw(self.shots)
        for run in (self, *self.arms):
            run.state = "reading"

    def _fetch_models(self) -> Steps[None]:
        """Download the missing files of every arm's model before the first picture is drawn."""
        rows = {row.model: row for arm in self.each if not arm.settings.images for row in arm.manifest.rows[:1]}
        for name, row in rows.items():
            last_size, title = "", self.services.model_info(name).name
            for n_gb, total_gb in self.services.fetch_model(name, row.revision):
                size = f"{n_gb:.1f} of {max(n_gb, total_gb):.1f} GB" if total_gb else f"{n_gb:.1f} GB"
                if n_gb and size != last_size:
                    last_size = size
                    yield Progress(message=f"downloading {title}, which will draw the pictures: {size}")

    def _draw_to_same_size(self) -> Steps[None]:
        """Draw the arms that ended early as far as the longest."""
        ends = [arm.n_enough for arm in self.arms]
        largest_n = max(len(arm.image_ids) if n is None else n for arm, n in zip(self.arms, ends, strict=True))
        yield from self._draw_in_sequence({i: largest_n for i, n in enumerate(ends) if n is not None and n < largest_n})
        for arm in self.arms:
            arm.n_enough = largest_n if largest_n < len(arm.image_ids) else None

    def _draw_in_sequence(self, n_first: Mapping[int, int | None]) -> Steps[None]:
        """Draw the arms at these places, each so many pictures; None: until its rule ends it, or all."""
        sizes = [len(arm.image_ids) for arm in self.arms]
        for i, n_pictures in n_first.items():
            arm, before, n_after = self.arms[i], sum(sizes[:i]), sum(sizes[i + 1 :])
            for step in arm.fetch(arm.shots, n_pictures):
                missing = step.total - step.done
                yield replace(
                    step,
                    done=before + step.done,
                    total=before + step.total + n_after,
                    seconds_left=step.seconds_left * (1 + n_after / missing) if missing else math.nan,
                    message=f"{arm.name}: {step.message}",
                )

    def draw(self, shots: Sequence[Shot]) -> Steps[pd.DataFrame]:
        """Draw (or find) and read the pictures of ``shots``; return their rows, now in ``frame``."""
        yield from self.fetch(shots)
        return self.add_finished(shots)

    def fetch(self, shots: Sequence[Shot], n_first: int | None = None) -> Steps[None]:
        """Draw (or find) the pictures until a stop rule ends it, or only the ``n_first``; ``frame`` stays as it is."""
        rows, parts = list[ImageRow](), dict[str, str]()
        for shot in shots:
            rows += (of_shot := self.make_rows(shot))
            parts |= dict.fromkeys((row.id for row in of_shot), shot.part)
        is_ruled = self.settings.may_stop_early and self._watches_shares and n_first is None
        rule = stop_rule(self.settings) if is_ruled else None
        in_order = self._order_rows(shots)[:n_first]
        watch, unread = Watch((row.id for row in in_order), self.settings.confidence, rule), list[StoredImage]()
        drawn = {row.id: parts[row.id] for row in in_order}
        view, shares_due = DrawingView(rows, parts=drawn, watches_shares=self._watches_shares), 0.0
        entries = dict[str, list[dict[str, Any]]]()
        with closing(self.rows.draw(in_order, self.services, cancelled=self.cancelled)) as events:  # type: ignore[type-var]
            for event in events:
                self.images_by_id.update({stored.path.stem: stored for stored in event.images})
                yield (now := view.at(event, self.images_by_id))
                unread += event.images
                if self.cancelled() or (event.reused and rule is None):
                    continue
                fresh = [stored for stored in event.images if not (event.reused or stored.blocked)]
                if fresh and self.reads_while_drawing and self.study.reads_ahead:
                    self._read_ahead(fresh)
                if unread and self._watches_shares:
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

    @property
    def _watches_shares(self) -> bool:
        return self.reads_while_drawing and self.study.watches_shares

    def make_rows(self, shot: Shot) -> list[ImageRow]:
        """Return one row per picture of the shot; they are made once."""
        if id(shot) not in self._rows_by_shot:
            self._rows_by_shot[id(shot)] = shot, self.rows.make_rows(shot)
        return self._rows_by_shot[id(shot)][1]

    def _order_rows(self, shots: Sequence[Shot]) -> list[ImageRow]:
        """Return the rows in the order of drawing.

        This is the order of the shots. Under a stop rule it is one row of each shot in random order, then another of
        each, so that the finished pictures show all prompts equally often.
        """
        rows = [self.make_rows(shot) for shot in shots]
        if not self.settings.may_stop_early or not rows:
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
            shares = [] if frame.empty else (yield from self.study.watch(self.settings, self, frame))
            watch.add(part, [*shares, watched_share(part, self.settings)])

    def _entries_by_id(self, shots: Sequence[Shot]) -> dict[str, list[dict[str, Any]]]:
        by_id: dict[str, list[dict[str, Any]]] = {}
        for entry, row in self._entries(shots):
            by_id.setdefault(row.id, []).append(entry)
        return by_id

    def _entries(self, shots: Sequence[Shot]) -> list[tuple[dict[str, Any], ImageRow]]:
        """Return the facts of every planned picture, one entry per shot that it belongs to."""
        unit_of, entries = self.rows.choose_unit_naming(shots), []
        for place, shot in enumerate(shots, start=self._n_shots):
            for k, row in enumerate(self.make_rows(shot)):
                values = (row.id, row.group, shot.prompt, row.seed, f"{place}:{unit_of(k, row)}")
                entries.append(({**dict(zip(_COLUMNS, values, strict=True)), **shot.facts}, row))
        return entries

    def add_finished(self, shots: Sequence[Shot]) -> pd.DataFrame:
        """Add the finished pictures of ``shots`` that can be scored to ``frame``; return their rows."""
        if (rule := stop_rule(self.settings)) is not None and self._watches_shares:
            self._under(rule, shots)
        prompts = {id(shot): self.rows.get_prompt(shot) for shot in shots}
        entries = []
        places = [shot for shot in shots for _ in self.make_rows(shot)]
        for shot, (entry, row) in zip(places, self._entries(shots), strict=True):
            if (image := self.images_by_id.get(row.id)) is None:
                continue
            prompt = prompts[id(shot)]
            self.drawn_pictures.append(DrawnPicture(unit=entry["unit"], group=row.group, prompt=prompt, image=image))
            if not image.blocked:
                entries.append(entry)
        self._n_shots += len(shots)
        self.n_planned += sum(shot.n for shot in shots)
        self.notes += self.rows.notes(shots)
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

    def keep_finished_part(self, error: Cancelled) -> "Run":
        """Return the finished part of a stopped run, without arms that have no pictures; else raise Cancelled again.

        It has the pictures that were drawn, or after the drawing those that were read; arms after the one that was
        being read are left out. Arms are measured only if a stop rule could have ended them too: then no number needs
        a fixed number of pictures.
        """
        has_own_arms = bool(self.study.arms(self.settings))
        if self.study.fewest_when_stopped is None or (self.arms and (not self.study.watches_shares or has_own_arms)):
            raise self.get_unfinished_error(error) from error
        self.set_stop_signal(never)
        if self.state == "drawing":
            for arm in self.each:
                arm.keep_drawn_pictures(error)
        else:
            self._keep_read_pictures(error)
        return self._drop_empty_arms(error)

    def keep_drawn_pictures(self, error: Cancelled) -> None:
        """Continue a stopped arm with its finished pictures, and add a note."""
        planned = unique_rows([row for shot in self.shots for row in self.make_rows(shot)])
        unseen = {row.id: row for row in planned if row.id not in self.images_by_id}
        self.images_by_id |= self.services.images.find(unseen)  # drawn in the meantime, or earlier
        begin = f"{error}. The" if isinstance(error, Interrupted) else "Stopped: the"
        of = f"{len(self.images_by_id):,} of {len(planned):,} pictures that were finished"
        self.stopped = f"{begin} scores use the {of}."
        self.add_finished(self.shots)
        self.notes.append(f"{self.stopped} {AT_ANY_TIME}")

    def _keep_read_pictures(self, error: Cancelled) -> None:
        """Continue a run that was stopped while pictures were read with those that were."""
        at = next(i for i, arm in enumerate(self.each) if arm.state == "reading")
        n, n_read = sum(len(arm.drawn) for arm in self.each), 0
        for i, arm in enumerate(self.each):
            unread = error.unread if i == at else arm.images_by_id if i > at else ()
            arm.drawn = arm.drawn[~arm.drawn["image_id"].isin(unread)].reset_index(drop=True)
            arm.frame = arm.drawn.copy()
            n_read += len(arm.drawn)
        if n_read < n:
            for run in (self, *self.arms):
                run.stopped_after = f"{n_read:,} of {n:,} pictures were read"
                run.stopped = f"Stopped after {run.stopped_after}; the numbers rest on these. {AT_ANY_TIME}"
                run.notes.append(run.stopped)

    def _drop_empty_arms(self, error: Cancelled) -> "Run":
        min_pictures = max(self.study.fewest_when_stopped or 0, bool(self.stopped_after))
        if not self.arms:
            if len(self.frame) < min_pictures:
                raise self.get_unfinished_error(error) from error
            return self
        ready = [i for i, arm in enumerate(self.arms) if len(arm.frame) >= max(min_pictures, 1)]
        if len(ready) < 2:
            only = " and ".join(self.arms[i].name for i in ready) or "none"
            raise type(error)(
                f"{error}. A comparison needs pictures in two arms, and only {only} has any: run it again to continue, "
                "or run one arm alone"
            ) from error
        if empty_arms := [arm.name for i, arm in enumerate(self.arms) if i not in ready]:
            done = "picture that was read" if self.stopped_after else "finished picture"
            self.arms[ready[0]].notes.append(f"Arms without a {done} are left out: {', '.join(empty_arms)}.")
        part = copy(self)
        part.arms = tuple(self.arms[i] for i in ready)
        arms = tuple(self.settings.arms[i] for i in ready)
        part.settings = replace(self.settings, arms=arms, stop_when_clear=True)
        return part

    def get_unfinished_error(self, error: Cancelled) -> Cancelled:
        """Return the error for a run with too few finished pictures: how many there are, and how to continue."""
        if isinstance(error, Interrupted):  # the error already says why
            return error
        if self.stopped_after:
            error = self.not_enough_pictures()
        n, n_all = self.services.images.n_present(self.image_ids), len(self.image_ids)
        if n == n_all:
            return Cancelled(
                f"{error}. All {n:,} pictures are finished: run it again with the same settings to use them"
            )
        return Cancelled(
            f"{error}. {n:,} of {n_all:,} pictures are finished, too few for a report of this study: run it again with "
            "the same settings to continue, or with a smaller share"
        )

    def copy_for_encoder(self, encoder: str) -> "Run":
        """Return the same pictures for another encoder."""
        run = copy(self)
        for name in ("readers", "reader_facts"):
            vars(run).pop(name, None)
        run.settings = replace(self.settings, encoder=encoder, further_encoders=())
        run.arms = tuple(arm.copy_for_encoder(encoder) for arm in self.arms)
        run.frame, run.notes = self.drawn.copy(), list(self.notes)
        return run

    def _read_ahead(self, images: Sequence[StoredImage]) -> None:
        """Embed and caption finished pictures while the next are drawn; further encoders read them at the end."""
        for reader in self.readers:
            if reader.role == "encoder" and reader.name not in self.settings.further_encoders:
                encoder = self.encoder(reader.name)
                self.services.embeddings.images(encoder, images, lock=self.services.reading(encoder))
            elif reader.role == "captioner":
                self.ask_now(self.services.captioner(reader.name), [(image.path.stem, "") for image in images])

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
