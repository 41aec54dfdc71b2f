"""Tables that can be read at any width: no word is cut, and what does not fit side by side follows below."""

import re

from rich.cells import cell_len
from rich.table import Table

from bias_core.cli.common import console

_NUMBER = re.compile(r"[-+–\[\d].{0,19}")  # a short cell that begins so, such as an interval, stays on one line
_SENTENCE, _LINE = 60, 28  # longer texts than the first get lines of at least the second
_FRAME = 3  # a column's border and the blanks at either side of it


def show_table(table: Table) -> None:
    """Print a table of texts; where it is too wide, in parts that begin with the columns that name a row."""
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    if not columns:
        return
    room = console.width - 1
    first, *others = (_least(column) for column in columns)
    beside = min(max(others, default=0), room // 3) + 2 * _FRAME
    least = [min(first, room - beside), *others]  # a name that leaves no room for more is folded
    natural = [max(cell_len(line) for text in column for line in text.splitlines() or [""]) for column in columns]
    for i, part in enumerate(_parts(columns, least, room)):
        shown = Table(title=table.title if i == 0 or not table.title else f"{table.title} (continued)")
        widths = _widths([least[k] for k in part], [natural[k] for k in part], room)
        for k, width in zip(part, widths, strict=True):
            shown.add_column(columns[k][0], width=width, overflow="fold")
        for row in list(zip(*columns, strict=True))[1:]:
            shown.add_row(*(row[k] for k in part))
        console.print(shown)


def _least(column: list[str]) -> int:
    """Letters of the longest word, or of the longest cell that should not be broken."""
    words = [word for text in column for word in text.split()]
    numbers = [text for text in column[1:] if _NUMBER.fullmatch(text)]
    least = max(map(cell_len, [*words, *numbers]), default=1)
    return max(least, _LINE) if any(cell_len(text) > _SENTENCE for text in column) else least


def _parts(columns: list[list[str]], least: list[int], room: int) -> list[list[int]]:
    """Places of the columns of each part."""
    n_keys = _n_keys(columns)
    while n_keys > 1 and sum(least[:n_keys]) + _FRAME * n_keys > room / 2:
        n_keys -= 1
    keys = list(range(n_keys))
    parts = [keys]
    for k in range(n_keys, len(columns)):
        wider = [*parts[-1], k]
        if sum(least[i] + _FRAME for i in wider) > room and len(parts[-1]) > n_keys:
            parts.append([*keys, k])
        else:
            parts[-1] = wider
    return parts


def _n_keys(columns: list[list[str]]) -> int:
    """How many of the first columns tell all rows apart; 1 where none do."""
    n_rows = len(columns[0]) - 1
    for n in range(1, len(columns)):
        if len(set(zip(*(column[1:] for column in columns[:n]), strict=True))) == n_rows:
            return n
    return 1


def _widths(least: list[int], natural: list[int], room: int) -> list[int]:
    """Each at least ``least``; what room is left goes to those who want more, the most modest first.

    >>> _widths([3, 5], [3, 40], room=30), _widths([3, 5], [3, 7], room=80), _widths([50], [60], room=20)
    ([3, 21], [3, 7], [17])
    """
    widths = [min(width, max(1, room - _FRAME)) for width in least]
    spare = room - sum(widths) - _FRAME * len(widths)
    wanting = sorted(range(len(widths)), key=lambda k: natural[k] - widths[k])
    for n_left, k in zip(range(len(wanting), 0, -1), wanting, strict=True):
        more = max(0, min(natural[k] - widths[k], spare // n_left))
        widths[k] += more
        spare -= more
    return widths
