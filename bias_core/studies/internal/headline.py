"""What stands out of the internal-bias study: which way drawing moves which targets."""

import pandas as pd

from bias_core.studies.internal.poles import sides_of
from bias_core.studies.kit.types import StudyReport, listed
from bias_core.studies.reports.text import table_of


def headline(report: StudyReport) -> str:
    """One sentence on which way drawing moves which targets; without their poles, which way they lean."""
    table, called = table_of(report, "table3").frame, sides_of(report.settings.options).called
    if table["δ′"].isna().all():
        return _headline(table, "MCAS", "Text and pictures together (MCAS) lean", "for", called)
    return _headline(table.dropna(subset=["δ′"]), "δ′", "Between their own poles (δ′), drawing moves", "", called)


def _headline(table: pd.DataFrame, column: str, what: str, of: str, called: tuple[str, str]) -> str:
    """Which targets go which way by the intervals of a column; ``what`` goes there, ``of`` stands before targets."""
    to_a = table.loc[table[f"{column} low"] > 0, "target"].tolist()
    to_b = table.loc[table[f"{column} high"] < 0, "target"].tolist()
    rest = len(table) - len(to_a) - len(to_b)
    sides = [
        f"to {side} {of} {listed(names)}" if of else f"{listed(names)} to {side}"
        for side, names in zip(called, (to_a, to_b), strict=True)
        if names
    ]
    if not sides:
        none, where = f"none of {len(table)} targets", f"clearly to {' or '.join(called)}"
        return f"{what} {f'{where} {of} {none}' if of else f'{none} {where}'}; none is shown to be even."
    return f"{what} {', '.join(sides)}{f'; {rest} of {len(table)} to neither clearly' if rest else ''}."
