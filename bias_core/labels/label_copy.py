"""Answers copied to a dataset of a hub every few minutes, for a machine whose disk does not stay."""

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from bias_core.labels.collected import write_answers
from bias_core.labels.label_store import LabelStore
from bias_core.waiting import handing_over


class LabelCopy:
    """Has a ``CommitScheduler`` upload the answers of every task, from now on until :meth:`close`.

    Each task is a JSONL file of its own in ``folder``, written before each upload. The dataset ``repo`` is private when
    it is made here. A hub that cannot be reached is tried again after ``minutes``, and holds up nobody.
    """

    def __init__(self, store: LabelStore, folder: Path, *, repo: str, minutes: float, api: Any = None) -> None:
        self._store, self._folder, self._api = store, folder, api
        self._repo, self._minutes = repo, minutes
        self._made: Future[Any] = Future()  # the scheduler, or why there is none yet
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._start, daemon=True, name="label-copy")
        self._thread.start()

    @property
    def last_error(self) -> str:
        """Why the last upload did not work; "" while all is well."""
        made = self._made
        last = getattr(made.result(), "last_future", made) if made.done() and made.exception() is None else made
        error = last.exception() if last.done() else None
        return "" if error is None else (str(error) or type(error).__name__)[:500]

    def close(self) -> None:
        """Upload the last answers and stop."""
        self._end.set()
        self._thread.join()
        if self._made.exception() is None:
            scheduler = self._made.result()
            scheduler.stop()  # from now on its own uploads do nothing; the last one waits for the one at work
            scheduler.api.run_as_future(scheduler.push_to_hub).exception()

    def _start(self) -> None:
        while True:
            made: Future[Any] = Future()
            with handing_over(made):
                made.set_result(self._scheduler())
            self._made = made
            if made.exception() is None or self._end.wait(60 * self._minutes):
                return

    def _scheduler(self) -> Any:
        from huggingface_hub import CommitScheduler  # takes a while

        store, folder = self._store, self._folder

        class LabelScheduler(CommitScheduler):
            def push_to_hub(self) -> Any:
                write_answers(store, folder)
                return super().push_to_hub()

        to = {"repo_id": self._repo, "repo_type": "dataset", "path_in_repo": "labels", "private": True}
        what = {"folder_path": folder, "allow_patterns": "*.jsonl"}
        return LabelScheduler(**what, **to, every=self._minutes, hf_api=self._api)
