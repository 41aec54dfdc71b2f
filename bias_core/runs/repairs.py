"""What stores found broken and made anew: said in the report of the run that met it, and in the log."""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from threading import Lock

_LOG = logging.getLogger(__name__)
_MOST_KEPT = 1000


class Repairs:
    """Sentences in the order in which they came; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sentences: deque[str] = deque(maxlen=_MOST_KEPT)
        self._n = 0

    def note(self, sentence: str) -> None:
        """Take note of a repair; the sentence must name no visitor and nothing of theirs."""
        with self._lock:
            self._sentences.append(sentence)
            self._n += 1
        _LOG.warning("%s", sentence)

    @property
    def n(self) -> int:
        """How many there were so far: where a run that starts now begins to look."""
        return self._n

    def since(self, n: int) -> list[str]:
        """The repairs after the first ``n``, each sentence once."""
        with self._lock:
            first = max(0, len(self._sentences) - (self._n - n))
            return list(dict.fromkeys(islice(self._sentences, first, None)))
