"""The condition table and the code that raises from it agree.

Nothing else would notice: an error with a parameter too few breaks only when it is shown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import rocketmq_spark
from rocketmq_spark import errors
from rocketmq_spark.errors import CONDITIONS, RocketMQError

PACKAGE = Path(rocketmq_spark.__file__).parent
ERROR_CLASSES = {
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, RocketMQError)
}

OF_THE_CLASS = {"BrokerError": {"code"}}
"""What an error needs whatever its text says."""


@dataclass(frozen=True)
class CallSite:
    """One place that makes an error. ``condition`` is None where it is computed, ``parameters`` where they are."""

    where: str
    error_class: str
    condition: str | None
    parameters: frozenset[str] | None


def call_sites() -> Iterator[CallSite]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name_of(node.func) in ERROR_CLASSES:
                yield _call_site(node, f"{path.relative_to(PACKAGE)}:{node.lineno}")


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _call_site(node: ast.Call, where: str) -> CallSite:
    first = node.args[0] if node.args else None
    condition = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    names = [keyword.arg for keyword in node.keywords]
    given = frozenset(name for name in names if name is not None)
    return CallSite(where, _name_of(node.func), condition, given if None not in names else None)


SITES = list(call_sites())


def test_errors_are_found() -> None:
    assert len(SITES) > 20
    assert {"OptionError", "RocketMQError"} <= ERROR_CLASSES


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.where)
def test_an_error_is_raised_with_a_condition_of_the_table_and_exactly_its_parameters(site: CallSite) -> None:
    assert site.condition is not None, f"{site.where}: write the condition and its parameters out"
    assert site.condition in CONDITIONS, f"{site.where}: no such condition"
    expected = CONDITIONS[site.condition].parameters | OF_THE_CLASS.get(site.error_class, set())
    assert site.parameters == expected, f"{site.where}: {site.condition}"


def test_every_condition_is_raised_somewhere() -> None:
    raised = {site.condition for site in SITES}
    assert CONDITIONS.keys() - raised == set()
