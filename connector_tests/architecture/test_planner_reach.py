"""The planner (``source/stream``) uses of a membership its methods, and of its parts the named ones. Nothing outside of
``consumer`` uses its client, which sends each kind of request of a member."""

from __future__ import annotations

import ast
from pathlib import Path

import rocketmq_spark

PACKAGE = Path(rocketmq_spark.__file__).parent
STREAM = PACKAGE / "source" / "stream"

OF_PARTS = {
    "members.record_other_members",
    "offsets.discard",
    "offsets.has_confirmed",
    "offsets.persist",
    "offsets.raise_to",
    "offsets.replace_offsets",
    "offsets.reset_offsets",
    "offsets.stored_offsets",
    "offsets.suspect",
    "offsets.unconfirmed",
    "queries.link",
    "queries.probe_sizes",
    "queries.query_bounds",
    "queries.search_offsets",
    "resets.consume_marks",
    "slave_reads.brokers",
    "slave_reads.end_requirement",
    "task_reports.take_losses",
    "task_reports.take_sizes",
}
"""What a planner uses of the parts of a membership. ``queries`` it may pass on as a whole: they change nothing."""


def parts_of(source: str) -> set[str]:
    """Return what follows ``membership.`` where it is more than one name: a part, and what is used of it."""
    nodes = (ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    names = {text.removeprefix("membership.") for text in nodes if text.startswith("membership.")}
    return {name for name in names if "." in name}


def uses_client(source: str) -> bool:
    """Return whether a module uses the client of a membership, or imports its class."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    return "membership.client" in names or "rocketmq_spark.consumer.outage_aware_client" in modules


def test_planner_uses_named_parts_of_a_membership() -> None:
    sources = [path.read_text(encoding="utf-8") for path in STREAM.rglob("*.py")]
    assert set().union(*map(parts_of, sources)) == OF_PARTS


def test_only_the_consumer_uses_the_client_of_a_membership() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if "consumer" not in path.relative_to(PACKAGE).parts]
    assert [path.name for path in outside if uses_client(path.read_text(encoding="utf-8"))] == []


def test_parts_and_clients_of_a_membership_are_found() -> None:
    source = "membership.client.slave_reads.require_masters(membership.offsets.persist(), membership.masters)"
    assert parts_of(source) == {"client.slave_reads", "client.slave_reads.require_masters", "offsets.persist"}
    assert uses_client("f(membership.client)")
    assert uses_client("from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient")
    assert not uses_client("f(membership.queries, self.client)")
