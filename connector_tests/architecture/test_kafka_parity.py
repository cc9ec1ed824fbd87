"""docs/dev/kafka-parity.md names a test, or a reason, for each reading behaviour of Spark's Kafka suites."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from kafka_parity import ROWS, Row, page, rows

TESTS = Path(__file__).parents[1]
PARITY = rows(ROWS.read_text(encoding="utf-8"))

ONE_ROW = """
spark = "4.2.0"
[suite]
batch = "KafkaRelationSuite"
[[row]]
suite = "batch"
behaviour = "A | B"
kafka = ["one", "two"]
"""


@cache
def functions(file: str) -> set[str]:
    path = TESTS / file
    if not path.is_file():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def missing_tests(row: Row) -> list[str]:
    """The tests of ``row`` that do not exist."""
    return [test for test in row.tests if test.partition("::")[2] not in functions(test.partition("::")[0])]


@pytest.mark.parametrize("row", PARITY, ids=lambda row: row.behaviour)
def test_each_test_of_a_behaviour_exists(row: Row) -> None:
    assert missing_tests(row) == []


def test_no_test_of_a_suite_is_in_two_rows() -> None:
    named = [(row.suite, name) for row in PARITY for name in row.kafka]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("test", ["unit/test_batch.py::test_renamed", "unit/no_such_file.py::test_any"])
def test_renamed_test_is_found(test: str) -> None:
    row = rows(ONE_ROW + f'tests = ["{test}"]')[0]
    assert missing_tests(row) == [test]


@pytest.mark.parametrize(
    "outcomes",
    ["", "tests = []", 'open = ""', 'tests = ["t"]\nopen = "r"', 'not_applicable = "r"\ntests = ["t"]'],
)
def test_row_has_exactly_one_outcome(outcomes: str) -> None:
    with pytest.raises(ValueError, match=r"exactly one of tests, not_applicable, open: A \| B"):
        rows(ONE_ROW + outcomes)


@pytest.mark.parametrize(
    ("outcome", "cell", "counts"),
    [
        (
            'tests = ["unit/a.py::test_a", "unit/b.py::test_b"]',
            "[`test_a`](../../connector_tests/unit/a.py)<br>",
            "1, 0, 0",
        ),
        ('not_applicable = "Why."', "Does not apply. Why.", "0, 1, 0"),
        ('open = "When."', "**Open.** When.", "0, 0, 1"),
    ],
)
def test_page_has_behaviour_names_and_outcome(outcome: str, cell: str, counts: str) -> None:
    text = page("4.2.0", rows(ONE_ROW + outcome))
    assert "## KafkaRelationSuite\n\n| behaviour | in Spark | here |\n" in text
    assert f"| A \\| B | `one`<br>`two` | {cell}" in text
    tested, not_applicable, still_open = counts.split(", ")
    expected = f"Of 1 behaviours, {tested} are tested, {not_applicable} do not apply, {still_open} are open."
    assert expected in text
