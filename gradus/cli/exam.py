"""An evaluation as text for a terminal."""

from __future__ import annotations

from typing import Any


def exam_table(exam: Any) -> str:
    """An evaluation as text."""
    from gradus.runtime.terminal import paragraph
    from gradus.study.intervals import few

    rows = [(f"pass@{k}", value) for k, value in exam.pass_at.items()]
    rows += [(f"majority of {exam.samples}", exam.majority), ("greedy", exam.greedy), ("reward", exam.reward), ("length", exam.length)]
    problems, samples = (f"{n:,} {what}{'s' * (n != 1)}" for n, what in ((exam.problems, "held-out problem"), (exam.samples, "sample")))
    lines = [f"{exam.task}: {problems}, {samples} each at temperature {exam.temperature:g}"]
    lines += [f"{label}: {said}" for label, said in (("prompts", exam.prompts), ("judged by", exam.judged_by)) if said]
    for label, value in [row for row in rows if row[1] is not None]:
        bounds = "no interval" if value.low is None else f"[{value.low:.3f}, {value.high:.3f}]  {value.kind}"
        lines.append(f"  {label:<16} {value.mean:8.3f} of {value.count:,} problem{'s' * (value.count != 1)}   {bounds}")
    if exam.failed:
        lines.append(f"  {exam.failed} trajectories have no reward and count as wrong")
    if warning := few(exam.problems):
        lines.append(paragraph(f"warning: {warning}; use 30 or more (--problems N, or more held-out problems in the task)"))
    lines.append("intervals: 95 %; a problem counts once, with the mean of its samples")
    return "\n".join([*lines, *(line for table in exam.tables for line in table_lines(table))])


def table_lines(table: Any) -> list[str]:
    """A table of an evaluation as lines: the title, the names of the columns, and the rows."""
    cells = [[name.replace("_", " ") for name in table.columns], *([_cell(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["", table.title, *("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)]


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if value == int(value) and abs(value) >= 2 else f"{value:.3f}"
