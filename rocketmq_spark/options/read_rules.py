"""What options of a streaming read need beside them, and which contradict each other.

Whether ``startingOffsets`` and its like contradict each other says ``consume_from_where``: it gives them one meaning.
"""

from __future__ import annotations

from typing import Any, Final

from rocketmq_spark.options.connection import CONNECTION_CONFLICTS, CONNECTION_NEEDS
from rocketmq_spark.options.receive import RECEIVE_CONFLICTS
from rocketmq_spark.options.table import Conflict, Need

BROADCASTING: Final = "BROADCASTING"

NO_RETRY_IN_ORDER: Final = (
    "What is sent back comes again behind later messages; and while a member of the group holds a lock, brokers put "
    "what is sent to the group's retry topic into its dead letter queue instead. Give up one of the two."
)


def _says_where_to_begin(options: Any) -> bool:
    said = (options.starting_offsets, options.starting_timestamp_ms, options.consume_from_where)
    return any(one is not None for one in (*said, options.consume_timestamp_ms))


def _broadcasts(options: Any) -> bool:
    return bool(options.message_model == BROADCASTING)


READ_NEEDS: Final = (
    *CONNECTION_NEEDS,
    Need(
        "messageModel",
        "instanceName",
        lambda options: _broadcasts(options) and options.instance_name is None,
        "In 'BROADCASTING' it names the file with this query's offsets.",
    ),
    Need(
        "groupOffsets",
        "startingOffsets",
        lambda options: options.ignores_group_offsets and not _says_where_to_begin(options),
        "With 'ignore' the group leaves the offsets that it has: say where it is to be moved.",
    ),
)

READ_CONFLICTS: Final = (
    *CONNECTION_CONFLICTS,
    *RECEIVE_CONFLICTS,
    Conflict(
        "consumeOrderly",
        "retryTopic",
        lambda options: options.consume_orderly and options.reads_retry_topic,
        NO_RETRY_IN_ORDER,
    ),
    Conflict(
        "messageModel",
        "localOffsetStoreDir",
        lambda options: not _broadcasts(options) and options.local_offset_store_dir is not None,
        "In 'CLUSTERING' the brokers keep the group's offsets.",
    ),
    Conflict(
        "messageModel",
        "consumeOrderly",
        lambda options: _broadcasts(options) and options.consume_orderly,
        "In 'BROADCASTING' no queue is one query's alone, to be locked.",
    ),
    Conflict(
        "messageModel",
        "allocateStrategy",
        lambda options: _broadcasts(options) and options.allocate_strategy.upper() != "AVG",
        "In 'BROADCASTING' every query reads every queue; nothing is shared.",
    ),
    Conflict(
        "messageModel",
        "groupOffsets",
        lambda options: _broadcasts(options) and options.group_offsets != "resume",
        "In 'BROADCASTING' the group has no offsets; to begin anew, remove the file with those of this query.",
    ),
    Conflict(
        "messageModel",
        "retryTopic",
        lambda options: _broadcasts(options) and options.reads_retry_topic,
        "In 'BROADCASTING' nothing is sent back: a retry topic is a whole group's.",
    ),
)
"""Checked in this order."""
