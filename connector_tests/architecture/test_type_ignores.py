"""Whoever tells mypy to look away names the error and says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("rocketmq_spark", "connector_tests", "tools", "examples")
IGNORED = re.compile(r"#\s*type:\s*ignore")
EXPLAINED = re.compile(r"# type: ignore\[[a-z-]+(?:, [a-z-]+)*\]  # \S.{5,}$")


def unexplained(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if IGNORED.search(line) and not EXPLAINED.search(line)]


def test_every_type_that_is_ignored_is_explained() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py") if file != Path(__file__)]
    assert {str(file.relative_to(ROOT)): unexplained(file.read_text(encoding="utf-8")) for file in files} == {
        str(file.relative_to(ROOT)): [] for file in files
    }


@pytest.mark.parametrize(
    "line", ["x = 1  # type: ignore", "x = 1  # type: ignore[misc]", "x = 1  #type:ignore[misc] # a"]
)
def test_an_unexplained_one_is_found(line: str) -> None:
    assert unexplained(line) == [line]


def test_an_explained_one_is_not() -> None:
    assert unexplained("x = f(y)  # type: ignore[arg-type, misc]  # a table of arguments") == []
