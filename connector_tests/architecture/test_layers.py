"""What import-linter's contracts (pyproject.toml) cannot say: that they forget no module, and who may start threads."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grimp
import pytest

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
PROJECT = PACKAGE.parent

ROOMS = ("consumer", "options", "pop", "proxy", "pull", "remoting", "said", "sink", "source", "wire")
"""Where each module is pure, or named here as a shell."""

SHELLS = {
    f"rocketmq_spark.{name}"
    for name in (
        "consumer.member",
        "consumer.offset_file",
        "pop.dead_letter_mover",
        "pop.errands",
        "pop.grpc_transport",
        "pop.receiver",
        "pop.transports",
        "pop.spool",
        "pop.remoting_transport",
        "pop.retention_check",
        "pop.troubles",
        "pop.workers",
        "proxy.channel",
        "proxy.connection",
        "proxy.credentials",
        "proxy.failures",
        "proxy.session",
        "proxy.telemetry",
        "pull.executor_client",
        "pull.implementation",
        "pull.outage_notes",
        "pull.private_folder",
        "pull.pull_connections",
        "remoting.broker",
        "remoting.clock",
        "remoting.cluster",
        "remoting.connection",
        "remoting.doors",
        "remoting.local_address",
        "remoting.looks",
        "remoting.memory",
        "remoting.namesrv",
        "remoting.peer",
        "remoting.pool",
        "remoting.pop_broker",
        "remoting.producer",
        "remoting.proxied_broker",
        "remoting.offset_questions",
        "remoting.send_question",
        "remoting.settings_question",
        "remoting.send_result",
        "remoting.routes",
        "remoting.secured",
        "remoting.tail_watch",
        "remoting.tcp",
        "remoting.tls",
        "remoting.unique_id",
        "sink.batch_sender",
        "sink.failed_messages",
        "sink.failed_rows",
        "sink.message_returner",
        "sink.message_sender",
        "sink.sending",
        "sink.topic_looks",
        "sink.writer",
        "source.bad_messages",
        "source.datasource",
        "source.dead_letter_sender",
        "source.implementation",
        "source.arrow_schema",
        "source.partition_reader",
        "source.pop.bad_shared_messages",
        "source.pop.message_reader",
        "source.pop.pop_reader",
        "source.pop.earlier_batch",
        "source.pop.pop_run",
        "source.schema",
        "source.start_tracking_reader",
        "source.stream.available_now_runs",
        "source.stream.control_folder",
        "source.stream.graceful_stop",
        "source.stream.read_limit",
        "source.stream.refused_reader",
        "source.stream.resumable",
        "source.stream.source_run",
        "source.stream.stream_reader",
    )
}
"""What touches the world: sockets, threads, clocks, files, Spark."""

STARTING_THREADS = {
    "rocketmq_spark.consumer.member",
    "rocketmq_spark.pop.grpc_transport",
    "rocketmq_spark.pop.remoting_transport",
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


PURE_CORE = "The pure core"
PURE_SHARE = 0.6


def modules_of_rooms() -> set[str]:
    paths = (path for room in ROOMS for path in (PACKAGE / room).rglob("*.py"))
    return {module_name(path) for path in paths if path.name != "__init__.py"}


def is_listed_pure(module: str) -> bool:
    return any(f"{module}.".startswith(f"{source}.") for source in contract(PURE_CORE)["source_modules"])


def test_every_module_is_kept_pure_or_named_a_shell() -> None:
    assert {module for module in modules_of_rooms() if not is_listed_pure(module)} == SHELLS


def test_a_shell_touches_the_world_itself_or_through_what_it_imports() -> None:
    """What does not is pure, and the contract is to keep it so."""
    graph = grimp.build_graph(
        "rocketmq_spark", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
    world = set(contract(PURE_CORE)["forbidden_modules"])
    assert [shell for shell in sorted(SHELLS) if world.isdisjoint(graph.find_upstream_modules(shell))] == []


def lines_of(modules: Callable[[str], bool]) -> int:
    """How many lines, comments and all."""
    return sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
        if modules(module_name(path))
    )


def test_most_of_the_package_is_pure() -> None:
    """By its lines, and transitively: what a contract keeps from sockets, threads, clocks and Spark."""
    share = lines_of(is_listed_pure) / lines_of(lambda _: True)
    assert share >= PURE_SHARE, f"{share:.1%} of the package's lines are pure; wanted are {PURE_SHARE:.0%}"


@pytest.fixture
def copy_of_the_package(tmp_path: Path) -> Path:
    """The package and the contract of its pure core, in a folder of their own."""
    shutil.copytree(PACKAGE, tmp_path / "rocketmq_spark", ignore=shutil.ignore_patterns("__pycache__"))
    write_contract(tmp_path, contract(PURE_CORE))
    return tmp_path


def write_contract(folder: Path, wanted: dict[str, Any]) -> None:
    lines = (
        "[importlinter]",
        "root_package = rocketmq_spark",
        "include_external_packages = True",
        "exclude_type_checking_imports = True",
        "[importlinter:contract:one]",
        *(f"{key} = {as_ini(value)}" for key, value in wanted.items()),
    )
    (folder / ".importlinter").write_text("\n".join(lines), encoding="utf-8")


def as_ini(value: str | bool | list[str]) -> str:
    return "\n    ".join(("", *value)) if isinstance(value, list) else str(value)


def keeps_the_contract(folder: Path) -> tuple[bool, str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--config", ".importlinter", "--no-cache"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode == 0, done.stdout


def test_the_pure_core_is_kept(copy_of_the_package: Path) -> None:
    is_kept, said = keeps_the_contract(copy_of_the_package)
    assert is_kept, said
    assert "1 kept, 0 broken" in said


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("consumer/rebalance.py", "from rocketmq_spark.consumer import member"),
        ("wire/message/properties.py", "import time"),
        ("remoting/retry.py", "from rocketmq_spark.remoting.clock import monotonic_ms"),
    ],
)
def test_the_pure_core_is_broken_by_an_import_also_through_a_neighbour(
    copy_of_the_package: Path, module: str, line: str
) -> None:
    file = copy_of_the_package / "rocketmq_spark" / module
    file.write_text(f"{file.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    is_kept, said = keeps_the_contract(copy_of_the_package)
    assert not is_kept
    assert "0 kept, 1 broken" in said
    assert f"rocketmq_spark.{module.removesuffix('.py').replace('/', '.')} ->" in said


# ------------------------------------------------------------------------------------------------ layers within a room

ROOMS_WITHIN = [module_name(door).removeprefix("rocketmq_spark.") for door in sorted(PACKAGE.glob("*/**/__init__.py"))]


def layers_of(container: str) -> dict[str, Any]:
    return next(one for one in contracts() if one.get("containers") == [container])


@pytest.mark.parametrize("room", ROOMS_WITHIN)
def test_a_room_has_layers_that_forget_no_module(room: str) -> None:
    assert layers_of(f"rocketmq_spark.{room}")["exhaustive"]


def test_the_rooms_themselves_are_layers_that_forget_none() -> None:
    assert {"cli", "embedded", "sink", "source.stream", "wire.arrow"} <= set(ROOMS_WITHIN)
    assert layers_of("rocketmq_spark")["exhaustive"]
    assert layers_of("rocketmq_spark")["exhaustive_ignores"] == ["_version"]
    assert [one["name"] for one in contracts() if one.get("ignore_imports")] == []


@pytest.mark.parametrize(
    ("room", "module", "line"),
    [
        ("consumer", "consumer/servers.py", "from rocketmq_spark.consumer import queue_locks"),
        ("consumer", "consumer/answers.py", "from rocketmq_spark.consumer import membership"),
        ("pull", "pull/pull_request.py", "from rocketmq_spark.pull import pull_window"),
        ("remoting", "remoting/stream.py", "from rocketmq_spark.remoting import connection"),
        ("source", "source/data_loss.py", "from rocketmq_spark.source.stream import planning"),
        ("source", "source/partition_reader.py", "from rocketmq_spark.source.stream import stream_reader"),
        ("source.stream", "source/stream/planning.py", "from rocketmq_spark.source.stream import batch_planner"),
        ("sink", "sink/outgoing.py", "from rocketmq_spark.sink import sending"),
        ("cli", "cli/main.py", "from rocketmq_spark.cli import demo"),
        ("embedded", "embedded/jvm.py", "from rocketmq_spark.embedded import cluster"),
        ("wire.remoting", "wire/remoting/codes.py", "from rocketmq_spark.wire.remoting import command"),
    ],
)
def test_a_room_s_layers_are_broken_by_an_import_upwards(
    copy_of_the_package: Path, room: str, module: str, line: str
) -> None:
    write_contract(copy_of_the_package, layers_of(f"rocketmq_spark.{room}"))
    assert keeps_the_contract(copy_of_the_package)[0]
    file = copy_of_the_package / "rocketmq_spark" / module
    file.write_text(f"{file.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    is_kept, said = keeps_the_contract(copy_of_the_package)
    assert not is_kept
    assert f"rocketmq_spark.{module.removesuffix('.py').replace('/', '.')} ->" in said


# ---------------------------------------------------------------------------------------------------------------------


def test_no_contract_names_a_module_that_is_gone() -> None:
    there = {module_name(path) for path in PACKAGE.rglob("*.py")}
    named = {
        name
        for contract_name in ("The pure core", "Only source", "Only remoting")
        for name in contract(contract_name)["source_modules"]
    }
    assert named <= there


def test_threads_are_started_in_few_modules() -> None:
    starting = {module_name(path) for path in PACKAGE.rglob("*.py") if starts_threads(path)}
    assert starting == STARTING_THREADS


def starts_threads(path: Path) -> bool:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    names = (call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls)
    return not THREAD_MAKERS.isdisjoint(names)
