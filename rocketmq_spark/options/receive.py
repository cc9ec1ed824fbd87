"""Options of who shares a group's messages one by one, and what then has no meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rocketmq_spark.options.connection import ConnectionOptions
from rocketmq_spark.options.kinds import ADDRESSES, GIVEN, choice, integer
from rocketmq_spark.options.table import Conflict, Section, option
from rocketmq_spark.security import Secret

BY_QUEUE: Final = "queue"
BY_MESSAGE: Final = "message"
INVISIBLE_BY_DEFAULT_MS: Final = 300_000


@dataclass(frozen=True, kw_only=True)
class ReceiveOptions(ConnectionOptions):
    """What a group's members share, for how long a message is one's own, and who hands it out."""

    load_balance: str = option(
        "loadBalance",
        choice(BY_QUEUE, BY_MESSAGE),
        section=Section.GROUP,
        default=BY_QUEUE,
        doc="What the group's members share. `queue`: each queue is one member's, which reads it in order. `message`, "
        "with RocketMQ 5: each message goes to whoever asks first, and is invisible to the others until its batch is "
        "done; in no order, and at least once. All members must use the same. The guide on message granularity says "
        "when to take which.",
    )
    endpoints: tuple[str, ...] | None = option(
        "endpoints",
        ADDRESSES,
        section=Section.GROUP,
        doc="For `loadBalance` `message`, in place of `namesrvAddr`: a RocketMQ 5 proxy, `host:port`, which is asked "
        "over gRPC; its port is 8081 unless somebody has changed that. Where it has several addresses, separated by "
        "`;`, one that does not answer is passed over for the next.",
    )
    invisible_duration_ms: int = option(
        "invisibleDurationMs",
        integer(1_000, 43_200_000),
        section=Section.GROUP,
        default=str(INVISIBLE_BY_DEFAULT_MS),
        doc="For `loadBalance` `message`: how long a message is invisible to the other members. While the query holds "
        "it, it is renewed when half of that is over; what a killed query held comes again when all of it is.",
    )

    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger",
        integer(1, 2**63 - 1),
        section=Section.GROUP,
        doc="For `loadBalance` `message`: at most so many bytes in one micro-batch, as messages are stored, compressed "
        "ones too; one message at least. 64 MB are received ahead of it at most.",
    )

    spool_dir: str | None = option(
        "spoolDir",
        GIVEN,
        section=Section.GROUP,
        doc="For `loadBalance` `message`: a folder of the driver's machine, on a disk that a restart finds again. Each "
        "batch is kept there until it is done, so a restart has the same rows for a batch that was not. Without it "
        "that batch is empty, and its messages come again in another one.",
    )

    @property
    def shares_messages(self) -> bool:
        """Whether the group's members share messages, not queues."""
        return self.load_balance == BY_MESSAGE


WITHOUT_MEANING: Final[tuple[tuple[str, str, object, str], ...]] = (
    ("consumeOrderly", "consume_orderly", False, "Messages that are shared come in no order."),
    ("messageModel", "message_model", "CLUSTERING", "In 'BROADCASTING' nothing is shared."),
    ("allocateStrategy", "allocate_strategy", "AVG", "Brokers hand messages out one by one: no member has queues."),
    ("instanceName", "instance_name", None, "Brokers hand messages out to whoever asks, and ask for no name."),
    ("rebalanceIntervalMs", "rebalance_interval_ms", 20_000, "Where messages are shared there is no rebalance."),
    ("persistOffsetIntervalMs", "persist_offset_interval_ms", 5_000, "Messages are acknowledged one by one."),
    ("groupOffsets", "group_offsets", "resume", "Where messages are shared the group's offsets are the brokers' own."),
    ("startingTimestamp", "starting_timestamp_ms", None, "Brokers hand messages out from the first one or the end."),
    ("consumeTimestamp", "consume_timestamp_ms", None, "Brokers do not hand messages out from a time on."),
    ("retryTopic", "reads_retry_topic", False, "Brokers hand out again by themselves what is to come again."),
    (
        "minPartitions",
        "min_partitions",
        None,
        "Messages travel with their tasks; 'maxRecordsPerPartition' says how many go with one.",
    ),
    (
        "missingQueues",
        "missing_queues",
        "wait",
        "No queue is this query's own: what a broker keeps that is away comes when it is back.",
    ),
    (
        "missingQueuesTimeoutMs",
        "missing_queues_timeout_ms",
        300_000,
        "No queue is this query's own; how long a broker may be silent says 'clusterTimeoutMs'.",
    ),
    ("skipRanges", "skip_ranges", (), "A batch that is planned again has no messages: they come again in another one."),
)
"""Options that say nothing where messages are shared: name, attribute, default, and why. To set them is an error."""


def _over_grpc(attribute: str) -> Callable[[Any], bool]:
    """Whether an option is given that says nothing there."""
    return lambda options: options.endpoints is not None and getattr(options, attribute) is not None


_HEADER: Final = " is sent over gRPC in a header, which holds printable ASCII only, and no blank at its ends."


def _no_header(options: Any, value: str | Secret | None) -> bool:
    """Whether ``value`` is to be sent in a header that cannot hold it."""
    text = value.reveal() if isinstance(value, Secret) else value or ""
    is_printable = text.isascii() and (not text or text.isprintable())
    return options.endpoints is not None and not (is_printable and text == text.strip())


def _conflict(name: str, attribute: str, default: object, why: str) -> Conflict:
    def when(options: Any) -> bool:
        return bool(options.shares_messages and getattr(options, attribute) != default)

    return Conflict("loadBalance", name, when, why)


RECEIVE_CONFLICTS: Final = (
    Conflict(
        "endpoints",
        "loadBalance",
        lambda options: options.endpoints is not None and not options.shares_messages,
        "Over gRPC a proxy hands out messages, not queues. Set 'loadBalance' to 'message', or give 'namesrvAddr'.",
    ),
    *(_conflict(*row) for row in WITHOUT_MEANING),
    Conflict(
        "loadBalance",
        "startingOffsets",
        lambda options: options.shares_messages and isinstance(options.starting_offsets, tuple),
        "Where messages are shared a group without offsets begins at 'earliest' or 'latest'.",
    ),
    Conflict(
        "loadBalance",
        "consumeFromWhere",
        lambda options: options.shares_messages and options.consume_from_where == "CONSUME_FROM_TIMESTAMP",
        "Where messages are shared a group without offsets begins at its first message or at its end.",
    ),
    Conflict(
        "endpoints",
        "startingOffsets",
        _over_grpc("starting_offsets"),
        "Over gRPC nobody can say where a group without offsets begins: a proxy has it begin about at the end. With "
        "'namesrvAddr' it can begin at its first messages, and go on over gRPC.",
    ),
    Conflict(
        "endpoints",
        "consumeFromWhere",
        _over_grpc("consume_from_where"),
        "Where a group without offsets begins is a proxy's to say, about at the end; 'namesrvAddr' leaves it to you.",
    ),
    Conflict(
        "endpoints",
        "failOnDataLoss",
        lambda options: options.endpoints is not None and not options.fail_on_data_loss,
        "A proxy tells nothing of what brokers delete before they have delivered it, so there is nothing to decide.",
    ),
    Conflict(
        "endpoints",
        "tlsKeyPassword",
        _over_grpc("tls_key_password"),
        "The library that speaks gRPC takes only keys that are not encrypted.",
    ),
    Conflict("endpoints", "accessKey", lambda options: _no_header(options, options.access_key), f"The key{_HEADER}"),
    Conflict(
        "endpoints", "securityToken", lambda options: _no_header(options, options.security_token), f"The token{_HEADER}"
    ),
    Conflict(
        "endpoints",
        "badMessages",
        lambda options: options.endpoints is not None and options.bad_messages == "deadLetter",
        "A proxy moves a message to the dead letter topic as it is stored, where nobody could read it either. 'null' "
        "goes on without its body; over 'namesrvAddr' it is sent with what is known of it.",
    ),
    Conflict(
        "loadBalance",
        "invisibleDurationMs",
        lambda options: not options.shares_messages and options.invisible_duration_ms != INVISIBLE_BY_DEFAULT_MS,
        "With 'queue' no message is invisible: its queue is one member's.",
    ),
    Conflict(
        "loadBalance",
        "spoolDir",
        lambda options: not options.shares_messages and options.spool_dir is not None,
        "With 'queue' the brokers have the messages of a batch, and a restart reads them there.",
    ),
    Conflict(
        "loadBalance",
        "maxBytesPerTrigger",
        lambda options: not options.shares_messages and options.max_bytes_per_trigger is not None,
        "With 'queue' nobody knows how many bytes lie between two offsets; 'maxOffsetsPerTrigger' counts these.",
    ),
    Conflict(
        "namesrvAddr",
        "endpoints",
        lambda options: bool(options.name_servers) and options.endpoints is not None,
        "Name servers say where brokers are, which are asked directly; a proxy asks them itself. Give one of the two.",
    ),
)
"""Checked in this order."""
