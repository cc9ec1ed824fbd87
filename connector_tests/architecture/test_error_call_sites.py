"""The condition table and the code that raises from it agree.

Nothing else would notice: an error with a parameter too few breaks only when it is shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import rocketmq_spark
from connector_tests.support.conditions import parameters_of
from rocketmq_spark import errors
from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.source.data_loss import WARNINGS
from rocketmq_spark.wire.remoting.refusal import ACCESS_WORDS, REFUSALS

PACKAGE = Path(rocketmq_spark.__file__).parent
ERROR_CLASSES = {
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, RocketMQError)
}

ABSTRACT = {"RocketMQError", "ProtocolError"}
CLASSES = {
    "BrokerError": {
        "ACCESS_DENIED", "BROKER_ERROR", "CREDENTIALS_MISSING", "CREDENTIALS_REJECTED", "FILTER_EXPRESSION_INVALID",
        "GROUP_DENIED", "MESSAGE_MODE_UNSUPPORTED", "PROPERTY_FILTER_DISABLED",
        "GROUP_NOT_FOUND.BROKER", "GROUP_NOT_FOUND.PROXY", "MESSAGE_NOT_DURABLE", "OFFSET_RESET_PENDING",
        "POLL_REQUEST_EXPIRED", "PROXY_ERROR", "PROXY_UNAVAILABLE", "PULL_REJECTED", "TOPIC_DENIED", "TOPIC_RESERVED",
    },
    "DataLossError": {
        "DATA_LOSS.OFFSETS_BEYOND_END", "DATA_LOSS.OFFSETS_OMITTED", "DATA_LOSS.OFFSETS_UNAVAILABLE",
        "DATA_LOSS.QUEUE_TRUNCATED", "DATA_LOSS.TOPIC_RECREATED", "DATA_LOSS.UNDELIVERED_MESSAGES", "MESSAGE_DELETED",
    },
    "EmbeddedBrokerError": {
        "EMBEDDED_CLUSTER_INVALID_STATE", "EMBEDDED_JVM_FAILED", "EMBEDDED_SERVER_FAILED", "JARS_UNAVAILABLE",
        "JAR_CHECKSUM_MISMATCH", "JAVA_NOT_FOUND",
    },
    "LocalProtocolError": {
        "BATCH_SKIPPED", "INVALID_MESSAGE", "INVALID_ROW",
    },
    "MembershipError": {
        "CHECKPOINT_SHARED", "DUPLICATE_CLIENT_ID", "GRACEFUL_STOP_INCOMPLETE", "GRACEFUL_STOP_TIMEOUT",
        "GROUP_HAS_OTHER_MEMBERS", "GROUP_IN_USE", "INCONSISTENT_GROUP_SETTINGS", "INCONSISTENT_SUBSCRIPTION",
        "NOT_A_ROCKETMQ_QUERY", "NOT_REGISTERED_IN_GROUP", "STOP_CONTROL_DIR_MISSING", "STOP_FROM_OTHER_HOST",
        "UNKNOWN_MACHINE_ROOM",
    },
    "NotSentBackError": {
        "SEND_BACK_FAILED",
    },
    "OptionError": {
        "AMBIGUOUS_COLUMN", "ASSIGNED_QUEUES_NOT_FOUND", "BATCH_QUEUES_NOT_SUPPORTED", "CHECKPOINT_OPTION_CHANGED",
        "CHECKPOINT_UNREADABLE", "COMMITTED_OFFSETS_NOT_FOUND",
        "DEAD_LETTERS_AMBIGUOUS", "DEAD_LETTERS_NOT_FOUND", "DUPLICATE_COLUMN_ALIAS", "EMPTY_SCHEMA",
        "END_BEFORE_START", "FIFO_NOT_SUPPORTED", "GROUP_NOT_FOUND.CLUSTER", "INCOMPATIBLE_CHECKPOINT",
        "INCOMPATIBLE_OPTIONS", "INVALID_INVISIBLE_DURATION", "INVALID_OPTION_VALUE", "LISTED_QUEUES_MISMATCH",
        "LISTED_QUEUES_UNKNOWN", "MESSAGE_ID_UNAVAILABLE", "MISSING_OPTION", "MISSING_SEND_BACK_COLUMN",
        "MISSING_SINK_COLUMN", "NATIVE_DECODER_UNAVAILABLE", "NON_NULLABLE_COLUMN", "NOT_A_GRPC_PROXY",
        "NOT_A_NAME_SERVER", "OFFSETS_NOT_IN_QUEUES", "OFFSETS_OUT_OF_RANGE", "OFFSET_FILE_UNUSABLE",
        "OPTION_REQUIRES_OPTION", "SPOOL_DIR_UNUSABLE", "TIMESTAMP_NOT_MATCHED", "TIME_WITHOUT_ZONE",
        "TLS_FILE_UNUSABLE", "UNKNOWN_COLUMN", "UNKNOWN_OPTION", "UNSUPPORTED_COLUMN_TYPE", "UNSUPPORTED_OPERATION",
        "UNSUPPORTED_SAVE_MODE", "UNSUPPORTED_SINK_COLUMN", "UNSUPPORTED_SINK_COLUMN_TYPE",
        "UNSUPPORTED_SPARK_SETTING", "UNSUPPORTED_SPARK_VERSION",
    },
    "RemoteProtocolError": {
        "CORRUPT_MESSAGE.QUEUE", "CORRUPT_MESSAGE.RESPONSE", "FRAME_TOO_LARGE", "INVALID_QUEUE_OFFSETS",
        "MALFORMED_FRAME", "MALFORMED_RESPONSE.BODY", "MALFORMED_RESPONSE.HEADER", "PULL_STALLED", "SEARCH_STALLED",
        "RESPONSE_TOO_LARGE", "SQL_FILTER_UNUSABLE", "UNDECODABLE_MESSAGE_BODY",
    },
    "RouteError": {
        "BROKER_ADDRESS_MISMATCH", "INVALID_ORDER_CONF", "MASTER_NOT_REGISTERED", "MASTER_UNAVAILABLE",
        "READING_FROM_SLAVE",
        "NO_MASTER_BROKER", "QUEUES_UNAVAILABLE.FAIL", "QUEUES_UNAVAILABLE.TIMEOUT", "STATIC_TOPIC_NOT_SUPPORTED",
        "TOPIC_CREATION_TIMEOUT", "TOPIC_EXISTS", "TOPIC_NOT_FOUND", "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE",
        "TOPIC_UNAVAILABLE.NO_ROUTE", "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE", "TOPIC_UNAVAILABLE.QUEUE",
        "UNKNOWN_BROKER",
    },
    "TransportError": {
        "CLUSTER_TIMEOUT", "CONNECTION_LOST", "CONNECT_FAILED", "FILTER_NOT_VERIFIABLE", "LOGGED_BATCH_UNREADABLE",
        "NAME_SERVERS_UNAVAILABLE",
        "PROXY_REQUIRES_ENDPOINTS", "RESPONSE_TIMED_OUT", "SOURCE_PROCESS_TERMINATED", "TLS_CERTIFICATE_UNTRUSTED",
        "TLS_CLIENT_CERTIFICATE_REJECTED", "TLS_HOSTNAME_MISMATCH", "TLS_NOT_SUPPORTED", "TLS_REQUIRED",
    },
}  # fmt: skip
"""Whose fault each condition is."""

OF_THE_CLASS = {"BrokerError": {"code"}}
"""What an error needs whatever its text states."""

BUILDS_ROWS = "BrokerError(condition, address=address, request=request, code=code, remark=remark, **named)"
"""Computed condition: that of a row, whose pattern names the other parameters."""

BUILDS_LOSSES = "DataLossError(f'DATA_LOSS.{condition}', count=_offsets(lost), ranges=_format_losses(lost))"
"""Computed condition: that of a loss, of which the table of warnings has each."""


@dataclass(frozen=True)
class CallSite:
    """One place that makes an error. ``condition`` is None where it is computed, ``parameters`` where they are."""

    where: str
    error_class: str
    condition: str | None
    parameters: frozenset[str] | None


@cache
def call_sites() -> tuple[CallSite, ...]:
    """All of the package. Not at import: each worker imports this module, and one runs it."""
    return tuple(sites_in_package())


def sites_in_package() -> Iterator[CallSite]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name_of(node.func) in ERROR_CLASSES:
                yield from _sites_of(node, f"{path.relative_to(PACKAGE)}:{node.lineno}")


def _sites_of(node: ast.Call, where: str) -> Iterator[CallSite]:
    """The call; for those that build the errors of ``refusal``'s and ``data_loss``'s rows, one call site a row."""
    given = frozenset(keyword.arg for keyword in node.keywords if keyword.arg is not None)
    match where.partition(":")[0], ast.unparse(node):
        case "wire/remoting/refusal.py", call if call == BUILDS_ROWS:
            for words, condition in [*ACCESS_WORDS, *(row[1:] for row in REFUSALS)]:
                yield CallSite(where, "BrokerError", condition, given | re.compile(words).groupindex.keys())
        case "source/data_loss.py", call if call == BUILDS_LOSSES:
            for condition in sorted({condition for condition, _ in WARNINGS}):
                yield CallSite(where, "DataLossError", f"DATA_LOSS.{condition}", given)
        case _:
            yield _call_site(node, where)


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _call_site(node: ast.Call, where: str) -> CallSite:
    first = node.args[0] if node.args else None
    condition = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    names = [keyword.arg for keyword in node.keywords]
    given = frozenset(name for name in names if name is not None)
    return CallSite(where, _name_of(node.func), condition, given if None not in names else None)


def test_errors_are_found() -> None:
    assert len(call_sites()) > 20
    assert {"OptionError", "RocketMQError"} <= ERROR_CLASSES


def test_each_error_is_raised_with_a_condition_of_the_table_and_exactly_its_parameters() -> None:
    assert [problem for site in call_sites() if (problem := problem_of(site))] == []


def problem_of(site: CallSite) -> str:
    """What is wrong there, or nothing."""
    if site.condition is None:
        return f"{site.where}: write the condition and its parameters out"
    if site.condition not in CONDITIONS:
        return f"{site.where}: no condition {site.condition}"
    expected = parameters_of(CONDITIONS[site.condition]) | OF_THE_CLASS.get(site.error_class, set())
    return "" if site.parameters == expected else f"{site.where}: {site.condition} has {site.parameters}"


@pytest.mark.parametrize(
    "call",
    [
        'BrokerError(condition, broker="a")',
        'BrokerError("NO_SUCH_CONDITION")',
        'RouteError("MASTER_UNAVAILABLE", broker="a")',
        'RouteError("MASTER_UNAVAILABLE", broker="a", topic="t", code=1)',
        'RouteError("MASTER_UNAVAILABLE", **parameters)',
        'BrokerError("MASTER_UNAVAILABLE", broker="a", topic="t")',
    ],
)
def test_an_error_with_another_condition_or_parameters_is_found(call: str) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert problem_of(_call_site(node, "here")).startswith("here: ")


BUILDERS = {("wire/remoting/refusal.py:1", BUILDS_ROWS), ("source/data_loss.py:1", BUILDS_LOSSES)}


@pytest.mark.parametrize("where", ["wire/remoting/refusal.py:1", "source/data_loss.py:1", "sink/retry.py:1"])
@pytest.mark.parametrize("builds", [BUILDS_ROWS, BUILDS_LOSSES])
@pytest.mark.parametrize("name", ["condition", "other"])
def test_only_the_builders_of_rows_may_compute_conditions(where: str, builds: str, name: str) -> None:
    call = builds.replace("condition", name)
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    is_builder = (where, call) in BUILDERS
    assert all(problem_of(site) for site in _sites_of(node, where)) is not is_builder


def test_no_error_is_of_a_class_that_names_no_party() -> None:
    assert {site.where: site.error_class for site in call_sites() if site.error_class in ABSTRACT} == {}


def test_each_condition_has_its_class() -> None:
    """Whose fault something is does not depend on who notices it."""
    classes: dict[str | None, set[str]] = {}
    for site in call_sites():
        classes.setdefault(site.condition, set()).add(site.error_class)
    assert classes == {condition: {name} for name, conditions in CLASSES.items() for condition in conditions}


def test_every_condition_is_raised_somewhere() -> None:
    raised = {site.condition for site in call_sites()}
    assert CONDITIONS.keys() - raised == set()


EXPECTED = re.compile(r"(\w+Error)\[([A-Z_.]+(?:\s*\|\s*[A-Z_.]+)*)\]")


def promises(text: str) -> list[tuple[str, str]]:
    return [(name, condition.strip()) for name, listed in EXPECTED.findall(text) for condition in listed.split("|")]


def test_what_docstrings_name_as_raised_is_of_the_class_that_they_name() -> None:
    wrong = {
        f"{path.relative_to(PACKAGE)}: {name}[{condition}]"
        for path in PACKAGE.rglob("*.py")
        for name, condition in promises(path.read_text(encoding="utf-8"))
        if condition not in CLASSES.get(name, set())
    }
    assert wrong == set()


def test_a_promise_of_two_conditions_is_read_as_two() -> None:
    docstring = "Raises TransportError[CONNECT_FAILED | CONNECTION_LOST]."
    assert promises(docstring) == [("TransportError", "CONNECT_FAILED"), ("TransportError", "CONNECTION_LOST")]
