"""The page of what a hostile reading found, held to the tests that hold it."""

from __future__ import annotations

import pytest

from connector_tests.architecture.test_named_tests import DESIGN, NAMED, missing

PAGE = DESIGN / "join-hardened.md"
HEADS = ("number", "what was wrong, or missing")
POINTS = 25


def rows(text: str) -> list[list[str]]:
    """The cells of all tables' rows but their heads."""
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return [cells for cells in lines if cells[0] not in HEADS]


ROWS = rows(PAGE.read_text(encoding="utf-8"))


def test_each_point_is_there_once() -> None:
    numbered = [cells for cells in ROWS if cells[0].isdigit()]
    assert [int(cells[0]) for cells in numbered] == list(range(1, POINTS + 1))
    assert {len(cells) for cells in numbered} == {4}


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: cells[0])
def test_a_row_names_tests_that_are_there(cells: list[str]) -> None:
    assert NAMED.search(cells[-1])
    assert missing(cells[-1]) == []
