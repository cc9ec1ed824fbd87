"""What public functions raise, or private ones for them, their docstrings state; what these promise can be raised."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import rocketmq_spark
from connector_tests.architecture.test_error_call_sites import ERROR_CLASSES, promises
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.remoting.retry import RETRYABILITY, Retryability

PACKAGE = Path(rocketmq_spark.__file__).parent
PROMISE = re.compile(r"\bRaises\b(?!\s+it)(.*?)(?:\.(?=\s|$)|\Z)", re.DOTALL)
BUILTIN_ERRORS = {name for name, value in vars(builtins).items() if isinstance(value, type) and "Error" in name}
REFERENCE = re.compile(r"``[\w.]+``|\bwhat\b|from every call")

Function = ast.FunctionDef
Raised = tuple[str, str]


def raised_in(function: Function) -> Iterator[Raised]:
    """(class, condition) of each of our errors that is raised in the body itself."""
    for node in _own_nodes(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            first = node.exc.args[0] if node.exc.args else None
            if node.exc.func.id in ERROR_CLASSES and isinstance(first, ast.Constant):
                yield node.exc.func.id, str(first.value)


def raised_by(function: Function, privates: Mapping[str, Function], seen: frozenset[str] = frozenset()) -> set[Raised]:
    """In the body itself and in those private ones of the same module that it calls, unless it may catch theirs."""
    caught = {id(call) for call in caught_in(function)}
    called = {
        called_name(node) for node in _own_nodes(function) if isinstance(node, ast.Call) and id(node) not in caught
    }
    below = (raised_by(privates[name], privates, seen | called) for name in called & privates.keys() - seen)
    return set(raised_in(function)).union(*below)


def caught_in(function: Function) -> Iterator[ast.AST]:
    """What stands in the body of a ``try`` that has an ``except``, or of ``with suppress``."""
    for node in _own_nodes(function):
        if (isinstance(node, ast.Try) and node.handlers) or (isinstance(node, ast.With) and is_suppressing(node)):
            for statement in node.body:
                yield from (statement, *_own_nodes(statement))


def is_suppressing(block: ast.With) -> bool:
    return any(isinstance(one, ast.Call) and called_name(one) == "suppress" for one in ast.walk(block.items[0]))


def called_name(call: ast.Call) -> str:
    """Of a function of the module, or a method of the same object."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr if isinstance(call.func.value, ast.Name) and call.func.value.id in {"self", "cls"} else ""
    return getattr(call.func, "id", "")


def private_functions(tree: ast.AST) -> dict[str, Function]:
    """Those of the module and of its classes, whose names start with one underscore."""
    functions = (node for node in ast.walk(tree) if isinstance(node, Function))
    return {one.name: one for one in functions if one.name.startswith("_") and not one.name.startswith("__")}


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield child
            yield from _own_nodes(child)


def public_functions(tree: ast.AST, above: str = "") -> Iterator[tuple[Function, str]]:
    """Functions that others may call, and what their docstrings and those of their classes state."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | Function) and (not node.name.startswith("_") or node.name == "__init__"):
            docstring = f"{above}\n{ast.get_docstring(node) or ''}"
            if isinstance(node, Function):
                yield node, docstring
            else:
                yield from public_functions(node, docstring)


def undocumented(source: str) -> list[str]:
    """Public functions that raise what they do not state; a constructor's state is its class's."""
    tree = ast.parse(source)
    privates = private_functions(tree)
    return [
        f"{function.name}: {name}[{condition}]"
        for function, docstring in public_functions(tree)
        for name, condition in sorted(raised_by(function, privates))
        if (name, condition) not in promises(docstring)
    ]


def vague(source: str) -> list[str]:
    """Sentences that state that something is raised, and name no error."""
    docstrings = (
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, Function | ast.ClassDef | ast.Module)
    )
    sentences = (" ".join(documented.split()) for text in docstrings for documented in PROMISE.findall(text))
    return [documented for documented in sentences if not REFERENCE.search(documented) and not known_errors(documented)]


def known_errors(documented: str) -> set[str]:
    """The errors that a sentence names, if there are all of them."""
    named = set(re.findall(r"\b(?:ssl\.)?(\w*Error)\b", documented))
    return named if named <= ERROR_CLASSES | BUILTIN_ERRORS | other_errors() else set()


FILES = sorted(PACKAGE.rglob("*.py"))


@cache
def other_errors() -> set[str]:
    """``SSLError``, and what the package's own classes are called. Not at import: each worker imports this module."""
    return {"SSLError"} | {
        node.name
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_what_a_public_function_raises_it_documents_with_the_condition(file: Path) -> None:
    assert undocumented(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_what_is_reported_as_raised_is_an_error_that_there_is(file: Path) -> None:
    assert vague(file.read_text(encoding="utf-8")) == []


def built_in(source: str) -> Iterator[Raised]:
    """(class, condition) of each of our errors that a module makes, whoever raises it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERROR_CLASSES:
            yield from ((node.func.id, str(one.value)) for one in node.args[:1] if isinstance(one, ast.Constant))


def test_a_refresh_reports_all_errors_of_its_caller_that_waiting_does_not_pass() -> None:
    """They reach it by what it remembers of failures, so no call leads there. What passes is CLUSTER_TIMEOUT."""
    docstring = set(promises(Membership.refresh_metadata.__doc__ or ""))
    made = {one for file in (PACKAGE / "consumer").glob("*.py") for one in built_in(file.read_text(encoding="utf-8"))}
    lasting = {
        (name, condition)
        for name, condition in made
        if name in {"MembershipError", "RouteError"}
        and not (condition in RETRYABILITY and RETRYABILITY[condition].request is Retryability.TRANSIENT)
    }
    assert len(lasting) > 6
    assert lasting <= docstring


RAISING = 'def ask():\n    """{}"""\n    raise RouteError("MASTER_UNAVAILABLE", broker="a", topic="t")'


@pytest.mark.parametrize(
    "docstring", ["Ask.", "Raises RouteError.", "Raises RouteError[NO_MASTER_BROKER].", "Raises MASTER_UNAVAILABLE."]
)
def test_a_function_that_does_not_declare_it_is_found(docstring: str) -> None:
    assert undocumented(RAISING.format(docstring)) == ["ask: RouteError[MASTER_UNAVAILABLE]"]


BY_ANOTHER = """
class Broker:
    def __init__(self):
        self._check()

    def ask(self):
        {}

    def _check(self):
        _really_check()

def _really_check():
    raise RouteError("MASTER_UNAVAILABLE", broker="a", topic="t")
"""


def test_what_is_raised_by_private_functions_is_found_and_so_is_a_constructor() -> None:
    found = ["__init__: RouteError[MASTER_UNAVAILABLE]"]
    assert undocumented(BY_ANOTHER.format("self._check()")) == [*found, "ask: RouteError[MASTER_UNAVAILABLE]"]
    assert undocumented(BY_ANOTHER.format("_really_check()")) == [*found, "ask: RouteError[MASTER_UNAVAILABLE]"]
    assert undocumented(BY_ANOTHER.format("another._check()")) == found


def test_what_may_be_caught_is_not_rejected() -> None:
    assert len(undocumented(BY_ANOTHER.format("with suppress(RouteError): self._check()"))) == 1
    assert len(undocumented(BY_ANOTHER.format("with turn(): self._check()"))) == 2
    assert undocumented(BY_ANOTHER.format("try: self._check()\n        except RouteError: pass")) == undocumented(
        BY_ANOTHER.format("pass")
    )
    assert len(undocumented(BY_ANOTHER.format("try: self._check()\n        finally: pass"))) == 2


def test_one_that_does_is_not() -> None:
    assert undocumented(RAISING.format("Raises RouteError[NO_MASTER_BROKER | MASTER_UNAVAILABLE].")) == []


@pytest.mark.parametrize(
    "docstring", ["Raises something.", "Raises RouteErorr.", "Raises NoSuchError where it is late."]
)
def test_a_promise_of_no_error_that_there_is_is_found(docstring: str) -> None:
    assert len(vague(f'def ask():\n    """{docstring}"""')) == 1
