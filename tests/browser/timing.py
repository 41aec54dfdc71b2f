"""Limits of time that hold on a busy machine too: they grow with the time that other programs take."""

from __future__ import annotations

import time

_CPU_SECONDS = 0.15


def slowdown() -> float:
    """Seconds of waiting that a second of work takes just now; 1 on an idle machine."""
    started, worked = time.perf_counter(), time.process_time()
    while time.process_time() - worked < _CPU_SECONDS:
        sum(range(1000))
    return max(1.0, (time.perf_counter() - started) / _CPU_SECONDS)
