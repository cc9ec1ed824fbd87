"""Options of a streaming read that require another option, and options that exclude each other.

Conflicts among ``startingOffsets`` and the other options of the start position: see ``consume_from_where``.
"""

from __future__ import annotations

from typing import Any, Final

from rocketmq_spark.model import SQL92, SUB_ALL
from rocketmq_spark.options.connection import CONNECTION_CONFLICTS, CONNECTION_DEPENDENCIES
from rocketmq_spark.options.kinds import is_sql_comparison
from rocketmq_spark.options.receive import RECEIVE_CONFLICTS
from rocketmq_spark.options.table import Conflict, Dependency

BROADCASTING: Final = "BROADCASTING"

DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 900_000

RETRY_TOPIC_NEEDS_NO_ORDER: Final = (
    "Messages that are sent back for retry are redelivered after later messages of their queue. While a member of the "
    "group holds a queue lock, brokers move them to the dead-letter topic instead. Use only one of the two options."
)


def _has_start_position(options: Any) -> bool:
    """Return whether ``startingOffsets``, a start time, ``consumeFromWhere`` or ``consumeTimestamp`` is set."""
    given = (options.starting_offsets, options.consume_from_where, options.consume_timestamp_ms)
    return _has_start_times(options) or any(one is not None for one in given)


def _has_start_times(options: Any) -> bool:
    """Return whether ``startingTimestamp`` or ``startingOffsetsByTimestamp`` is set."""
    return options.starting_timestamp_ms is not None or options.starting_timestamps_ms is not None


def _starts_at_group(options: Any) -> bool:
    """Return whether ``startingOffsets`` is set and has a position at the group's committed offset."""
    return options.starting_offsets is not None and options.starting_offsets.uses_group


def _broadcasts(options: Any) -> bool:
    return bool(options.message_model == BROADCASTING)


TIME_STRATEGY_DEPENDENCY: Final = Dependency(
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    lambda options: options.timestamp_strategy != "error" and not _has_start_times(options),
    "A non-default strategy applies to 'startingTimestamp' and 'startingOffsetsByTimestamp' only.",
)


def _is_sql(options: Any) -> bool:
    return bool(options.expression_type == SQL92)


FILTER_RULES: Final = (
    Dependency(
        "subExpression",
        "expressionType",
        lambda options: not _is_sql(options) and is_sql_comparison(options.sub_expression),
        "Its value is a SQL92 expression, for 'expressionType=SQL92'. With TAG, no message would have it as its tag.",
    ),
    Dependency(
        "expressionType",
        "subExpression",
        lambda options: _is_sql(options) and options.sub_expression == SUB_ALL,
        "SQL92 evaluates an expression such as \"price > 5\"; '*', which reads all messages, is none.",
    ),
)
"""Of the filter, for all reads."""
_ONE_SELECTION: Final = "Only one of them can select what is read."

TOPIC_CONFLICTS: Final = (
    Conflict(
        "subscribe",
        "subscribePattern",
        lambda options: bool(options.topics) and options.topic_pattern is not None,
        _ONE_SELECTION,
    ),
    Conflict(
        "subscribe",
        "assign",
        lambda options: bool(options.topics) and options.assigned is not None,
        _ONE_SELECTION,
    ),
    Conflict(
        "subscribePattern",
        "assign",
        lambda options: options.topic_pattern is not None and options.assigned is not None,
        _ONE_SELECTION,
    ),
)
"""What is read. Checked in this order."""

_STANDALONE: Final = (
    ("consumeOrderly", "consume_orderly", False, "no lock excludes other consumers from its queues."),
    ("messageModel", "message_model", "CLUSTERING", "it reads its queues independently of other members anyway."),
    ("allocateStrategy", "allocate_strategy", "AVG", "its queues are not allocated among members."),
    ("retryTopic", "reads_retry_topic", False, "it reads the assigned queues only: assign the retry topic's queues."),
)
"""Options that a query with ``assign`` does not have, because it joins no group: name, attribute, default, reason."""


def _only_with_group(name: str, attribute: str, default: object, explanation: str) -> Conflict:
    """Return the conflict of ``assign`` with a value of option ``name``, parsed into ``attribute``, other than
    ``default``; ``explanation`` ends the error's reason."""

    def when(options: Any) -> bool:
        """Return whether ``assign`` is given and the option's value is not ``default``."""
        return bool(options.assigned is not None and getattr(options, attribute) != default)

    reason = f"A non-default '{name}' requires 'subscribe': with 'assign' the query joins no group, and {explanation}"
    return Conflict("assign", name, when, reason)


READ_DEPENDENCIES: Final = (
    *CONNECTION_DEPENDENCIES,
    *FILTER_RULES,
    TIME_STRATEGY_DEPENDENCY,
    Dependency(
        "messageModel",
        "instanceName",
        lambda options: _broadcasts(options) and options.instance_name is None,
        "With 'messageModel=BROADCASTING', 'instanceName' names the local offset file of the query.",
    ),
    Dependency(
        "maxTriggerDelay",
        "minOffsetsPerTrigger",
        lambda options: (
            options.min_offsets_per_trigger is None and options.max_trigger_delay_ms != DEFAULT_MAX_TRIGGER_DELAY_MS
        ),
        "It limits how long a batch with fewer offsets is delayed.",
    ),
    Dependency(
        "groupOffsets",
        "startingOffsets",
        lambda options: options.ignores_group_offsets and not _has_start_position(options),
        "'groupOffsets=ignore' resets the group's offsets. Set the position with 'startingOffsets', "
        "'startingTimestamp', 'consumeFromWhere' or 'consumeTimestamp'.",
    ),
    Dependency(
        "commitOffsets",
        "assign",
        lambda options: not options.commits_offsets and options.assigned is None,
        "'commitOffsets=false' is for assigned queues. Members of a group resume from its committed offsets.",
    ),
)

READ_CONFLICTS: Final = (
    *CONNECTION_CONFLICTS,
    *RECEIVE_CONFLICTS,
    Conflict(
        "consumeOrderly",
        "retryTopic",
        lambda options: options.consume_orderly and options.reads_retry_topic,
        RETRY_TOPIC_NEEDS_NO_ORDER,
    ),
    Conflict(
        "minOffsetsPerTrigger",
        "maxOffsetsPerTrigger",
        lambda options: (
            options.min_offsets_per_trigger is not None
            and options.max_offsets_per_trigger is not None
            and options.min_offsets_per_trigger > options.max_offsets_per_trigger
        ),
        "The minimum is larger than the maximum.",
    ),
    Conflict(
        "messageModel",
        "localOffsetStoreDir",
        lambda options: not _broadcasts(options) and options.local_offset_store_dir is not None,
        "'localOffsetStoreDir' requires 'messageModel=BROADCASTING': with 'CLUSTERING', the brokers store the group's "
        "offsets.",
    ),
    Conflict(
        "messageModel",
        "consumeOrderly",
        lambda options: _broadcasts(options) and options.consume_orderly,
        "'consumeOrderly=true' requires 'messageModel=CLUSTERING': with 'BROADCASTING', every query reads all queues, "
        "and none is locked.",
    ),
    Conflict(
        "messageModel",
        "allocateStrategy",
        lambda options: _broadcasts(options) and options.allocate_strategy.upper() != "AVG",
        "A non-default 'allocateStrategy' requires 'messageModel=CLUSTERING': with 'BROADCASTING', every query reads "
        "all queues.",
    ),
    Conflict(
        "messageModel",
        "groupOffsets",
        lambda options: _broadcasts(options) and options.group_offsets != "resume",
        "A non-default 'groupOffsets' requires 'messageModel=CLUSTERING': with 'BROADCASTING', the group has no "
        "committed offsets. To start over, delete the query's local offset file and its '.bak'.",
    ),
    Conflict(
        "messageModel",
        "startingOffsets",
        lambda options: _broadcasts(options) and _starts_at_group(options),
        "'startingOffsets=group' requires 'messageModel=CLUSTERING': with 'BROADCASTING', the group has no committed "
        "offsets.",
    ),
    Conflict(
        "groupOffsets",
        "startingOffsets",
        lambda options: options.ignores_group_offsets and _starts_at_group(options),
        "'groupOffsets=ignore' resets the group's offsets to 'startingOffsets', which therefore cannot be 'group'.",
    ),
    Conflict(
        "messageModel",
        "retryTopic",
        lambda options: _broadcasts(options) and options.reads_retry_topic,
        "'retryTopic=true' requires 'messageModel=CLUSTERING': with 'BROADCASTING', messages are not sent back for "
        "retry.",
    ),
    Conflict(
        "commitOffsets",
        "groupOffsets",
        lambda options: not options.commits_offsets and options.group_offsets != "resume",
        "A non-default 'groupOffsets' requires 'commitOffsets=true': with 'false', the query does not use the group's "
        "offsets. To start over, use a new checkpoint location.",
    ),
    Conflict(
        "commitOffsets",
        "startingOffsets",
        lambda options: not options.commits_offsets and _starts_at_group(options),
        "'startingOffsets=group' requires 'commitOffsets=true': with 'false', the query does not use the group's "
        "offsets.",
    ),
    *(_only_with_group(*row) for row in _STANDALONE),
    *TOPIC_CONFLICTS,
)
"""Checked in this order."""
