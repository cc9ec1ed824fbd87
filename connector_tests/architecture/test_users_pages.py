"""Users' pages name no test and no make target. Their words are held by ``test_words``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FOR_MAINTAINERS: Final = {"dev", "benchmarks"}
"""Folders of ``docs`` for maintainers, and of measurements."""
GENERATED_PAGES: Final = {"options.md", "errors.md", "columns.md"}
PAGES: Final = [
    page
    for page in (*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md")))
    if page.parent.name not in FOR_MAINTAINERS and page.name not in GENERATED_PAGES
]
SHOWN: Final = re.compile(r"```.*?```|<!-- (\w+): written.*?<!-- end of \1 -->|\]\([^)]*\)", re.DOTALL)
"""Code, log lines, generated parts and the targets of links."""
REFUSED: Final = re.compile(r"`[a-z]+/test_\w+|`make \w+")


def refused(text: str) -> list[str]:
    """Return what a users' page must not have."""
    return [found[0] for found in REFUSED.finditer(SHOWN.sub("", text))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_users_page_names_no_test_and_no_make_target(page: Path) -> None:
    assert refused(page.read_text(encoding="utf-8")) == []


def test_named_tests_and_make_targets_are_found() -> None:
    assert refused("It is in `unit/test_options.py`; run `make test`.") == ["`unit/test_options", "`make test"]
    assert refused("```\nmake test\n```\n[It](unit/test_a.py)\n<!-- a: written -->`make a`<!-- end of a -->") == []
