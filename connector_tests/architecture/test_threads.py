"""Who makes a lock states in its docstring which threads may do what, and what the lock covers; who changes, that it is
one thread's or how it is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
FOR_THREADS = {"Lock", "RLock", "Condition", "Semaphore", "Event", "Barrier", "Thread", "SimpleQueue"}
THREADING_WORDS = re.compile(r"[Tt]hread|\bturn\b")
DECLARES_IT = re.compile(r"^\s*(?:.*\s)?Threads: ", re.MULTILINE)


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


def undeclared(source: str) -> list[str]:
    return [node.name for node in makers(ast.parse(source)) if not DECLARES_IT.search(ast.get_docstring(node) or "")]


def test_a_class_that_makes_or_acquires_a_lock_reports_what_threads_may_do() -> None:
    sources = {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    assert sum(len(list(makers(ast.parse(source)))) for source in sources.values()) >= 10
    assert {name: found for name, source in sources.items() if (found := undeclared(source))} == {}


ROOMS_OF_MANY_THREADS = ("consumer", "options", "pop", "pull", "remoting", "sink", "source", "wire")
CHANGING = {
    "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "remove", "setdefault",
    "subtract", "update",
}  # fmt: skip
"""Methods of Python's own tables."""


def changes_itself(node: ast.ClassDef) -> bool:
    """Whether a method other than the constructor gives an attribute another value, or changes a table in one."""
    methods = (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name != "__init__")
    return any(is_change(part) for method in methods for part in ast.walk(method))


def is_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return isinstance(function, ast.Attribute) and function.attr in CHANGING and is_own(function.value)
    targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [getattr(node, "target", None)]
    return any(is_own(target) for target in targets)


def is_own(node: ast.AST | None) -> bool:
    """An attribute of ``self``, or an item of one."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            return True
        node = node.value
    return False


def unclear(source: str) -> list[str]:
    """Public classes that change, and state neither for themselves nor for their module whose they are."""
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree) or ""
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    changing = (node for node in classes if changes_itself(node))
    return [one.name for one in changing if not THREADING_WORDS.search(f"{docstring} {ast.get_docstring(one) or ''}")]


def test_a_class_that_changes_states_whether_threads_may_share_it() -> None:
    files = [file for room in ROOMS_OF_MANY_THREADS for file in (PACKAGE / room).rglob("*.py")]
    sources = {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in files}
    assert {name: found for name, source in sources.items() if (found := unclear(source))} == {}


STATE = 'class Table:\n    """What is known.{}"""\n    def f(self):\n        {}'


@pytest.mark.parametrize(
    "line",
    ["self.a = 1", "self._a += 1", "self._a[0] = 1", "del self._a[0]", "self._a.update(b)", "self._a[1].append(0)"],
)
def test_a_class_that_changes_and_does_not_declare_it_is_found(line: str) -> None:
    assert unclear(STATE.format("", line)) == ["Table"]
    assert unclear(STATE.format(" Not thread-safe.", line)) == []
    assert unclear('"""Each has its turn."""\n' + STATE.format("", line)) == []


@pytest.mark.parametrize("line", ["a = self.b", "other.a = 1", "b.append(self.a)", "self.ask()"])
def test_one_that_does_not_change_need_not_declare_it(line: str) -> None:
    assert unclear(STATE.format("", line)) == []


CLASS = 'class Pool:\n    """Connections.{}"""\n    def __init__(self):\n        self._table = threading.Lock()'
FUNCTION = '_sharing = threading.Lock()\ndef shared():\n    """The pool.{}"""\n    with _sharing:\n        pass'


@pytest.mark.parametrize(("source", "name"), [(CLASS, "Pool"), (FUNCTION, "shared")])
def test_one_that_does_not_is_found(source: str, name: str) -> None:
    assert undeclared(source.format("")) == [name]
    assert undeclared(source.format(" Threads: any.")) == []
