"""Each module has a test module of its own, which uses what it offers: what only passes by is not tested."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
TESTS = Path(__file__).parents[1]
OURS = ("rocketmq_spark", "connector_tests")
PRIVATE = re.compile("_(?!_)")
SUPPORT = "connector_tests.support."
KINDS = ("unit", "properties", "vectors", "oracle", "integration", "faults", "spark", "examples", "typing")

OWN = {
    "_version": "unit/test_implementation.py",
    "cli.broker": "integration/test_cli_broker.py",
    "cli.main": "unit/test_cli_main.py",
    "cli.offsets": "integration/test_cli_offsets.py",
    "cli.topic": "unit/test_cli_topic.py",
    "condition": "unit/test_errors.py",
    "consumer.broker_identities": "unit/test_addresses.py",
    "consumer.offset_file": "unit/test_offset_store.py",
    "consumer.cluster_api": "integration/test_simulated_broker.py",
    "doctor.diagnosis": "unit/test_judgement.py",
    "doctor.facts": "unit/test_judgement.py",
    "embedded.acl": "integration/test_acl_broker.py",
    "embedded.admin": "integration/test_idle_broker.py",
    "embedded.certificate": "integration/test_tls_broker.py",
    "embedded.cluster": "integration/test_embedded_cluster.py",
    "embedded.jvm": "integration/test_paused_jvm.py",
    "options.connection": "unit/test_options.py",
    "options.kinds": "unit/test_options.py",
    "options.read": "unit/test_options.py",
    "options.read_rules": "unit/test_options.py",
    "options.receive": "unit/test_options.py",
    "options.table": "unit/test_options.py",
    "options.write": "unit/test_options.py",
    "pop.remoting_transport": "integration/test_receiver.py",
    "pull.private_folder": "unit/test_outage_notes.py",
    "remoting.clock": "unit/test_executor_pull_client.py",
    "remoting.prober": "unit/test_message_probes.py",
    "remoting.pop_broker": "integration/test_receiver.py",
    "sink.columns": "unit/test_sink_columns.py",
    "source.datasource": "unit/test_stream_reader.py",
    "source.pop.message_reader": "unit/test_message_tasks.py",
    "source.pop.pop_reader": "integration/test_pop_run.py",
    "source.range_reader": "properties/test_range_batches.py",
    "source.start_tracking_reader": "integration/test_spark_4_0_calls.py",
    "wire.arrow.arrow_types": "unit/test_message_columns.py",
    "wire.arrow.column_table": "unit/test_columns.py",
    "wire.arrow.native_columns": "unit/test_native_decoder.py",
    "wire.arrow.record_index": "unit/test_property_table.py",
    "wire.body.groups": "unit/test_bodies.py",
    "wire.body.routes": "unit/test_bodies.py",
    "wire.body.topics": "unit/test_bodies.py",
    "wire.message.stored_message": "unit/test_message.py",
    "wire.message.sys_flag": "unit/test_codes.py",
    "wire.remoting.fields": "unit/test_headers.py",
    "wire.remoting.native_responses": "properties/test_fast_path_response.py",
    "wire.remoting.pull": "unit/test_broker.py",
    "wire.remoting.send": "unit/test_broker.py",
}
"""The test module that is a module's own where it is not called ``test_`` and the module's name."""

THROUGH = {
    "conditions.option_conditions": ("unit/test_errors.py", "conditions"),
    "conditions.query_conditions": ("unit/test_errors.py", "conditions"),
    "conditions.server_conditions": ("unit/test_errors.py", "conditions"),
    "consumer.offset_resets": ("unit/test_offset_resets.py", "consumer.membership"),
    "doctor.cluster_facts": ("integration/test_doctor.py", "cli.doctor"),
    "doctor.connections": ("unit/test_judgement.py", "doctor.judgement"),
    "doctor.groups": ("unit/test_judgement.py", "doctor.judgement"),
    "doctor.permissions": ("unit/test_judgement.py", "doctor.judgement"),
    "doctor.proxy_facts": ("integration/test_doctor.py", "cli.doctor"),
    "doctor.slaves": ("unit/test_slaves.py", "doctor.judgement"),
    "doctor.topics": ("unit/test_judgement.py", "doctor.judgement"),
    "doctor.versions": ("unit/test_judgement.py", "doctor.judgement"),
    "embedded.proxy": ("integration/test_embedded_proxy.py", "embedded.cluster"),
    "embedded.registration": ("integration/test_embedded_cluster.py", "embedded.cluster"),
    "embedded.replication": ("integration/test_elections.py", "embedded.cluster"),
    "embedded.server_jvms": ("integration/test_embedded_cluster.py", "embedded.cluster"),
    "embedded.servers": ("integration/test_embedded_cluster.py", "embedded.cluster"),
    "options.subscription": ("unit/test_options.py", "options.read"),
    "proxy.connection": ("unit/test_session.py", "proxy.session"),
    "proxy.failures": ("unit/test_session.py", "proxy.session"),
    "proxy.telemetry": ("unit/test_session.py", "proxy.session"),
    "remoting.future": ("integration/test_simulated_broker.py", "consumer.cluster_api"),
    "pop.topic_checks": ("integration/test_receiver.py", "pop.remoting_transport"),
    "remoting.read_checks": ("integration/test_broker_operations.py", "remoting.broker"),
    "source.stream.queue_facts": ("unit/test_recreated_queues.py", "source.stream.batch_planner"),
    "wire.arrow.record_columns": ("unit/test_columns.py", "wire.arrow.columns"),
}
"""The test module that is a module's own, and the module whose names it uses, which imports it."""

BY_NAME = {
    "cli.demo": ("examples/test_demo.py", '"demo"'),
    "cli.send": ("integration/test_cli_topic_and_send.py", '"send"'),
    "pop.transport": ("integration/test_receiver.py", "transport: Transport"),
    "sink.writer": ("spark/test_writing.py", '.format("rocketmq")'),
    "source.batch.batch_reader": ("spark/test_batch.py", '.format("rocketmq")'),
    "source.view_reader": ("spark/test_views.py", '.format("rocketmq")'),
}
"""The test module of what a command or Spark starts, and what it reports them."""


def modules() -> list[str]:
    """All but what is generated."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.stem != "__init__" and not path.stem.endswith("_pb2"))
    files = (path.relative_to(PACKAGE).with_suffix("") for path in paths)
    return sorted(".".join(path.parts) for path in files)


def imported(tree: ast.Module) -> dict[str, str]:
    """Where the names come from that a module imports from the package or the tests' support, in full."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return {name: behind_entry_points(origin) for name, origin in names.items() if origin.startswith(OURS)}


@cache
def behind_entry_points(origin: str) -> str:
    """Where that is defined which a room's ``__init__`` only hands on."""
    room, _, name = origin.rpartition(".")
    entry_point = PACKAGE.parent.joinpath(*room.split("."), "__init__.py")
    return imported(parsed(entry_point)).get(name, origin) if room and entry_point.exists() else origin


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def used(tree: ast.Module, within: ast.AST | None = None) -> set[str]:
    """What runs of what ``tree`` imports, or ``within`` a part of it: not what are only types."""
    origins = imported(tree)
    nodes = list(running(within or tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    dotted = {ast.unparse(node).partition(".") for node in nodes if isinstance(node, ast.Attribute)}
    of_modules = {behind_entry_points(f"{origins[name]}.{rest}") for name, _, rest in dotted if name in origins}
    return {origins[name] for name in names & origins.keys()} | of_modules


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All below a node but annotations."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in {"annotation", "returns"}:
                yield child
                yield from running(child)


@cache
def used_by_test(test: Path) -> frozenset[str]:
    """By a test module itself, the fixtures that it requests, or helpers of these two."""
    tree = parsed(test)
    requested = {one.arg for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for one in node.args.args}
    names = used(tree)
    for conftest in {TESTS / "conftest.py", test.parent / "conftest.py"}:
        names |= used_by_fixtures(parsed(conftest), requested) if conftest.exists() else set()
    helpers = {PACKAGE.parent.joinpath(*name.split(".")[:3]) for name in names if name.startswith(SUPPORT)}
    return frozenset(names).union(*(used(parsed(helper.with_suffix(".py"))) for helper in helpers))


def used_by_fixtures(conftest: ast.Module, requested: set[str]) -> set[str]:
    functions = (node for node in conftest.body if isinstance(node, ast.FunctionDef) and node.name in requested)
    return set().union(*(used(conftest, function) for function in functions))


def is_used(module: str, names: Set[str]) -> bool:
    """Whether a public name of ``module`` is among these."""
    begin = f"rocketmq_spark.{module}."
    return any(name.startswith(begin) and not PRIVATE.match(name, len(begin)) for name in names)


def named_alike(module: str) -> list[Path]:
    name = f"test_{module.rpartition('.')[2]}.py"
    return [file for kind in KINDS for file in (TESTS / kind).rglob(name)]


def has_own_test(module: str) -> bool:
    """That uses it, under the module's own name."""
    return any(is_used(module, used_by_test(test)) for test in named_alike(module))


def test_each_module_has_a_test_module_of_its_own() -> None:
    assert {module for module in modules() if not has_own_test(module)} == OWN.keys() | THROUGH.keys() | BY_NAME.keys()


@pytest.mark.parametrize("module", OWN)
def test_a_test_module_of_another_name_uses_it(module: str) -> None:
    assert is_used(module, used_by_test(TESTS / OWN[module]))


@pytest.mark.parametrize("module", THROUGH)
def test_the_indirect_tester_of_a_module_imports_it_and_has_the_test(module: str) -> None:
    test, user = THROUGH[module]
    place = PACKAGE.joinpath(*user.split("."))
    origins = imported(parsed(place / "__init__.py" if place.is_dir() else place.with_suffix(".py"))).values()
    assert any(f"{origin}.".startswith(f"rocketmq_spark.{module}.") for origin in origins)
    assert is_used(THROUGH[user][1] if user in THROUGH else user, used_by_test(TESTS / test))


@pytest.mark.parametrize("module", BY_NAME)
def test_what_is_started_by_name_is_named(module: str) -> None:
    test, name = BY_NAME[module]
    assert name in (TESTS / test).read_text(encoding="utf-8")


IMPORT = "from rocketmq_spark.wire.body.groups import decode_consumer_ids as ids\n"


@pytest.mark.parametrize("line", ["", "def f(a: ids) -> ids: ...", "ids = 1", "a: ids", "print(decode_consumer_ids)"])
def test_a_name_that_is_imported_and_does_not_run_is_not_used(line: str) -> None:
    assert not is_used("wire.body.groups", used(ast.parse(IMPORT + line)))


@pytest.mark.parametrize(
    ("module", "lines"),
    [
        ("wire.body.groups", IMPORT + "def f(a=ids): ..."),
        ("wire.body.groups", "from rocketmq_spark.wire.body import groups\ngroups.decode_consumer_ids(b'')"),
        ("options.read", "from rocketmq_spark.options import ReadOptions\nReadOptions.parse({})"),
        ("sink.sending", "import rocketmq_spark\nrocketmq_spark.send('t', [])"),
    ],
)
def test_a_name_that_runs_is_used_wherever_it_was_imported_from(module: str, lines: str) -> None:
    assert is_used(module, used(ast.parse(lines)))
