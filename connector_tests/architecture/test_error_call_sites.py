"""The condition table and the code that raises from it agree.

Nothing else would notice: an error with a parameter too few breaks only when it is shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import rocketmq_spark
from connector_tests.support.conditions import parameters_of
from rocketmq_spark import errors
from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.errors import RocketMQError

PACKAGE = Path(rocketmq_spark.__file__).parent
ERROR_CLASSES = {
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, RocketMQError)
}

ABSTRACT = {"RocketMQError", "ProtocolError"}
CLASSES = {
    "BrokerError": {
        "ACCESS_FORBIDDEN", "BROKER_REFUSED", "CREDENTIALS_MISSING", "CREDENTIALS_REFUSED", "GROUP_FORBIDDEN",
        "GROUP_NOT_FOUND", "GROUP_NOT_SERVED", "NOT_DURABLE", "OFFSET_NOT_TAKEN", "POLL_TOO_LATE", "PROXY_FAILED",
        "PROXY_REFUSED", "PULL_REJECTED", "TOPIC_FORBIDDEN", "TOPIC_RESERVED",
    },
    "DataLossError": {"DELETED_UNDELIVERED", "MESSAGE_GONE", "OFFSETS_GONE"},
    "EmbeddedBrokerError": {
        "CLUSTER_STATE", "JARS_UNAVAILABLE", "JAR_CHECKSUM", "JVM_FAILED", "NO_JAVA", "SERVER_FAILED",
    },
    "LocalProtocolError": {"BATCH_SKIPPED", "UNSENDABLE", "UNSENDABLE_ROW"},
    "MembershipError": {
        "NOT_ON_THIS_MACHINE", "NO_CONTROL_FOLDER", "PARTLY_DRAINED",
        "CHECKPOINT_SHARED", "DUPLICATE_CLIENT_ID", "MEMBERS_DIFFER", "NOT_ALONE",
        "NOT_DRAINED", "NOT_LISTED", "NO_MACHINE_ROOM", "NO_SOURCE", "SUBSCRIPTIONS_DIFFER",
    },
    "NotSentBackError": {"NOT_SENT_BACK"},
    "OptionError": {
        "AMBIGUOUS_COLUMN", "BAD_COLUMN_TYPE", "BAD_OFFSET", "BAD_OPTION_VALUE", "BAD_TLS_FILE", "CALL_OUT_OF_ORDER",
        "CONTRADICTORY_OPTIONS",
        "LOCAL_OFFSETS_UNUSABLE", "MISSING_COLUMNS", "MISSING_OPTION", "NATIVE_NOT_BUILT", "NOT_THERE_YET",
        "CHECKPOINT_OF_ANOTHER", "SPOOL_UNUSABLE", "UNKNOWN_COLUMN", "NOT_A_NAME_SERVER", "SPARK_TOO_OLD",
        "INVISIBLE_DURATION_REFUSED", "NOT_A_PROXY", "IN_ORDER",
        "NOTHING_TO_SEND", "NOT_NULL_COLUMN", "NO_BATCH_ID", "NO_COLUMNS",
        "NO_OVERWRITE", "SAME_COLUMNS", "UNKNOWN_OPTION", "UNSENDABLE_COLUMNS",
        "UNWRITABLE_COLUMN",
    },
    "RemoteProtocolError": {
        "BAD_MESSAGE",
        "BAD_BODY", "BAD_FRAME", "BAD_HEADER", "CORRUPT_MESSAGE", "CORRUPT_MESSAGE_IN_QUEUE",
        "FRAME_TOO_LARGE", "IMPOSSIBLE_BOUNDS", "PULL_STALLED", "RESPONSE_TOO_LARGE",
    },
    "RouteError": {
        "NO_BROKER", "NO_MASTER", "NO_READABLE_QUEUE", "NO_WRITABLE_QUEUE", "QUEUES_MISSING", "QUEUE_AWAY",
        "BAD_ORDER_CONF",
        "BROKERS_AWAY", "BROKER_NOT_ROUTED", "WRONG_BROKER", "STATIC_TOPIC", "TOPIC_EXISTS",
        "TOPIC_NOT_FOUND", "TOPIC_NOT_ROUTED", "TOPIC_NOT_SERVED",
    },
    "TransportError": {
        "CERTIFICATE_REFUSED", "CLIENT_CERTIFICATE_REFUSED", "HOST_NAME_DIFFERS", "TLS_NOT_SPOKEN", "TLS_WANTED",
        "CLUSTER_UNREACHABLE", "CONNECTION_LOST", "CONNECT_FAILED", "NO_NAME_SERVER", "RANGE_UNREADABLE", "RUN_ENDED",
        "GRPC_WANTED", "RESPONSE_TIMED_OUT",
    },
}  # fmt: skip
"""Whose fault each condition is."""

OF_THE_CLASS = {"BrokerError": {"code"}}
"""What an error needs whatever its text says."""


@dataclass(frozen=True)
class CallSite:
    """One place that makes an error. ``condition`` is None where it is computed, ``parameters`` where they are."""

    where: str
    error_class: str
    condition: str | None
    parameters: frozenset[str] | None


def call_sites() -> Iterator[CallSite]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name_of(node.func) in ERROR_CLASSES:
                yield _call_site(node, f"{path.relative_to(PACKAGE)}:{node.lineno}")


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _call_site(node: ast.Call, where: str) -> CallSite:
    first = node.args[0] if node.args else None
    condition = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    names = [keyword.arg for keyword in node.keywords]
    given = frozenset(name for name in names if name is not None)
    return CallSite(where, _name_of(node.func), condition, given if None not in names else None)


SITES = list(call_sites())


def test_errors_are_found() -> None:
    assert len(SITES) > 20
    assert {"OptionError", "RocketMQError"} <= ERROR_CLASSES


@pytest.mark.parametrize("site", SITES, ids=lambda site: site.where)
def test_an_error_is_raised_with_a_condition_of_the_table_and_exactly_its_parameters(site: CallSite) -> None:
    assert site.condition is not None, f"{site.where}: write the condition and its parameters out"
    assert site.condition in CONDITIONS, f"{site.where}: no such condition"
    expected = parameters_of(CONDITIONS[site.condition]) | OF_THE_CLASS.get(site.error_class, set())
    assert site.parameters == expected, f"{site.where}: {site.condition}"


def test_no_error_is_of_a_class_that_says_nobodys_fault() -> None:
    assert {site.where: site.error_class for site in SITES if site.error_class in ABSTRACT} == {}


def test_each_condition_has_its_class() -> None:
    """Whose fault something is does not depend on who notices it."""
    classes: dict[str | None, set[str]] = {}
    for site in SITES:
        classes.setdefault(site.condition, set()).add(site.error_class)
    assert classes == {condition: {name} for name, conditions in CLASSES.items() for condition in conditions}


def test_every_condition_is_raised_somewhere() -> None:
    raised = {site.condition for site in SITES}
    assert CONDITIONS.keys() - raised == set()


PROMISED = re.compile(r"(\w+Error)\[([A-Z_]+(?:\s*\|\s*[A-Z_]+)*)\]")


def promises(text: str) -> list[tuple[str, str]]:
    return [(name, condition.strip()) for name, listed in PROMISED.findall(text) for condition in listed.split("|")]


def test_what_docstrings_say_is_raised_is_of_the_class_that_they_say() -> None:
    wrong = {
        f"{path.relative_to(PACKAGE)}: {name}[{condition}]"
        for path in PACKAGE.rglob("*.py")
        for name, condition in promises(path.read_text(encoding="utf-8"))
        if condition not in CLASSES.get(name, set())
    }
    assert wrong == set()


def test_a_promise_of_two_conditions_is_read_as_two() -> None:
    said = "Raises TransportError[CONNECT_FAILED | CONNECTION_LOST]."
    assert promises(said) == [("TransportError", "CONNECT_FAILED"), ("TransportError", "CONNECTION_LOST")]
