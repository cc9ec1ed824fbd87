"""Pages for maintainers that are not kept: the file map and the mutation page, below ``build``."""

from __future__ import annotations

from pathlib import Path

from file_map import file_map
from mutation_page import mutation_page


def write_built(root: Path) -> None:
    """Write them."""
    folder = root / "build"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file-map.md").write_text(file_map_page(), encoding="utf-8")
    (folder / "mutation.md").write_text(mutation_page(), encoding="utf-8")


def file_map_page() -> str:
    """Return build/file-map.md."""
    head = "What each module is for, by package. [DESIGN](../DESIGN.md) has the picture. Written by 'make docs'."
    return f"# File map\n\n{head}\n\n{file_map()}"
