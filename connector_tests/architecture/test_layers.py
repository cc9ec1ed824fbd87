"""What import-linter's contracts (pyproject.toml) cannot say: that they forget no module, and who may start threads."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
PROJECT = PACKAGE.parent

SHELLS = {"rocketmq_spark.consumer.member", "rocketmq_spark.consumer.offset_file"}
"""Modules of ``consumer`` that are not pure."""

STARTING_THREADS = {"rocketmq_spark.consumer.member", "rocketmq_spark.remoting.connection"}
THREAD_MAKERS = {"Thread", "Timer", "ThreadPoolExecutor", "start_new_thread"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


def contract(name_begins: str) -> dict[str, Any]:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return next(contract for contract in contracts if contract["name"].startswith(name_begins))


def test_every_module_of_the_consumer_is_kept_pure_but_for_its_shell() -> None:
    modules = {module_name(path) for path in (PACKAGE / "consumer").glob("*.py")} - {"rocketmq_spark.consumer"}
    pure = {name for name in contract("The pure core")["source_modules"] if name.startswith("rocketmq_spark.consumer.")}
    assert pure == modules - SHELLS


def test_no_contract_names_a_module_that_is_gone() -> None:
    there = {module_name(path) for path in PACKAGE.rglob("*.py")}
    named = {
        name
        for contract_name in ("The pure core", "Only source", "Only remoting")
        for name in contract(contract_name)["source_modules"]
    }
    assert named <= there


def test_threads_are_started_in_two_modules() -> None:
    starting = {module_name(path) for path in PACKAGE.rglob("*.py") if starts_threads(path)}
    assert starting == STARTING_THREADS


def starts_threads(path: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    names = (call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls)
    return not THREAD_MAKERS.isdisjoint(names)
