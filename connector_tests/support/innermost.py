"""Which functions contain what a rule of the source is about."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

MODULE = "the module"


def innermost_functions(source: str, is_meant: Callable[[ast.AST], bool]) -> Iterator[str]:
    """The innermost function of each node that ``is_meant``, in source order; ``MODULE`` outside of functions."""
    yield from _within(ast.parse(source), MODULE, is_meant)


def _within(node: ast.AST, function: str, is_meant: Callable[[ast.AST], bool]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    if is_meant(node):
        yield function
    for child in ast.iter_child_nodes(node):
        yield from _within(child, function, is_meant)
