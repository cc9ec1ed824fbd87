"""Each pure module has a group of mutants and the tests that must kill them; what was measured is as it has to be."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter

import pytest
from mutation_page import PINNED, ROOT, kept_counts, without_mutants
from mutation_results import group_tests, modules_in, percent_killed

from connector_tests.architecture.test_layers import PACKAGE, is_pure, module_name

TARGET_PERCENT = 90
PINNINGS = tomllib.loads(PINNED.read_text(encoding="utf-8"))
GROUPS = PINNINGS["group"]
COUNTS = kept_counts()
WITHOUT_GROUP = {
    "rocketmq_spark._version": "has no function",
    "rocketmq_spark.cli.main": "is pure but for the subcommands that it imports by their names",
}


def test_each_pure_module_is_in_one_group_and_no_other_module_is() -> None:
    names = {module_name(path) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}
    groups_of = Counter(module for group in GROUPS.values() for module in modules_in(ROOT, group))
    pure = {name for name in names - WITHOUT_GROUP.keys() if is_pure(name) and not name.endswith("_pb2")}
    assert groups_of == Counter(pure)


@pytest.mark.parametrize("name", GROUPS)
def test_what_a_group_names_is_there(name: str) -> None:
    group = GROUPS[name]
    assert [one for one in group["modules"] if not modules_in(ROOT, {"modules": [one]})] == []
    assert group_tests(ROOT, group)
    assert [test for test in group.get("tests", ()) if not (ROOT / "connector_tests" / test).is_file()] == []


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_names_no_test_that_it_has_anyway(name: str) -> None:
    group = GROUPS[name]
    assert set(group.get("tests", ())) & set(group_tests(ROOT, {"modules": group["modules"]})) == set()


def test_groups_were_run_and_nothing_is_kept_of_a_group_that_is_no_more() -> None:
    assert COUNTS
    assert COUNTS.keys() - GROUPS.keys() == set()


@pytest.mark.parametrize("name", COUNTS)
def test_nearly_all_mutants_of_a_group_were_killed_and_the_others_are_judged(name: str) -> None:
    assert percent_killed(COUNTS[name].statuses) >= TARGET_PERCENT
    assert COUNTS[name].unexplained == 0


@pytest.mark.parametrize("survivor", PINNINGS["survivor"], ids=lambda survivor: survivor["function"])
def test_a_mutant_that_may_survive_changes_lines_of_its_function(survivor: dict[str, str]) -> None:
    lines = {line.strip() for line in source_of(survivor["function"]).splitlines()}
    assert [line for line in survivor["before"].splitlines() if line not in lines] == []


def source_of(function: str) -> str:
    """The text of ``package.module.Class.function``, in which underscores at the ends of names are left out; ``""``
    where it is not found."""
    parts = function.split(".")
    lengths = (n for n in range(len(parts) - 1, 0, -1) if ROOT.joinpath(*parts[:n]).with_suffix(".py").is_file())
    length = next(lengths, None)
    if length is None:
        return ""
    text = ROOT.joinpath(*parts[:length]).with_suffix(".py").read_text(encoding="utf-8")
    node: ast.AST | None = ast.parse(text)
    for name in parts[length:]:
        node = node and next((inner for inner in ast.walk(node) if is_named(inner, name)), None)
    return (node and ast.get_source_segment(text, node)) or ""


def is_named(node: ast.AST, name: str) -> bool:
    """Whether ``node`` defines a class or function ``name``."""
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.strip("_") == name.strip("_")


def test_functions_without_a_mutant_have_a_reason() -> None:
    assert set(without_mutants(COUNTS)) == PINNINGS["without_mutants"].keys()
