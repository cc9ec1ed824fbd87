"""Every function, method and class of the package is used by the package, or by somebody outside who is named here."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
FROM_OUTSIDE = {
    # Spark calls its interfaces, and knows the methods of listeners by name.
    "getDefaultReadLimit", "initialOffset", "reportLatestOffset", "prepareForTriggerAvailableNow", "partitions",
    "commit", "streamReader", "streamWriter", "writer", "onQueryStarted", "onQueryProgress",
    "onQueryIdle", "onQueryTerminated",
    # pytest calls a fixture by name, whoever tests with an embedded cluster its methods.
    "rocketmq_topic", "restart_broker", "pause_broker", "resume_broker", "start_name_server",
    "stop_name_server", "kill_name_server", "kill_proxy", "pause_proxy", "resume_proxy",
    # An in-memory stream is for tests, and stays beside the port that it keeps.
    "memory_pair",
}  # fmt: skip


def defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__"):
            yield node.name


def used(tree: ast.AST) -> Iterator[str]:
    """Names, attributes, and texts that could be either, as they stand in ``getattr``, annotations and entry points."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def unused(texts: Iterable[str], users: Iterable[str] = ()) -> set[str]:
    """What these modules define, and neither they nor ``users`` use."""
    trees = [ast.parse(text) for text in texts]
    uses = {name for tree in (*trees, *map(ast.parse, users)) for name in used(tree)}
    return {name for tree in trees for name in defined(tree)} - uses


def texts_in(folder: Path) -> list[str]:
    return [file.read_text(encoding="utf-8") for file in folder.rglob("*.py")]


def test_what_the_package_defines_it_uses() -> None:
    assert unused(texts_in(PACKAGE), texts_in(PACKAGE.parent / "tools")) == FROM_OUTSIDE


def test_an_unused_method_is_found() -> None:
    module = "class Broker:\n def pull(self): ...\n def min_offset(self): ...\n"
    assert unused([module, "from broker import Broker\nBroker().pull()"]) == {"min_offset"}
