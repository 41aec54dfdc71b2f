"""Shared parts of one process: models and stores, people's answers, uploads and the queue of runs.

Built once when the program starts (app, command line, a script) and handed to studies as an
argument. No part belongs to one visitor.
"""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from bias_core.run.run_queue import RunQueue
from bias_core.store.uploads import UploadStore
from bias_core.study.label_tasks import N_LABELS
from bias_core.study_services import StudyServices

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.labels.label_store import LabelStore
    from bias_core.labels.results import LabelCopy
    from bias_core.study.types import StudyReport


class Services(StudyServices):
    """Models and stores by name; safe to use from several threads."""

    @property
    def labels(self) -> "LabelStore":
        """The store of people's answers; its database opens on first use."""
        from sqlalchemy import URL

        from bias_core.labels.label_store import LabelStore

        data, max_bytes = self.settings.data_dir, int(self.settings.label_pictures_gb * 1e9)
        url = self.settings.labels_url or URL.create("sqlite", database=str(data.absolute() / "labels.sqlite"))
        open_store = partial(LabelStore, url, pictures=data / "label_pictures", most_picture_bytes=max_bytes)
        return self._built.get("labels", "", open_store)

    def run_answers(self, run_id: str) -> "pd.DataFrame | None":
        """People's answers about a run, as a frame; None if no labelling task was made for it."""
        manifest = self.manifests.find(run_id) if run_id.isalnum() else None
        if manifest is None or not manifest.label_tasks:
            return None  # do not open the store needlessly
        from bias_core.labels.results import run_answers

        return run_answers(self.labels, run_id, manifest.label_tasks)

    def n_to_label(
        self, report: "StudyReport", n: int = N_LABELS, setting: str = "", attributes: Sequence[str] = ()
    ) -> int:
        """The number of pictures in a labelling task of a run that is to have ``n``; 0 if none can be made.

        ``setting`` is that of the paired test, ``attributes`` are those that people are asked about, () for the usual
        ones; InvalidInput for one that the run lacks.
        """
        from bias_core.study.classifier_answers import asked_readings, list_readings, list_stored_pictures

        manifest = self.manifests.find(report.run_id) if report.run_id.isalnum() else None
        readings = (
            [] if manifest is None else asked_readings(list_readings(report), attributes=attributes, setting=setting)
        )
        remaining = set(list_stored_pictures(report, readings))
        if manifest is not None and manifest.label_tasks and remaining:  # else do not open the store needlessly
            from bias_core.labels.make_task import pictures_in_tasks

            remaining -= pictures_in_tasks(self.labels, manifest, readings)
        return min(n, len(remaining))

    def answered_tasks(self, task_ids: Sequence[str]) -> set[str]:
        """The labelling tasks with answers that count, attention checks aside."""
        if not task_ids:
            return set()  # do not open the store needlessly
        from bias_core.labels.results import answered_tasks

        return answered_tasks(self.labels, task_ids)

    def label_copy(self) -> "LabelCopy | None":
        """The copying of answers to a hub's dataset, started on first use; None without BIAS_LABELS_REPO."""
        settings = self.settings
        if not settings.labels_repo:
            return None
        from bias_core.labels.results import LabelCopy

        start = partial(LabelCopy, self.labels, settings.data_dir / "label_copy", repo=settings.labels_repo)
        return self._built.get("label_copy", "", partial(start, minutes=settings.labels_repo_minutes))

    @cached_property
    def uploads(self) -> UploadStore:
        """The store of visitors' uploads."""
        return UploadStore(int(self.settings.uploads_gb * 1e9))

    @cached_property
    def run_queue(self) -> RunQueue:
        """The queue of waiting runs."""
        return RunQueue.from_settings(self.settings)

    def close(self) -> None:
        """Close files and workers."""
        super().close()
        label_copy = self.label_copy() if ("label_copy", "") in self._built else None
        if label_copy is not None:
            label_copy.close()
        if ("labels", "") in self._built:
            self.labels.close()
        self.uploads.close()
