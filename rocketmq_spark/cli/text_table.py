"""Tables of aligned columns, as commands print them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rocketmq_spark.condition import one_line

NO_VALUE: Final = "-"

_UNITS: Final = ((1_000, 120_000, "s"), (60_000, 7_200_000, "min"), (3_600_000, 172_800_000, "h"))
"""Milliseconds in a unit, first age that is shown in a larger unit, and name."""


def text_table(header: Sequence[str], rows: Sequence[Sequence[str | int | None]]) -> list[str]:
    """Return the lines of a table, the header first. Columns with a number are aligned to the right, columns without to
    the left. None is shown as ``-``. Each row is one line, whatever its text contains. Raises ValueError for a row that
    is not as long as the header."""
    cells = [[NO_VALUE if cell is None else one_line(str(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_number = [any(isinstance(row[index], int) for row in rows) for index in range(len(header))]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in cells
    ]


def age_text(age_ms: int) -> str:
    """Return an age with one decimal and its unit: s under 2 min, min under 2 h, h under 48 h, then d. Under 1 s return
    whole ms."""
    if age_ms < _UNITS[0][0]:
        return f"{age_ms} ms"
    for unit_ms, end_ms, name in _UNITS:
        if age_ms < end_ms:
            return f"{age_ms / unit_ms:.1f} {name}"
    return f"{age_ms / 86_400_000:.1f} d"
