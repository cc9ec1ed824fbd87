"""Names that are matched in any case: ``spark.sql.caseSensitive`` permits two that differ in case only, so each place
takes the exact spelling first, or one name for both does no harm."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from connector_tests.architecture.test_named_in_docs import NAMED, missing
from connector_tests.support.innermost import innermost_functions

PACKAGE: Final = Path(__file__).parents[2] / "rocketmq_spark"
FOLDING: Final = {"lower", "upper", "casefold", "utf8_lower", "utf8_upper", "IGNORECASE"}
WITHOUT_COLUMNS: Final = {"cli", "doctor", "embedded", "options", "wire"}
"""Packages that match names of options, and words of servers."""

DUPLICATES: Final = "unit/test_sink_columns.py::test_two_columns_that_are_equal_are_both_named"
REPEATED: Final = "unit/test_schema.py::test_names_that_spark_or_rocketmq_cannot_distinguish_are_an_error"
OPTIONS: Final = "names of options: Spark passes them in any case"
TEXT: Final = "text to show or send, which is matched to nothing"
EXAMINED: Final = {
    "sink/columns.py::the module": DUPLICATES,
    "sink/columns.py::resolve_columns": DUPLICATES,
    "sink/columns.py::position_of": "unit/test_sink_columns.py::test_an_id_column_takes_the_exact_spelling_first",
    "sink/columns.py::_check_type": TEXT,
    "sink/columns.py::_listed": TEXT,
    "sink/message_ids.py::_id_of": TEXT,
    "sink/message_ids.py::the module": TEXT,
    "remoting/producer.py::next_id": TEXT,
    "consumer/strategy_names.py::strategy_named": "names of strategies, which differ in more than case",
    "source/datasource.py::__init__": OPTIONS,
    "source/datasource.py::_any_read_options": OPTIONS,
    "source/datasource.py::_check_no_table": OPTIONS,
    "source/datasource.py::write_options": OPTIONS,
    "source/schema.py::_type_name": TEXT,
    "source/schema.py::the module": "the source's own names, which differ in more than case",
    "source/schema.py::_check_property_columns": REPEATED,
    "source/schema.py::_columns_by_lower": REPEATED,
    "source/schema.py::_check_columns": "a reader fills each column of its schema: two of one name get the same values",
    "source/schema.py::canonical_names": "as _check_columns",
    "source/schema.py::arrow_schema": "as _check_columns",
    "source/schema.py::_view_columns_by_lower": "as _check_columns",
    "source/schema.py::view_columns": "as _check_columns",
}
"""A test or a reason, by file and innermost function. A new place: prefer ``sink.columns.position_of``."""


def folding(source: str) -> Iterator[str]:
    """The innermost functions that change the case of text or ignore it."""
    return innermost_functions(source, lambda node: isinstance(node, ast.Attribute) and node.attr in FOLDING)


def test_each_match_without_case_was_examined() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}::{function}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in WITHOUT_COLUMNS
        for function in folding(path.read_text(encoding="utf-8"))
    }
    assert found == EXAMINED.keys()


def test_tests_of_matches_are_there() -> None:
    tests = [test for test in EXAMINED.values() if "::" in test]
    assert [test for test in tests if not NAMED.fullmatch(f"`{test}`") or missing(f"`{test}`")] == []


@pytest.mark.parametrize("line", ["one.lower() == other", "name.casefold()", "pc.utf8_lower(names)", "re.IGNORECASE"])
def test_a_match_without_case_is_found(line: str) -> None:
    assert list(folding(f"def f():\n {line}")) == ["f"]


def test_a_match_with_case_is_not() -> None:
    assert list(folding("def f(): return name == other")) == []
