"""What stands out of the internal-bias study: which way drawing moves which targets."""

import pandas as pd

from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.text import table_of


def headline(report: StudyReport) -> str:
    """One sentence on which way drawing moves which targets; without their poles, which way they lean."""
    table = table_of(report, "table3").frame
    if "δ′" not in table or table["δ′"].isna().all():
        return _headline(table, "MCAS", ("leans", "lean"), "as text and pictures together (MCAS), ")
    moved = "is moved by drawing", "are moved by drawing"
    return _headline(table.dropna(subset=["δ′"]), "δ′", moved, "between their own poles (δ′), ")


def _headline(table: pd.DataFrame, column: str, verbs: tuple[str, str], how: str) -> str:
    """Which targets go which way by the intervals of a column; ``verbs`` of one and of several."""
    men = table.loc[table[f"{column} low"] > 0, "target"].tolist()
    women = table.loc[table[f"{column} high"] < 0, "target"].tolist()
    named = [f"to {side}: {', '.join(names)}" for side, names in (("men", men), ("women", women)) if names]
    rest = len(table) - len(men) - len(women)
    if not named:
        return f"None of {len(table)} targets {verbs[0]} clearly to men or women; none is shown to be even."
    unclear = f"; to neither clearly: {rest}" if rest else ""
    return f"Of {len(table)} targets, {how}{verbs[1]} {'; '.join(named)}{unclear}."
