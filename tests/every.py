"""A property of many things is one test, which lists all that do not have it."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def every(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Run a check on every case (a tuple is its arguments) and fail with a line for each that fails.

    Unlike ``pytest.mark.parametrize`` it makes a single test, and shows all offenders at once.
    """

    def of(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            broken = []
            for case in cases:
                try:
                    check(*case if isinstance(case, tuple) else (case,))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 (all are listed)
                    notes = getattr(error, "__notes__", ())
                    broken.append(f"{case}: {' '.join([type(error).__name__, str(error), *notes])[:2000]}")
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return of
