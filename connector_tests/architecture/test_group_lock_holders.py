"""A membership is lent for a block, and nobody keeps it. That nothing else leads to it shows
``unit/test_group_lock``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
GROUP_LOCKS = {"group_lock", "_group_lock"}

KEPT = {
    "in an attribute": "def f(self):\n with self.group_lock() as m:\n  self.kept = m",
    "in a variable": "def f(self):\n with self.group_lock() as m:\n  kept = m",
    "after the block": "def f(self):\n with self.group_lock() as m:\n  pass\n m.refresh_metadata()",
    "by the caller": "def f(self):\n with self.group_lock() as m:\n  return m",
    "in a function": "def f(self):\n with self.group_lock() as m:\n  return lambda: m.refresh_metadata()",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in PACKAGE.rglob("*.py"):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8"))


def test_no_module_keeps_a_membership_beyond_the_group_lock() -> None:
    assert [(path, line) for path, tree in sources() for line in kept_lines(tree)] == []


def test_holders_of_the_group_lock_are_where_this_test_searches() -> None:
    with_group_locks = {path for path, tree in sources() for _ in lending_blocks(tree)}
    assert with_group_locks == {"consumer/member.py", "source/stream/batch_planner.py"}


def test_a_membership_is_made_in_one_place_for_the_group_lock() -> None:
    made = [(path, call) for path, tree in sources() for call in calls_of(tree, "Membership")]
    given_to_group_locks = [call.args[0] for _, tree in sources() for call in calls_of(tree, "GroupLock")]
    assert [path for path, _ in made] == ["consumer/member.py"]
    assert [ast.dump(call) for _, call in made] == [ast.dump(one) for one in given_to_group_locks]


@pytest.mark.parametrize("source", KEPT.values(), ids=KEPT)
def test_a_kept_membership_is_found(source: str) -> None:
    assert len(list(kept_lines(ast.parse(source)))) == 1


def calls_of(tree: ast.AST, name: str) -> list[ast.Call]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == name]


def lending_blocks(tree: ast.AST) -> Iterator[tuple[ast.With, str]]:
    """``with ....group_lock() as name``, and the name."""
    for block in ast.walk(tree):
        for item in block.items if isinstance(block, ast.With) else ():
            call, name = item.context_expr, item.optional_vars
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in GROUP_LOCKS:
                assert isinstance(block, ast.With)
                if isinstance(name, ast.Name):
                    yield block, name.id


def kept_lines(tree: ast.AST) -> Iterator[int]:
    """Where a lent membership is used outside of its block, or where it continues from there under another name."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        blocks = list(lending_blocks(function))
        names = {name for _, name in blocks}
        inside = {id(node) for block, _ in blocks for node in ast.walk(block)}
        for node in ast.walk(function):
            is_used_outside = is_name(node, names) and id(node) not in inside
            if is_used_outside or hands_on(node, names):
                assert isinstance(node, ast.stmt | ast.expr)
                yield node.lineno


def is_name(node: ast.AST | None, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def hands_on(node: ast.AST, names: set[str]) -> bool:
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Return):
        return is_name(node.value, names)
    return isinstance(node, ast.Lambda) and any(is_name(inner, names) for inner in ast.walk(node.body))
