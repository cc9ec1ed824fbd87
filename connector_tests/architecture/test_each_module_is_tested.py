"""Each module is imported by a test of its own kind: what only passes by on the way to something else is not tested."""

from __future__ import annotations

import ast
from pathlib import Path

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
TESTS = Path(__file__).parents[1]
KINDS = ("unit", "properties", "vectors", "oracle", "integration", "faults", "spark", "examples", "typing")
COMMANDS = {"cli.demo_queries", "cli.demo_screen"}
"""Of the demo, which ``examples/test_demo.py`` starts as a process of its own."""
THROUGH = {
    "embedded.cluster": "embedded",
    "embedded.servers": "embedded.cluster",
    "remoting.send_question": "remoting.broker",
    "remoting.tls": "remoting.tcp",
    "sink.failed_rows": "",
    "sink.sending": "",
    "sink.writer": "source.datasource",
    "wire.arrow.record_columns": "wire.arrow.columns",
}
"""Tested through the one that uses them; "" is the package's own door."""


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return {name.removeprefix("rocketmq_spark.") for name in names if name.startswith("rocketmq_spark.")}


def modules() -> set[str]:
    files = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py") if path.stem != "__init__")
    return {".".join(path.parts) for path in files}


def unseen() -> set[str]:
    files = [file for kind in KINDS for file in (TESTS / kind).rglob("*.py")]
    return modules() - set().union(*map(imported, files))


def test_each_module_is_imported_by_a_test_or_known_to_be_tested_through_another() -> None:
    assert unseen() == THROUGH.keys() | COMMANDS


def test_who_a_module_is_tested_through_imports_it() -> None:
    for module, user in THROUGH.items():
        path = PACKAGE.joinpath(*user.split(".")) if user else PACKAGE
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert any(name == module or name.startswith(f"{module}.") for name in imported(file)), (module, user)
