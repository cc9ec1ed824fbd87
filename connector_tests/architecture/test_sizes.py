"""Nothing in the package, or among its tools, grows beyond what a reader holds in mind. Lines count with docstrings."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketmq_spark

ROOT = Path(rocketmq_spark.__file__).parent.parent
FILES = [file for folder in ("rocketmq_spark", "tools", "examples") for file in sorted((ROOT / folder).rglob("*.py"))]

FILE_LINES = 400
MEDIAN_FILE_LINES = 200
CLASS_LINES = 300
FUNCTION_LINES = 50
NEARLY_ALL_FUNCTIONS_LINES = 20
"""Of 95 in 100."""

Definition = ast.FunctionDef | ast.ClassDef


def definitions(text: str) -> Iterator[tuple[Definition, int]]:
    """Functions and classes, and how many lines each has."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Definition):
            assert node.end_lineno is not None
            yield node, node.end_lineno - node.lineno + 1


def too_large(text: str) -> list[str]:
    """What of one module is beyond its budget."""
    found = ["the file"] if len(text.splitlines()) > FILE_LINES else []
    for node, lines in definitions(text):
        if lines > (CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES):
            found.append(f"{node.name}, {lines} lines")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_module_its_classes_and_functions_are_small(file: Path) -> None:
    assert too_large(file.read_text(encoding="utf-8")) == []


def test_most_are_much_smaller() -> None:
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    functions = [lines for text in texts for node, lines in definitions(text) if isinstance(node, ast.FunctionDef)]
    assert len(functions) > 1_000
    assert statistics.median(len(text.splitlines()) for text in texts) <= MEDIAN_FILE_LINES
    assert statistics.quantiles(functions, n=20)[-1] <= NEARLY_ALL_FUNCTIONS_LINES


def test_what_is_too_large_is_found() -> None:
    body = "    x = 1\n"
    assert too_large("def f():\n" + body * (FUNCTION_LINES - 1)) == []
    assert too_large("def f():\n" + body * FUNCTION_LINES) == ["f, 51 lines"]
    assert too_large("class C:\n" + body * CLASS_LINES) == ["C, 301 lines"]
    assert too_large("x = 1\n" * (FILE_LINES + 1)) == ["the file"]
