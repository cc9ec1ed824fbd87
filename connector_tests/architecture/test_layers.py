"""That import-linter's contracts (pyproject.toml) find what they are to find; and who may start threads."""

from __future__ import annotations

import ast
import functools
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import rocketmq_spark
from connector_tests.support.timeouts import PROCESS_S

PACKAGE = Path(rocketmq_spark.__file__).parent
PROJECT = PACKAGE.parent

STARTING_THREADS = {
    "rocketmq_spark.consumer.member",
    "rocketmq_spark.pop.grpc_transport",
    "rocketmq_spark.pop.receiver",
    "rocketmq_spark.pop.workers",
    "rocketmq_spark.proxy.telemetry",
    "rocketmq_spark.remoting.connection",
}
THREAD_MAKERS = {"Thread", "Timer", "ThreadPoolExecutor", "start_new_thread"}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return found


def contract(name_begins: str) -> dict[str, Any]:
    return next(contract for contract in contracts() if contract["name"].startswith(name_begins))


PURE_CORE = "Each module is pure"
ACYCLIC = "No import cycles"
PURE_SHARE = 0.6


def is_pure(module: str) -> bool:
    """A contract keeps it from sockets, threads, clocks and Spark, also through what it imports."""
    return not any(f"{module}.".startswith(f"{shell}.") for shell in contract(PURE_CORE)["shells"])


def lines_of(modules: Callable[[str], bool]) -> int:
    """How many lines, comments and all."""
    return sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
        if modules(module_name(path))
    )


def test_most_of_the_package_is_pure() -> None:
    share = lines_of(is_pure) / lines_of(lambda _: True)
    assert share >= PURE_SHARE, f"{share:.1%} of the package's lines are pure; wanted are {PURE_SHARE:.0%}"


def copy_of_the_package(folder: Path) -> Path:
    """The package in a folder of its own."""
    shutil.copytree(PACKAGE, folder / "rocketmq_spark", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def write_contract(folder: Path, section: dict[str, Any]) -> None:
    lines = (
        "[importlinter]",
        "root_package = rocketmq_spark",
        "include_external_packages = True",
        "exclude_type_checking_imports = True",
        "contract_types =\n    pure: tools.pure_contract.PureContract",
        "[importlinter:contract:one]",
        *(f"{key} = {as_ini(value)}" for key, value in section.items()),
    )
    (folder / ".importlinter").write_text("\n".join(lines), encoding="utf-8")


def as_ini(value: str | bool | list[str]) -> str:
    return "\n    ".join(("", *value)) if isinstance(value, list) else str(value)


def append_imports(folder: Path, imports: Mapping[str, str]) -> None:
    """Append to each module of the copy its import."""
    for module, line in imports.items():
        with (folder / "rocketmq_spark" / module).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")


def printed_of_broken(folder: Path) -> str:
    """What is printed of a contract that is not kept."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--config", ".importlinter", "--no-cache"]
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{PROJECT}", "COLUMNS": "400"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PROCESS_S
    )
    assert done.returncode == 1, done.stdout
    return done.stdout


def printed_with(imports: Mapping[str, str], contract_begins: str, folder: Path) -> str:
    """What is printed of one contract, broken by all of ``imports`` in one copy: a run takes a second."""
    copy = copy_of_the_package(folder)
    write_contract(copy, contract(contract_begins))
    append_imports(copy, imports)
    return printed_of_broken(copy)


IMPURE_IMPORTS = {
    "consumer/rebalance.py": "from rocketmq_spark.consumer import member",
    "wire/message/properties.py": "import time",
    "remoting/retry.py": "from rocketmq_spark.remoting.clock import monotonic_ms",
}
WRONG_SHELLS = ("rocketmq_spark.model", "rocketmq_spark.gone")


@pytest.fixture(scope="module")
def printed_of_impure_imports(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed_with(IMPURE_IMPORTS, PURE_CORE, tmp_path_factory.mktemp("impure"))


@pytest.mark.parametrize("module", IMPURE_IMPORTS)
def test_the_pure_core_is_broken_by_an_import_also_through_a_neighbour(
    printed_of_impure_imports: str, module: str
) -> None:
    assert f"{dotted(module)} -> " in printed_of_impure_imports


def dotted(module: str) -> str:
    return f"rocketmq_spark.{module.removesuffix('.py').replace('/', '.')}"


def test_what_is_pure_or_deleted_is_no_shell(tmp_path: Path) -> None:
    copy, section = copy_of_the_package(tmp_path), contract(PURE_CORE)
    write_contract(copy, {**section, "shells": [*section["shells"], *WRONG_SHELLS]})
    printed = printed_of_broken(copy)
    assert [name for name in WRONG_SHELLS if f"{name} is pure, and named a shell" not in printed] == []


# ---------------------------------------------------------------------------------------------------------- doors


def test_each_package_is_in_a_layer_and_no_import_is_exempted() -> None:
    entry_points = contract("Packages import")
    assert (entry_points["containers"], entry_points["exhaustive"], entry_points["exhaustive_ignores"]) == (
        ["rocketmq_spark"],
        True,
        ["_version"],
    )
    assert [one["name"] for one in contracts() if one.get("ignore_imports")] == []


CIRCULAR_IMPORTS = {  # at most one in a package, which is what is printed
    "consumer/outage_aware_client.py": "from rocketmq_spark.consumer import membership",
    "pull/pull_request.py": "from rocketmq_spark.pull import pull_window",
    "remoting/stream.py": "from rocketmq_spark.remoting import connection",
    "source/data_loss.py": "from rocketmq_spark.source.stream import planning",
    "source/stream/planning.py": "from rocketmq_spark.source.stream import batch_planner",
    "sink/outgoing.py": "from rocketmq_spark.sink import sending",
    "wire/remoting/codes.py": "from rocketmq_spark.wire.remoting import command",
}


@pytest.fixture(scope="module")
def printed_of_circles(tmp_path_factory: pytest.TempPathFactory) -> str:
    return printed_with(CIRCULAR_IMPORTS, ACYCLIC, tmp_path_factory.mktemp("circles"))


@pytest.mark.parametrize("module", CIRCULAR_IMPORTS)
def test_a_circle_of_imports_within_a_package_is_found(printed_of_circles: str, module: str) -> None:
    assert f"No cycles are allowed in {dotted(module).rpartition('.')[0]}." in printed_of_circles.splitlines()


# ---------------------------------------------------------------------------------------------------------- threads


def test_no_contract_names_a_module_that_is_deleted() -> None:
    there = {module_name(path) for path in PACKAGE.rglob("*.py")}
    named = {name for begin in ("Only source", "Only remoting") for name in contract(begin)["source_modules"]}
    assert named <= there


def test_threads_are_started_in_few_modules() -> None:
    starting = {module_name(path) for path in PACKAGE.rglob("*.py") if starts_threads(path)}
    assert starting == STARTING_THREADS


def starts_threads(path: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    names = (call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls)
    return not THREAD_MAKERS.isdisjoint(names)
