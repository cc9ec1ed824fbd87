"""Options of a streaming read. Which of them contradict each other: ``read_rules``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketmq_spark.model import MessageQueue, QueueRange, retry_topic
from rocketmq_spark.options.kinds import (
    BOOLEAN,
    EXPRESSION,
    GROUP,
    INSTANCE,
    LOCAL_TIME,
    NAMES,
    PROPERTIES,
    QUEUES,
    RANGES,
    STARTING_OFFSETS,
    STRATEGY,
    TEXT,
    TOPICS,
    choice,
    integer,
)
from rocketmq_spark.options.read_rules import BROADCASTING, READ_CONFLICTS, READ_NEEDS
from rocketmq_spark.options.receive import ReceiveOptions
from rocketmq_spark.options.table import Section, checked, option, parse_table, taken_by


@taken_by("spark.readStream")
@dataclass(frozen=True, kw_only=True)
class ReadOptions(ReceiveOptions):
    """Options of ``spark.readStream.format("rocketmq")``. Times are milliseconds, sizes are messages."""

    consumer_group: str = option(
        "consumerGroup",
        GROUP,
        section=Section.GROUP,
        essential=True,
        required=True,
        doc="The consumer group that the query joins as one member. Its offsets at the broker show the progress.",
    )
    instance_name: str | None = option(
        "instanceName",
        INSTANCE,
        section=Section.GROUP,
        doc="The part of the client id after `@`. By default each query start gets its own; "
        "a fixed name makes a restarted query the same member again. Two live queries must not share one.",
    )
    allocate_strategy: str = option(
        "allocateStrategy",
        STRATEGY,
        section=Section.GROUP,
        default="AVG",
        doc="How the group's members share the queues: RocketMQ's `AVG`, `AVG_BY_CIRCLE`, `CONSISTENT_HASH`, `CONFIG`, "
        "`MACHINE_ROOM`, `MACHINE_ROOM_NEARBY-<name>`, which give what the Java client's give; `AVG_ALL_TOPICS`, for "
        "groups of Spark members only, which shares the queues of all topics together; or a class of your own, "
        "`module:Class`. All members must use the same.",
    )
    message_queue_list: tuple[MessageQueue, ...] = option(
        "messageQueueList",
        QUEUES,
        section=Section.GROUP,
        default="",
        doc="For `allocateStrategy` `CONFIG`: the queues of this member, `topic@broker:id` separated by commas.",
    )
    consumer_idcs: tuple[str, ...] = option(
        "consumeridcs",
        NAMES,
        section=Section.GROUP,
        default="",
        doc="For `allocateStrategy` `MACHINE_ROOM`: the rooms whose brokers (`room@name`) are read.",
    )
    machine_room_resolver: str = option(
        "machineRoomResolver",
        TEXT,
        section=Section.GROUP,
        default="",
        doc="For `allocateStrategy` `MACHINE_ROOM_NEARBY-<name>`: `module:Class`, which knows where things are.",
    )
    consume_orderly: bool = option(
        "consumeOrderly",
        BOOLEAN,
        section=Section.GROUP,
        essential=True,
        default="false",
        doc="Lock each queue at its broker while this query reads it, as RocketMQ's orderly consumers do: "
        "a queue changes hands only between micro-batches, and no two members ever read it at once.",
    )
    message_model: str = option(
        "messageModel",
        choice("CLUSTERING", BROADCASTING),
        section=Section.GROUP,
        default="CLUSTERING",
        doc="`CLUSTERING`: the group's members share the queues. `BROADCASTING`: this query reads every queue, whoever "
        "else does, and the group has no offsets at the brokers; the query goes on from its checkpoint, or without one "
        "from a file that `instanceName` names.",
    )
    local_offset_store_dir: str | None = option(
        "localOffsetStoreDir",
        TEXT,
        section=Section.GROUP,
        doc="For `messageModel` `BROADCASTING`: the folder of the files with offsets, on the driver's machine. Without "
        "it `.rocketmq_offsets` in the user's home, as RocketMQ has it.",
    )
    rebalance_interval_ms: int = option(
        "rebalanceIntervalMs",
        integer(1_000, 600_000),
        section=Section.GROUP,
        default="20000",
        doc="How often the member compares its queues with the group even when nobody told it of a change.",
    )
    persist_offset_interval_ms: int = option(
        "persistOffsetIntervalMs",
        integer(100, 600_000),
        section=Section.GROUP,
        default="5000",
        doc="How often offsets are sent again that a broker did not confirm when a micro-batch was committed.",
    )
    topics: tuple[str, ...] = option(
        "subscribe",
        TOPICS,
        section=Section.WHAT,
        essential=True,
        aliases=("topic",),
        required=True,
        doc="Topics to read, separated by commas. All members of a group must subscribe to the same topics.",
    )
    include_properties: bool = option(
        "includeProperties",
        BOOLEAN,
        section=Section.WHAT,
        default="false",
        doc="Whether the columns have the map `properties`, all that a message has. It costs more than all others, so "
        "it is asked for, as `includeHeaders` is of Spark's Kafka source. A schema of your own may just name it.",
    )
    property_columns: tuple[str, ...] = option(
        "propertyColumns",
        PROPERTIES,
        section=Section.WHAT,
        default="",
        doc="Names of properties, separated by commas, that are columns of their own: STRING, null where a message has "
        "none of that name, after the other columns. Cheaper than the map. A schema of your own may name them too.",
    )
    sub_expression: str = option(
        "subExpression",
        EXPRESSION,
        section=Section.WHAT,
        essential=True,
        default="*",
        doc="Tags to read, such as `TagA || TagB`; `*` reads all. Filtered by the broker, checked again here.",
    )
    reads_retry_topic: bool = option(
        "retryTopic",
        BOOLEAN,
        section=Section.WHAT,
        default="false",
        doc="Whether the group's retry topic is read too: messages that were sent back (`rocketmq_spark.send_back`, or "
        "a Java consumer's failed ones) come again, with the topic and message id that they had. "
        "All members of a group must agree on it.",
    )
    starting_offsets: str | tuple[tuple[MessageQueue, int], ...] | None = option(
        "startingOffsets",
        STARTING_OFFSETS,
        section=Section.START,
        essential=True,
        doc="Where a topic begins of which neither the checkpoint nor the group has an offset: `earliest` is its first "
        "messages; `latest`, the default, is what is stored after the start, and from the first query progress on "
        "everything; JSON gives the offset of each queue, "
        '`{"orders":{"broker-a":{"0":23,"1":-2}}}` with -2 for its first message and -1 for its end, and queues that '
        "it does not name begin at their first message. Queues that a topic gains later always do.",
    )
    starting_timestamp_ms: int | None = option(
        "startingTimestamp",
        integer(0, 2**63 - 1),
        section=Section.START,
        doc="Instead of `startingOffsets`: each queue begins with its first message that was stored at this time or "
        "later, in epoch milliseconds, or at its end where there is none.",
    )
    consume_from_where: str | None = option(
        "consumeFromWhere",
        choice("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"),
        section=Section.START,
        doc="RocketMQ's name for the same: `CONSUME_FROM_LAST_OFFSET` is `startingOffsets` `latest`, "
        "`CONSUME_FROM_FIRST_OFFSET` is `earliest`, and `CONSUME_FROM_TIMESTAMP` is `startingTimestamp`, given there "
        "or as `consumeTimestamp`. Options that do not mean the same contradict each other.",
    )
    consume_timestamp_ms: int | None = option(
        "consumeTimestamp",
        LOCAL_TIME,
        section=Section.START,
        doc="RocketMQ's spelling of `startingTimestamp`: `yyyyMMddHHmmss` in the time zone of the driver.",
    )
    group_offsets: str = option(
        "groupOffsets",
        choice("resume", "ignore", "checkpoint"),
        section=Section.START,
        default="resume",
        doc="What a start makes of offsets that the group has already. `resume` goes on at the larger of the group's "
        "and the checkpoint's. The others move the group before anything is planned, also back, as an operator's reset "
        "would, and only while no other member is in it. `ignore` moves it for a new checkpoint to `startingOffsets` "
        "(`startingTimestamp`, `consumeFromWhere`), but for its retry topic; from the second batch on it does nothing. "
        "`checkpoint` moves it back to a checkpoint that it is ahead of, at each start: for one that was put back.",
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger",
        integer(1, 2**63 - 1),
        section=Section.SIZE,
        essential=True,
        doc="At most so many offsets in one micro-batch, shared among the queues in proportion to what waits in them.",
    )
    min_partitions: int | None = option(
        "minPartitions",
        integer(1),
        section=Section.SIZE,
        essential=True,
        doc="At least so many tasks in a micro-batch, if it has so many offsets. By default a task reads one queue, "
        "and short ranges of several queues, up to 10,000 offsets together, share one.",
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition",
        integer(1, 2**63 - 1),
        section=Section.SIZE,
        doc="Maximum number of offsets per task, exceeded where a micro-batch would have more than 20,000 tasks.",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        BOOLEAN,
        section=Section.ABSENCE,
        essential=True,
        default="true",
        doc="Whether the query fails when messages were deleted before it read them, or when its position means "
        "nothing any more: the topic was deleted and made anew. If false it logs the exact offsets and goes on.",
    )
    bad_messages: str = option(
        "badMessages",
        choice("fail", "null", "deadLetter"),
        section=Section.ABSENCE,
        default="fail",
        doc="What to do with undecodable messages: marked as compressed and damaged, or not compressed at all; a batch "
        "that is none, or has not as many messages as queue offsets; or with made-up flags of an IPv6 host. `fail` "
        "ends the query; `null` gives rows without body; `deadLetter` gives no rows and sends them, with their bodies "
        "as stored and the reason, to the group's dead letter topic, at least once. Each logs the queue, the offsets "
        "and the reason. A body counts only where the schema has it. May be changed with the checkpoint kept.",
    )
    missing_topic_timeout_ms: int = option(
        "missingTopicTimeoutMs",
        integer(0),
        section=Section.ABSENCE,
        default="60000",
        doc="How long a query waits for a topic that no name server knows, or topic or group that no proxy does. One "
        "that had a route is waited for as its brokers are (`clusterTimeoutMs`), or its queues (`missingQueues`).",
    )
    missing_queues: str = option(
        "missingQueues",
        choice("wait", "fail", "drop"),
        section=Section.ABSENCE,
        default="wait",
        doc="What to do while queues that the query has read are away: their broker is out of the route, they have no "
        "read permission, or the topic has fewer queues. `wait` goes on with the others, within a limit; `fail` ends "
        "the query at once; `drop` goes on for as long as it takes. Each keeps the positions, and reads on exactly "
        "there when the queues are back. A batch that is planned already is read in full; with `drop` too it waits.",
    )
    missing_queues_timeout_ms: int = option(
        "missingQueuesTimeoutMs",
        integer(0),
        section=Section.ABSENCE,
        default="300000",
        doc="How long `missingQueues` `wait` waits, from when the name servers no longer have a queue, and how long a "
        "batch does that is planned already. While they have it and its broker is silent, `clusterTimeoutMs` counts.",
    )

    skip_ranges: tuple[QueueRange, ...] = option(
        "skipRanges",
        RANGES,
        section=Section.ABSENCE,
        default="",
        doc="Ranges `topic@broker:id[from,to)`, separated by commas, that a restarted query is not to read: those of "
        "the batch that its checkpoint has logged, where their broker is gone for good. The error with which such a "
        "query ends names them as they are to be given here. It counts only for the batch that the restart reads "
        "again; a range that is not exactly one of its own is an error if they share offsets, and nothing otherwise. "
        "The messages are in no output, which one warning says. With `missingQueues` `drop` the query then goes on "
        "without the broker.",
    )

    log_level: str = option(
        "logLevel",
        choice("DEBUG", "INFO", "WARN", "ERROR"),
        section=Section.LOG,
        default="INFO",
        doc="Which of the connector's lines its Python processes write to standard error, where Spark shows them among "
        "its own; Spark's log level says nothing to them. `INFO`: who joins the group and where it begins, which "
        "queues come and go. `WARN`: only what is waited for and what is lost. `DEBUG`: every single failed request.",
    )

    @property
    def missing_queues_limit_ms(self) -> int:
        """How long a queue may be away that is waited for."""
        return 0 if self.missing_queues == "fail" else self.missing_queues_timeout_ms

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadOptions:
        """Options from what the user wrote; names in any case.

        Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | INCOMPATIBLE_OPTIONS].
        """
        return checked(cls(**parse_table(cls, given)), READ_NEEDS, READ_CONFLICTS)

    @property
    def ignores_group_offsets(self) -> bool:
        """Whether a new checkpoint moves the group to where the options say."""
        return self.group_offsets == "ignore"

    @property
    def begins_at_first(self) -> bool:
        """Whether a group without offsets begins at the first message of each queue."""
        return self.starting_offsets == "earliest" or self.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"

    @property
    def retry_topic(self) -> str:
        """The name of the group's retry topic, read or not."""
        return retry_topic(self.consumer_group)

    @property
    def read_topics(self) -> tuple[str, ...]:
        """``topics``, and the group's retry topic if that is read."""
        return tuple(dict.fromkeys((*self.topics, self.retry_topic))) if self.reads_retry_topic else self.topics

    def expression_of(self, topic: str) -> str:
        """What is read of a topic: all of the retry topic, because what was sent back has passed the filter before."""
        return "*" if topic == self.retry_topic else self.sub_expression
