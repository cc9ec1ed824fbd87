"""Users' pages are in the field's words: no machine speaks in them, and no test or make target stands in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
OTHERS: Final = {"dev", "benchmarks"}
"""Folders of ``docs`` for maintainers, and of measurements."""
GENERATED_PAGES: Final = {"options.md", "errors.md", "columns.md"}
PAGES: Final = [
    page
    for page in (*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md")))
    if page.parent.name not in OTHERS and page.name not in GENERATED_PAGES
]
SHOWN: Final = re.compile(r"```.*?```|<!-- (\w+): written.*?<!-- end of \1 -->|\]\([^)]*\)", re.DOTALL)
"""Code, log lines, generated parts and the targets of links."""
REFUSED: Final = re.compile(
    r"\b(?:says?|said|tells?|told|hears?|heard|whoever|nobody|somebody|anew|so many|goes on|is away|comes again"
    r"|made anew|looks? at|asks?|asked)\b|`[a-z]+/test_\w+|`make \w+",
    re.IGNORECASE,
)


def refused(text: str) -> list[str]:
    """What a users' page must not have."""
    return REFUSED.findall(SHOWN.sub("", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_users_page_has_no_words_of_its_own(page: Path) -> None:
    assert refused(page.read_text(encoding="utf-8")) == []


def test_refused_words_are_found() -> None:
    assert refused("The broker says so, and `unit/test_options.py` with `make test` asks.") == [
        "says",
        "`unit/test_options",
        "`make test",
        "asks",
    ]
    assert refused("```\nit says so\n```\n[Log](it-says.md)\n<!-- a: written -->says<!-- end of a -->") == []
