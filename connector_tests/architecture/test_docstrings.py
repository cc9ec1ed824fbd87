"""Public functions whose body is more than one statement state their contract, at least where they are first
declared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent


def public_functions(tree: ast.Module | ast.ClassDef) -> Iterator[tuple[str, ast.FunctionDef]]:
    """By qualified name, those of public classes too."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith("_"):
            continue
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", function) for name, function in public_functions(node))


def documented_names(trees: dict[str, ast.Module]) -> set[str]:
    """Of functions: who has the name of one of these keeps its contract."""
    nodes = (node for tree in trees.values() for node in ast.walk(tree))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)}


def undocumented(trees: dict[str, ast.Module]) -> set[str]:
    documented = documented_names(trees)
    return {
        f"{module}: {name}"
        for module, tree in trees.items()
        for name, function in public_functions(tree)
        if len(function.body) > 1 and function.name not in documented
    }


def test_every_public_function_of_more_than_a_line_states_what_it_is_for() -> None:
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    assert undocumented({name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items()}) == set()


PORT = '''
class Port:
    def ask(self):
        """Wait for it."""

class _Private:
    def tell(self):
        a = 1
        return a
'''
ENTRY_POINT = """
class Door:
    def ask(self):
        a = 1
        return a

    def leave(self):
        a = 1
        return a

    def name(self):
        return 1
"""


def test_what_has_no_docstring_is_named_unless_it_keeps_a_contract_is_private_or_a_line() -> None:
    assert undocumented({"port": ast.parse(PORT), "door": ast.parse(ENTRY_POINT)}) == {"door: Door.leave"}
