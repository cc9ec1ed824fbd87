"""What the design says is guarded or shown by a test is: the test is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DESIGN = TESTS.parent / "docs" / "design"
NON_OBVIOUS = DESIGN / "non-obvious.md"
VERSIONS = TESTS.parent / "docs" / "guide" / "versions.md"
PARITY = TESTS.parent / "docs" / "parity.md"
DECISIONS = sorted((DESIGN / "decisions").glob("*.md"))
NAMED = re.compile(r"`([a-z]+/test_[a-z_]+\.py)(?:::(test_[a-z0-9_]+))?`")
LINES_OF_A_PAGE = 60


def entries(text: str) -> list[str]:
    return re.split(r"(?m)^\* ", text)[1:]


def missing(text: str) -> list[str]:
    """Tests that ``text`` names and that are not there; a file alone is no test."""
    return [f"{file}::{test}" for file, test in NAMED.findall(text) if not is_there(file, test)]


def is_there(file: str, test: str) -> bool:
    path = TESTS / file
    return path.exists() and test in functions_of(path)


def functions_of(path: Path) -> set[str]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


def test_every_entry_of_what_is_not_obvious_names_the_test_that_guards_it() -> None:
    text = NON_OBVIOUS.read_text(encoding="utf-8")
    assert entries(text)
    assert [entry for entry in entries(text) if not NAMED.search(entry)] == []
    assert missing(text) == []


def test_every_answer_of_another_store_names_the_test_that_holds_what_becomes_of_it() -> None:
    _, table = VERSIONS.read_text(encoding="utf-8").split("| held by |\n|---|---|---|---|\n")
    rows = [row for row in table.splitlines() if row.startswith("|")]
    assert len(rows) >= 8
    assert [row for row in rows if not NAMED.search(row)] == []
    assert missing(table) == []


def test_every_test_that_the_page_of_parity_names_is_there() -> None:
    text = PARITY.read_text(encoding="utf-8")
    assert len(NAMED.findall(text)) >= 15
    assert missing(text) == []


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_a_page_that_names_what_shows_it_and_what_would_change_it(decision: Path) -> None:
    text = decision.read_text(encoding="utf-8")
    assert NAMED.search(text)
    assert missing(text) == []
    assert all(f"**{part}" in text for part in ("Question.", "Possible", "Decided: ", "Shown by", "What would change"))
    assert len(text.splitlines()) <= LINES_OF_A_PAGE


def test_there_are_decisions() -> None:
    assert DECISIONS


def test_a_test_that_is_gone_is_noticed() -> None:
    here = "architecture/test_named_tests.py"
    assert missing(f"`{here}::test_there_are_decisions`") == []
    assert missing(f"`{here}::test_that_was_renamed` and `unit/test_nothing.py::test_a` and `{here}`") == [
        f"{here}::test_that_was_renamed",
        "unit/test_nothing.py::test_a",
        f"{here}::",
    ]
