"""The page of what it says and to which brokers, held to the tests that hold it."""

from __future__ import annotations

import pytest

from connector_tests.architecture.test_join_hardened import rows
from connector_tests.architecture.test_named_tests import DESIGN, NAMED, missing

PAGE = DESIGN / "voice.md"
HEADS = ("point", "what is to be shown")
POINTS = 8
ROWS = [cells for cells in rows(PAGE.read_text(encoding="utf-8")) if cells[0] not in HEADS]


def test_each_point_is_there_in_order() -> None:
    points = [int(cells[0]) for cells in ROWS if cells[0].isdigit()]
    assert points == sorted(points)
    assert set(points) == set(range(1, POINTS + 1))


@pytest.mark.parametrize("cells", ROWS, ids=lambda cells: f"{cells[0]}: {cells[1]}")
def test_a_row_names_tests_that_are_there(cells: list[str]) -> None:
    assert NAMED.search(cells[-1])
    assert missing(cells[-1]) == []
