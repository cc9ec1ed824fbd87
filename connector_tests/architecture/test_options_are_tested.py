"""An option is no more than a name until a test has seen what it does; tests of parsing do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.read import READ_CONFLICTS
from rocketmq_spark.options.table import Conflict, rows

TESTS = Path(__file__).parents[1]
OF_PARSING = {"test_options.py", Path(__file__).name}
NAMES = {row.name for _, row in rows(ReadOptions)}

TEXTS = [file.read_text(encoding="utf-8") for file in TESTS.rglob("*.py") if file.name not in OF_PARSING]


def is_used(name: str) -> bool:
    return any(name in text for text in TEXTS)


def test_every_option_is_given_in_a_test_of_what_it_does() -> None:
    assert {name for name in NAMES if not is_used(name)} == set()


def test_an_option_that_no_test_gives_is_found() -> None:
    assert not is_used("maxBytesPer" + "Trigger")


@pytest.mark.parametrize("conflict", READ_CONFLICTS, ids=lambda conflict: f"{conflict.first}-{conflict.second}")
def test_a_conflict_is_of_options_that_are_there_and_documented(conflict: Conflict) -> None:
    assert {conflict.first, conflict.second} <= NAMES
    page = (TESTS.parent / "docs/reference/options.md").read_text(encoding="utf-8")
    assert page.count(f": they contradict each other. {conflict.why}") == 2
