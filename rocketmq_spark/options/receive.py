"""Options that select queue-based or message-based load balancing, and the options that each excludes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rocketmq_spark.options.connection import ConnectionOptions
from rocketmq_spark.options.kinds import ADDRESSES, NON_EMPTY_TEXT, choice, integer
from rocketmq_spark.options.queue_positions import EARLIEST, LATEST, QueuePositions
from rocketmq_spark.options.table import Conflict, Section, option
from rocketmq_spark.security import Secret

BY_QUEUE: Final = "queue"
BY_MESSAGE: Final = "message"
DEFAULT_INVISIBLE_DURATION_MS: Final = 300_000


@dataclass(frozen=True, kw_only=True)
class ReceiveOptions(ConnectionOptions):
    """Unit of load balancing in the group, and the options of message-based load balancing."""

    load_balance: str = option(
        "loadBalance",
        choice(BY_QUEUE, BY_MESSAGE),
        section=Section.GROUP,
        default=BY_QUEUE,
        doc="Unit of load balancing in the group. `queue`: each queue belongs to one member, which reads it in order. "
        "`message`, with RocketMQ 5: the broker delivers each message to one of the members that poll for it. The "
        "message is invisible to the others until its batch is completed. Delivery is unordered and at least once; "
        "FIFO topics and groups are not supported. All members must use the same value. The page "
        "'Message mode' of the documentation describes when to use `message`.",
    )
    endpoints: tuple[str, ...] | None = option(
        "endpoints",
        ADDRESSES,
        section=Section.GROUP,
        doc="gRPC addresses of RocketMQ 5 proxies, `host:port`, separated by `;`. The default gRPC port of a proxy is "
        "8081. Replaces `namesrvAddr`; requires `loadBalance=message`. If one does not respond, the connector tries "
        "the next.",
    )
    invisible_duration_ms: int = option(
        "invisibleDurationMs",
        integer(1_000, 43_200_000),
        section=Section.GROUP,
        default=str(DEFAULT_INVISIBLE_DURATION_MS),
        doc="Applies to `loadBalance=message`: how long a delivered message is invisible to other members, in ms. When "
        "half of the time has passed, the query extends it for messages that it has not completed. The messages of a "
        "killed query are redelivered after the full time.",
    )

    spool_dir: str | None = option(
        "spoolDir",
        NON_EMPTY_TEXT,
        section=Section.GROUP,
        doc="Applies to `loadBalance=message`: directory on the driver's machine that keeps the messages of each "
        "batch until it is completed. It must survive a restart of the query. With it, a replayed batch has the same "
        "rows. Without it, a replayed batch is empty, and its messages are redelivered in a later batch.",
    )

    @property
    def is_message_based(self) -> bool:
        """Return whether the group uses message-based load balancing."""
        return self.load_balance == BY_MESSAGE


ONLY_BY_QUEUE: Final[tuple[tuple[str, str, object, str], ...]] = (
    ("consumeOrderly", "consume_orderly", False, "delivery is unordered."),
    ("messageModel", "message_model", "CLUSTERING", "each message is delivered to one member."),
    ("allocateStrategy", "allocate_strategy", "AVG", "members own no queues."),
    ("instanceName", "instance_name", None, "brokers deliver messages to clients without a client ID."),
    ("rebalanceIntervalMs", "rebalance_interval_ms", 20_000, "there is no rebalance."),
    ("persistOffsetIntervalMs", "persist_offset_interval_ms", 5_000, "messages are acknowledged individually."),
    ("groupOffsets", "group_offsets", "resume", "the brokers manage the group's offsets."),
    ("startingTimestamp", "starting_timestamp_ms", None, "a new group starts at 'earliest' or 'latest'."),
    ("startingOffsetsByTimestamp", "starting_timestamps_ms", None, "a new group starts at 'earliest' or 'latest'."),
    ("consumeTimestamp", "consume_timestamp_ms", None, "a new group starts at 'earliest' or 'latest'."),
    ("retryTopic", "reads_retry_topic", False, "brokers redeliver messages without this option."),
    ("minOffsetsPerTrigger", "min_offsets_per_trigger", None, "a batch has the messages that were delivered."),
    ("minPartitions", "min_partitions", None, "'maxRecordsPerPartition' sets the number of messages per task."),
    (
        "missingQueues",
        "missing_queues",
        "wait",
        "the query owns no queues; an unavailable broker delivers its messages when it is back.",
    ),
    (
        "missingQueuesTimeoutMs",
        "missing_queues_timeout_ms",
        300_000,
        "'clusterTimeoutMs' limits how long a broker may be unresponsive.",
    ),
    ("readFrom", "read_from", "master", "messages are delivered and acknowledged by masters only."),
    ("skipRanges", "skip_ranges", (), "a batch has no offset ranges."),
    ("assign", "assigned", None, "the query reads no queues of its own; set 'subscribe'."),
    ("subscribePattern", "topic_pattern", None, "topics are not listed; set 'subscribe'."),
)
"""Options that apply to ``loadBalance=queue`` only: name, attribute, default, reason. Other values are an error."""


def _when_set_over_grpc(attribute: str) -> Callable[[Any], bool]:
    """Return the condition of a ``Conflict``: whether ``endpoints`` and ``attribute`` are both set, that is, not
    None."""
    return lambda options: options.endpoints is not None and getattr(options, attribute) is not None


_HEADER: Final = "in a header: use printable ASCII characters only, without leading or trailing blanks."


def _is_no_header_value(options: Any, value: str | Secret | None) -> bool:
    """Return whether ``endpoints`` is set and ``value`` cannot be sent in a gRPC header. Such a value has other
    characters than printable ASCII, or begins or ends with a blank. False for None and empty text."""
    text = value.reveal() if isinstance(value, Secret) else value or ""
    is_printable = text.isascii() and (not text or text.isprintable())
    return options.endpoints is not None and not (is_printable and text == text.strip())


def _only_by_queue(name: str, attribute: str, default: object, explanation: str) -> Conflict:
    """Return the conflict of ``loadBalance=message`` with a value of option ``name``, parsed into ``attribute``, other
    than ``default``; ``explanation`` ends the error's reason."""

    def when(options: Any) -> bool:
        """Return whether load balancing is message-based and the option's value is not ``default``."""
        return bool(options.is_message_based and getattr(options, attribute) != default)

    reason = f"A non-default '{name}' requires 'loadBalance=queue': with 'message', {explanation}"
    return Conflict("loadBalance", name, when, reason)


_MESSAGE_STARTS: Final = (None, QueuePositions(EARLIEST), QueuePositions(LATEST))

RECEIVE_CONFLICTS: Final = (
    Conflict(
        "endpoints",
        "loadBalance",
        lambda options: options.endpoints is not None and not options.is_message_based,
        "'endpoints' requires 'loadBalance=message': over gRPC, a proxy assigns messages, not queues. Set "
        "'loadBalance' to 'message', or use 'namesrvAddr'.",
    ),
    *(_only_by_queue(*row) for row in ONLY_BY_QUEUE),
    Conflict(
        "loadBalance",
        "startingOffsets",
        lambda options: options.is_message_based and options.starting_offsets not in _MESSAGE_STARTS,
        "JSON and 'group' require 'loadBalance=queue': with 'message', a new group starts at 'earliest' or 'latest'.",
    ),
    Conflict(
        "loadBalance",
        "consumeFromWhere",
        lambda options: options.is_message_based and options.consume_from_where == "CONSUME_FROM_TIMESTAMP",
        "'CONSUME_FROM_TIMESTAMP' requires 'loadBalance=queue': with 'message', a new group starts at its first "
        "message or at its end.",
    ),
    Conflict(
        "endpoints",
        "startingOffsets",
        _when_set_over_grpc("starting_offsets"),
        "The gRPC protocol cannot set the start position of a group: a new group starts near the end of each queue. To "
        "start at the first message, run the query once with 'namesrvAddr' and 'startingOffsets=earliest'.",
    ),
    Conflict(
        "endpoints",
        "consumeFromWhere",
        _when_set_over_grpc("consume_from_where"),
        "The gRPC protocol cannot set the start position of a group: a new group starts near the end of each queue. "
        "Use 'namesrvAddr' for the first run.",
    ),
    Conflict(
        "endpoints",
        "failOnDataLoss",
        lambda options: options.endpoints is not None and not options.fail_on_data_loss,
        "'failOnDataLoss=false' requires 'namesrvAddr': a proxy does not report messages that brokers delete before "
        "delivery, so data loss is not detected over gRPC.",
    ),
    Conflict(
        "endpoints",
        "tlsKeyPassword",
        _when_set_over_grpc("tls_key_password"),
        "The gRPC library does not support encrypted private keys. Use an unencrypted key file.",
    ),
    Conflict(
        "endpoints",
        "accessKey",
        lambda options: _is_no_header_value(options, options.access_key),
        f"gRPC sends the access key {_HEADER}",
    ),
    Conflict(
        "endpoints",
        "securityToken",
        lambda options: _is_no_header_value(options, options.security_token),
        f"gRPC sends the token {_HEADER}",
    ),
    Conflict(
        "endpoints",
        "badMessages",
        lambda options: options.endpoints is not None and options.bad_messages == "deadLetter",
        "'badMessages=deadLetter' requires 'namesrvAddr': a proxy would move the message unchanged to the dead-letter "
        "topic, where its body is still undecodable. 'badMessages=null' returns the row with a null body.",
    ),
    Conflict(
        "loadBalance",
        "invisibleDurationMs",
        lambda options: not options.is_message_based and options.invisible_duration_ms != DEFAULT_INVISIBLE_DURATION_MS,
        "A non-default 'invisibleDurationMs' requires 'loadBalance=message': with 'queue', messages have no invisible "
        "duration.",
    ),
    Conflict(
        "loadBalance",
        "spoolDir",
        lambda options: not options.is_message_based and options.spool_dir is not None,
        "'spoolDir' requires 'loadBalance=message': with 'queue', a restart reads the messages of a replayed batch "
        "from the brokers.",
    ),
    Conflict(
        "namesrvAddr",
        "endpoints",
        lambda options: bool(options.name_servers) and options.endpoints is not None,
        "With 'namesrvAddr' the query connects to the brokers, with 'endpoints' to a proxy. Set only one of them.",
    ),
)
"""Checked in this order."""
