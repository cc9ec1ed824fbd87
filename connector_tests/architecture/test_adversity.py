"""The page of what goes wrong, held to the tests that make it go wrong."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

import pytest

from connector_tests.architecture.test_named_tests import DESIGN, NAMED, TESTS, functions_of, missing

PAGE = DESIGN / "adversity.md"
OF_ADVERSITY = (
    *sorted(f"faults/{path.name}" for path in (TESTS / "faults").glob("test_*.py")),
    "spark/test_faults.py",
    "spark/test_kill_sweep.py",
    "spark/test_missing_queues.py",
    "spark/test_other_queues.py",
    "spark/test_positions_that_stay.py",
    "spark/test_task_attempts.py",
    "properties/test_hostile_bytes.py",
)
"""Files of which every test is on the page."""


class Row(NamedTuple):
    scenario: str
    story: str
    tests: str


def rows(text: str) -> list[Row]:
    """Of all tables but their heads."""
    lines = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return [Row(*cells) for cells in lines if cells[0] != "scenario"]


def untold(text: str, files: tuple[str, ...] = OF_ADVERSITY) -> set[str]:
    """Tests of these files that the page does not name."""
    there = {f"{file}::{test}" for file in files for test in functions_of(TESTS / file) if test.startswith("test_")}
    return there - {f"{file}::{test}" for file, test in NAMED.findall(text)}


def docstring_of(file: str, test: str) -> str:
    module = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    (found,) = (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == test)
    return ast.get_docstring(found) or ast.get_docstring(module) or ""


TEXT = PAGE.read_text(encoding="utf-8")
ROWS = rows(TEXT)


def test_every_test_of_adversity_is_on_the_page() -> None:
    assert untold(TEXT) == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.scenario)
def test_a_scenario_says_what_went_wrong_and_names_tests_that_are_there(row: Row) -> None:
    assert re.match(r"(once|would) \w+", row.story)
    assert NAMED.search(row.tests)
    assert missing(row.tests) == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.story.startswith("once ")], ids=lambda row: row.scenario)
def test_what_went_wrong_once_is_told_by_the_test_as_well(row: Row) -> None:
    assert all(docstring_of(file, test) for file, test in NAMED.findall(row.tests))


def test_there_are_scenarios_of_each_kind() -> None:
    assert len(ROWS) > 40
    assert sum(row.story.startswith("once ") for row in ROWS) > 10


def test_a_test_that_is_not_told_of_is_found() -> None:
    ((file, test),) = NAMED.findall(ROWS[0].tests)
    assert untold(TEXT.replace(test, "test_another")) == {f"{file}::{test}"}
