"""Bars of the benches: a row says whether it met its bar; a script with a row that did not ends with status 1."""

import sys

_missed: list[str] = []


def held(is_met: bool) -> str:
    """Say whether a row holds, and count it if it does not."""
    _missed.extend([] if is_met else ["row"])
    return "met" if is_met else "MISSED"


def bar(figure: float, *, most: float | None = None, least: float | None = None, unit: str = "", why: str = "") -> str:
    """Say what a figure may be at most, or has to be at least, and whether it is.

    ``why``: the reason why this machine cannot meet it, "" if it can; such a row is not counted.
    """
    limit, words = (most, "at most") if most is not None else (least, "at least")
    is_met = figure <= limit if most is not None else figure >= limit
    said = f"missed, as it must be here: {why}" if why and not is_met else held(bool(is_met))
    return f"({words} {limit:g}{f' {unit}' if unit else ''}: {said})"


def end() -> None:
    """End with status 1 if a row missed its bar."""
    if _missed:
        sys.exit(f"missed its bar: {len(_missed)} of the rows above")
