"""What users are shown imports public doors only, and what they take through them stays there (decision 0005)."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRY_POINTS = {
    "rocketmq_spark",
    "rocketmq_spark.embedded",
    "rocketmq_spark.errors",
    "rocketmq_spark.metrics.prometheus",
}
"""``pyspark_rocketmq`` is Spark's, which finds the source by it."""

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("[!d]*/*.md")),
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHELLS_WITH_PYTHON = re.compile(r"python3? -c '([^']*)'")


def shown() -> Iterator[tuple[str, str]]:
    """Name and Python of all that users are shown."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = [*re.findall(r"```python\n(.*?)```", text, re.DOTALL), *SHELLS_WITH_PYTHON.findall(text)]
        yield from ((page.name, block) for block in blocks)
    yield from ((file.name, file.read_text(encoding="utf-8")) for file in EXAMPLES)


def imports(text: str) -> set[tuple[str, str]]:
    """Door and name of everything of ours that a piece of Python uses; "" where a module itself is imported."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {(one.name, "") for one in node.names if is_ours(one.name)}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and is_ours(node.module):
            found |= {(node.module, one.name) for one in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and is_ours(node.value.id):
            found.add((node.value.id, node.attr))
    return found


def is_ours(module: str) -> bool:
    return module.partition(".")[0] == "rocketmq_spark"


def test_users_are_shown_public_entry_points_only() -> None:
    used = {(where, entry_point) for where, text in shown() for entry_point, _ in imports(text)}
    assert {entry_point for _, entry_point in used} >= {"rocketmq_spark", "rocketmq_spark.embedded"}
    assert {(where, entry_point) for where, entry_point in used if entry_point not in ENTRY_POINTS} == set()


def test_what_users_take_through_an_entry_point_is_in_its_list() -> None:
    names = {(entry_point, name) for _, text in shown() for entry_point, name in imports(text) if name}
    assert names
    assert {
        (entry_point, name) for entry_point, name in names if name not in importlib.import_module(entry_point).__all__
    } == set()


@pytest.mark.parametrize("entry_point", sorted(ENTRY_POINTS))
def test_an_entry_point_lists_what_is_there(entry_point: str) -> None:
    module = importlib.import_module(entry_point)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert module.__all__ == sorted(module.__all__)


def test_the_entry_point_of_errors_is_the_whole_tree() -> None:
    errors = importlib.import_module("rocketmq_spark.errors")
    tree = {
        name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.RocketMQError)
    }
    assert set(errors.__all__) == tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import rocketmq_spark.remoting.pool", {("rocketmq_spark.remoting.pool", "")}),
        ("from rocketmq_spark.model import Message", {("rocketmq_spark.model", "Message")}),
        ("import rocketmq_spark\nrocketmq_spark.send(1)", {("rocketmq_spark", ""), ("rocketmq_spark", "send")}),
        ("import pyspark_rocketmq, pyspark", set()),
    ],
)
def test_what_is_accepted_is_found(text: str, expected: set[tuple[str, str]]) -> None:
    assert imports(text) == expected
