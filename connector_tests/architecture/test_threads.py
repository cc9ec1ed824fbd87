"""Who makes a lock says in its docstring which threads may do what, and what the lock covers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
FOR_THREADS = {"Lock", "RLock", "Condition", "Semaphore", "Event", "Barrier", "Thread", "SimpleQueue"}
SAYS_SO = re.compile(r"^\s*(?:.*\s)?Threads: ", re.MULTILINE)


def makers(tree: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """Classes that make something for threads, and functions outside of classes that use a lock of their module."""
    for node in ast.iter_child_nodes(tree):
        is_maker = isinstance(node, ast.ClassDef) and any(map(is_for_threads, ast.walk(node)))
        is_user = isinstance(node, ast.FunctionDef) and not FOR_THREADS.isdisjoint(globals_used(node, tree))
        if is_maker or is_user:
            assert isinstance(node, ast.ClassDef | ast.FunctionDef)
            yield node


def is_for_threads(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in FOR_THREADS


def globals_used(function: ast.FunctionDef, module: ast.AST) -> set[str]:
    """What kinds of locks of its module a function is ``with``."""
    kinds = {
        target.id: ast.unparse(node.value.func).rpartition(".")[2]
        for node in ast.iter_child_nodes(module)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    entered = (item.context_expr for node in ast.walk(function) if isinstance(node, ast.With) for item in node.items)
    return {kinds[name.id] for name in entered if isinstance(name, ast.Name) and name.id in kinds}


def silent(source: str) -> list[str]:
    return [node.name for node in makers(ast.parse(source)) if not SAYS_SO.search(ast.get_docstring(node) or "")]


def test_who_makes_or_takes_a_lock_says_what_threads_may_do() -> None:
    sources = {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    assert sum(len(list(makers(ast.parse(source)))) for source in sources.values()) >= 10
    assert {name: found for name, source in sources.items() if (found := silent(source))} == {}


CLASS = 'class Pool:\n    """Connections.{}"""\n    def __init__(self):\n        self._table = threading.Lock()'
FUNCTION = '_sharing = threading.Lock()\ndef shared():\n    """The pool.{}"""\n    with _sharing:\n        pass'


@pytest.mark.parametrize(("source", "name"), [(CLASS, "Pool"), (FUNCTION, "shared")])
def test_one_that_does_not_is_found(source: str, name: str) -> None:
    assert silent(source.format("")) == [name]
    assert silent(source.format(" Threads: any.")) == []
