"""Tables of text that fit the terminal. No line is longer than the width of the terminal, and no word is broken."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence

from gradus.runtime.terminal import columns, paint, wrapped

GAP = "  "
INDENT = "    "  # indent of a text below its row
PROSE = 40  # number of characters; if the last column has a longer cell, it is prose, and gets at least this width next to the other columns
LONG = 0.25  # a name may be too long for its column in at most this share of the rows

Row = Sequence[str]
Style = str | Callable[[str], str]  # the name of a style for all cells, or a function that gives the name for each cell
Ink = Callable[[str, str], str]  # a function that colours a text in a style

_WORD = r"([+-]?\d\S*|\[\S+|s|GiB)"  # matches a word of a number, of an interval or of a unit
_NUMBER = re.compile(rf"{_WORD}( {_WORD})*$|-$|$|not measured$|no interval$")


def table(rows: Sequence[Row], head: Row, styles: Mapping[int, Style] | None = None, *, room: int | None = None) -> str:
    """Returns aligned columns below their titles. Numbers are aligned on the right.

    If the table is too wide, there are three steps. First, a last column of prose is wrapped. If there is too little room next to the other columns, columns of
    names become narrower. After a name that is too long for its column, the row continues on a new line. If this is the case in many rows, the prose moves
    below the row instead. Second, the other columns of words are wrapped. Third, the table is cut into several tables. Each of these tables has the first
    column.

    Args: `rows`: the cells. `head`: the titles. `styles`: the styles by the number of the column (by default the first column has the style "name"). `room`:
    the width; None: the width of the terminal.
    """
    inked: Mapping[int, Style] = {0: "name", **(styles or {})}
    room, last = room or columns(), len(head) - 1
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    if _total(widths) <= room:
        return _block(rows, head, widths, inked)
    prose = last > 0 and max((len(row[last]) for row in rows), default=0) > PROSE
    if prose and (left := room - _total(widths[:-1]) - len(GAP)) >= min(PROSE, widths[-1]):
        return _block(rows, head, [*widths[:-1], left], inked)
    if prose and (names := _narrowed(rows, head, room - PROSE - len(GAP))):
        whole = [part for row in rows for part in _broken(row, names)]
        return _block(whole, head, [*names, room - _total(names) - len(GAP)], inked)
    others = range(last if prose else last + 1)
    fitted = _fitted([[row[i] for row in [head, *rows]] for i in others], [widths[i] for i in others], room)
    if _total(fitted) <= room:
        return _block(rows, head, fitted, inked, below=room if prose else 0)
    parts = [_part(rows, head, chosen, room, inked) for chosen in _cut(widths[: len(others)], room)]
    return "\n\n".join([*parts, *([_part(rows, head, [0, last], room, inked)] if prose else [])])


def outline(rows: Sequence[Row], head: Row | None = None, styles: Mapping[int, Style] | None = None, *, room: int | None = None, ink: Ink = paint) -> str:
    """Returns the lines of a tree.

    Names are indented by their depth. The columns of values are next to the names. Columns that are too wide are wrapped.

    If a name is so long that there is too little room for the values, the name has its own line.

    Args: rows: the cells; the first cell begins with the blanks of its indent; room: the width; None: the width of the terminal; ink: colours the
    text.
    """
    every, room = [*([] if head is None else [head]), *rows], room or columns()
    widths = [max((len(row[i]) for row in every), default=0) for i in range(len(every[0]) if every else 0)]
    values = _fitted([[row[i] for row in every] for i in range(1, len(widths))], widths[1:], room - sum(widths[:1]) - len(GAP))
    names = max(min(sum(widths[:1]), room - _total(values) - len(GAP)), 1)
    folded = [part for row in every for part in _folded(row, names)]
    return "\n".join(_lines(folded, [names, *values], {0: "name", **(styles or {})}, ink=ink, titles=head is not None))


def _folded(row: Row, first: int) -> list[Row]:
    """Returns the row as one line.

    If its name is longer than `first` characters, the row has one line for the name and one line for the values.
    """
    return [row] if len(row[0]) <= first or not any(row[1:]) else [[row[0], *[""] * (len(row) - 1)], ["", *row[1:]]]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * max(len(widths) - 1, 0)


def _is_number(cells: Sequence[str]) -> bool:
    """Whether every cell is a number, an interval, or the word for a missing number."""
    return all(_NUMBER.match(cell) for cell in cells) and any(cells)


def _fitted(cells: Sequence[Sequence[str]], widths: Sequence[int], room: int) -> list[int]:
    """Returns narrower widths for columns of words. The widest column shrinks first. No column becomes narrower than its longest word."""
    least = [w if _is_number(column[1:]) else max(len(word) for cell in column for word in cell.split() or [""]) for column, w in zip(cells, widths)]
    found = list(widths)
    while _total(found) > room and (able := [i for i, w in enumerate(found) if w > least[i]]):
        found[max(able, key=lambda i: found[i] - least[i] / 2)] -= 1
    return found


def _narrowed(rows: Sequence[Row], head: Row, room: int) -> list[int]:
    """Returns widths of all columns except the last one, so that they fit into `room`. Columns of names become narrower. The column with the fewest cells
    that become too long is the first.

    If the share of rows with a cell that is too long would exceed `LONG`, returns an empty list.
    """
    columns = [[row[i] for row in rows] for i in range(len(head) - 1)]
    names = [i for i, cells in enumerate(columns) if not _is_number(cells) and not any(" " in cell for cell in cells)]
    found = [max(map(len, [title, *cells])) for title, cells in zip(head, columns)]
    while _total(found) > room:
        able = {i: max(len(c) for c in [head[i], *columns[i]] if len(c) < found[i]) for i in names if found[i] > len(head[i])}
        if not able:
            return []
        chosen = min(able, key=lambda i: sum(len(c) > able[i] for c in columns[i]))
        found[chosen] = able[chosen]
    found[0] += min(room - _total(found), max(map(len, [head[0], *columns[0]])) - found[0])
    long = sum(any(len(cells[n]) > w for cells, w in zip(columns, found)) for n in range(len(rows)))
    return found if long <= LONG * len(rows) else []


def _broken(row: Row, widths: Sequence[int]) -> list[Row]:
    """Returns the row as one line, or as several lines if a cell is too long for its column. The cells after such a cell are on the next line."""
    ends = [i + 1 for i, w in enumerate(widths) if len(row[i]) > w]
    return [[cell if a <= i < b else "" for i, cell in enumerate(row)] for a, b in itertools.pairwise([0, *ends, len(row)])]


def _cut(widths: Sequence[int], room: int) -> list[list[int]]:
    """Returns, for each part of the table, the numbers of its columns. Each part repeats the first column, and then has as many further columns as fit."""
    parts = [[0]]
    for number in range(1, len(widths)):
        if len(parts[-1]) > 1 and _total([widths[i] for i in [*parts[-1], number]]) > room:
            parts.append([0])
        parts[-1].append(number)
    return parts


def _part(rows: Sequence[Row], head: Row, chosen: Sequence[int], room: int, styles: Mapping[int, Style]) -> str:
    """Returns a table of the columns `chosen` only."""
    inked = {n: styles[i] for n, i in enumerate(chosen) if i in styles}
    return table([[row[i] for i in chosen] for row in rows], [head[i] for i in chosen], inked, room=room)


def _block(rows: Sequence[Row], head: Row, widths: Sequence[int], styles: Mapping[int, Style], *, below: int = 0) -> str:
    """Returns the text of a table with these widths. `below`: the width of separate lines for the last cell of each row; 0: no separate lines."""
    right = [i > 0 and _is_number([row[i] for row in rows]) for i in range(len(widths))]
    return "\n".join(_lines([head, *rows], widths, styles, right=right, below=below))


def _lines(
    rows: Sequence[Row],
    widths: Sequence[int],
    styles: Mapping[int, Style],
    *,
    right: Sequence[bool] | None = None,
    below: int = 0,
    titles: bool = True,
    ink: Ink = paint,
) -> list[str]:
    """Returns the lines of the rows. The first row has the style of titles. A cell that is too wide takes several lines."""
    lines = []
    for number, row in enumerate(rows):
        inked: Mapping[int, Style] = dict.fromkeys(range(len(row)), "title") if titles and number == 0 else styles
        chosen = [_style(inked, i, cell) for i, cell in enumerate(row)]
        cells = [[cell] if cell.startswith(" ") else wrapped(cell, width) for cell, width in zip(row, widths)]
        lines += [_line(texts, widths, right or [False] * len(widths), chosen, ink) for texts in itertools.zip_longest(*cells, fillvalue="")]
        if below:
            lines += [INDENT + ink(text, chosen[-1]) for text in wrapped(row[-1], below - len(INDENT)) if text]
    return lines


def _line(texts: Row, widths: Sequence[int], right: Sequence[bool], styles: Row, ink: Ink) -> str:
    """Returns one line. Blanks are not coloured, and there are no blanks at the end of the line."""
    line, gap = "", ""
    for text, width, to_right, style in zip(texts, widths, right, styles):
        bare = text.strip()
        padding = " " * (width - len(text))
        if bare:
            line += gap + (padding if to_right else "") + text[: len(text) - len(text.lstrip())] + ink(bare, style)
            gap = ("" if to_right else padding) + GAP
        else:
            gap += " " * width + GAP
    return line


def _style(styles: Mapping[int, Style], number: int, cell: str) -> str:
    style = styles.get(number, "")
    return style(cell) if callable(style) else style
