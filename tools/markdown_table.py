"""Tables of generated pages."""

from __future__ import annotations

from collections.abc import Iterable


def table(header: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    """In Markdown."""
    cells = [header, ("---",) * len(header), *lines]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in cells)
