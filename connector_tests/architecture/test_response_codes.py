"""Only tables decide by an answer's code, or by the condition of an error; who else names a code answers a server."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
NAMING = {
    "remoting/error_kinds.py": "the kinds of refusals",
    "remoting/retry.py": "the table of what may be tried again",
    "wire/remoting/meanings.py": "the table of what an answer means to its request",
    "wire/remoting/pull.py": "the table of what became of a pull",
    "wire/remoting/send.py": "the table of what became of a message",
    "consumer/request_handlers.py": "answers a broker",
    "wire/remoting/refusal.py": "answers a server",
}
COMPARING = {"wire/remoting/meanings.py"}
COMPARING_CONDITIONS = {"remoting/error_kinds.py"}


def named_codes(node: ast.AST) -> list[str]:
    """``ResponseCode.X``, anywhere in ``node``."""
    return [
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "ResponseCode"
    ]


def compares_codes(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Compare | ast.match_case) and named_codes(node) for node in ast.walk(tree))


def compares_conditions(tree: ast.AST) -> bool:
    compared = (operand for node in ast.walk(tree) if isinstance(node, ast.Compare) for operand in ast.walk(node))
    return any(isinstance(operand, ast.Attribute) and operand.attr == "condition" for operand in compared)


def compares_code_of_error(tree: ast.AST) -> bool:
    compared = (operand for node in ast.walk(tree) if isinstance(node, ast.Compare) for operand in ast.walk(node))
    return any(isinstance(operand, ast.Attribute) and ast.unparse(operand) == "error.code" for operand in compared)


def trees() -> dict[str, ast.Module]:
    files = PACKAGE.rglob("*.py")
    return {file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def test_a_code_is_named_where_a_table_is_or_where_a_server_gets_a_response() -> None:
    assert {name for name, tree in trees().items() if named_codes(tree)} == NAMING.keys()


def test_a_code_is_compared_in_one_module() -> None:
    assert {name for name, tree in trees().items() if compares_codes(tree)} == COMPARING


@pytest.mark.parametrize(
    "line",
    [
        "if answer.code == ResponseCode.SUCCESS: pass",
        "is_bad = answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND)",
        "match code:\n case ResponseCode.GO_AWAY: pass",
    ],
)
def test_a_comparison_is_found(line: str) -> None:
    assert compares_codes(ast.parse(line))


def test_a_condition_is_compared_in_one_module() -> None:
    assert {name for name, tree in trees().items() if compares_conditions(tree)} == COMPARING_CONDITIONS


def test_code_of_an_error_is_compared_in_one_module() -> None:
    assert {name for name, tree in trees().items() if compares_code_of_error(tree)} == COMPARING_CONDITIONS


@pytest.mark.parametrize("line", ["error.code == X", "error.code not in (X, Y)", "X != error.code"])
def test_a_comparison_of_an_errors_code_is_found(line: str) -> None:
    assert compares_code_of_error(ast.parse(line))
    assert not compares_code_of_error(ast.parse("TABLE.get(error.code)"))


@pytest.mark.parametrize("line", ['error.condition == "X"', 'error.condition in {"X", "Y"}', '"X" != error.condition'])
def test_a_comparison_of_a_condition_is_found(line: str) -> None:
    assert compares_conditions(ast.parse(line))


def test_a_condition_that_is_shown_is_not_compared() -> None:
    assert not compares_conditions(ast.parse("print(error.condition)"))


def test_a_table_is_no_comparison() -> None:
    assert not compares_codes(ast.parse("TABLE = {ResponseCode.SUCCESS: 1}"))
