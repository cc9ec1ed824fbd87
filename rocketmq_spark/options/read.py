"""Options of a streaming read. Their dependencies and conflicts: ``read_rules``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocketmq_spark.model import QueueRange
from rocketmq_spark.options.kinds import (
    BOOLEAN,
    DURATION,
    LOCAL_TIME,
    RANGES,
    STARTING_OFFSETS,
    TIME,
    TIMES,
    choice,
    integer,
)
from rocketmq_spark.options.queue_positions import EARLIEST, QueuePositions
from rocketmq_spark.options.read_rules import READ_CONFLICTS, READ_DEPENDENCIES
from rocketmq_spark.options.subscription import SubscriptionOptions
from rocketmq_spark.options.table import Section, accepted_by, checked, option, parse_table


@accepted_by("spark.readStream")
@dataclass(frozen=True, kw_only=True)
class ReadOptions(SubscriptionOptions):
    """Options of ``spark.readStream.format("rocketmq")``. Attributes in ms end in ``_ms``; sizes are numbers of
    messages."""

    starting_offsets: QueuePositions | None = option(
        "startingOffsets",
        STARTING_OFFSETS,
        unset="`latest`; `earliest` in `spark.read`",
        section=Section.START,
        essential=True,
        doc="Start position for a topic that has no offset in the checkpoint and none in the consumer group; "
        "otherwise ignored. `latest`: messages stored after the query starts; from its first progress event "
        "on, no message is skipped. `earliest`: the oldest message of each queue. `group`: an error if the group has "
        "no committed offset, so that a wrong group name is noticed; `group:earliest` and `group:latest` are the same "
        "as `earliest` and `latest`. JSON: a position for each topic or queue, "
        '`{"orders":{"broker-a":{"0":23,"1":-2}},"returns":"latest"}`; -2 is earliest, -1 is latest, and queues that '
        "it omits start at earliest. Queues that are added to the topic later start at earliest. With "
        "`loadBalance=message` only `earliest` and `latest` are supported. `latest` is then approximate: a new group "
        "can start at the last stored message, or at a queue's first message if the broker has it in memory. "
        "`spark.read` accepts `earliest` and JSON that lists every queue. There `group` is the committed "
        "offset of `consumerGroup`, which is only read; for queues without one it is an error, or what follows the "
        "colon.",
    )
    starting_timestamp_ms: int | None = option(
        "startingTimestamp",
        TIME,
        section=Section.START,
        doc="Alternative to `startingOffsets`, as ISO-8601 with a zone, for example `2026-01-31T12:00:00Z` or "
        "`2026-01-31T13:00:00+01:00`, or in ms since 1970-01-01 UTC: each queue starts at its first message "
        "that was stored at this time or later. If it has none, see `startingOffsetsByTimestampStrategy`.",
    )
    starting_timestamps_ms: QueuePositions | None = option(
        "startingOffsetsByTimestamp",
        TIMES,
        section=Section.START,
        doc="Start position of each topic or queue, with times as in `startingTimestamp`: "
        '`{"orders":"2026-01-31T12:00:00Z","returns":{"broker-a":{"0":1767225600000}}}`. In a stream, queues that it '
        "omits start at earliest, and another start position is an error. In `spark.read` it must list every queue, "
        "takes precedence over `startingOffsets`, and `startingTimestamp` takes precedence over it.",
    )
    timestamp_strategy: str = option(
        "startingOffsetsByTimestampStrategy",
        choice("error", "latest"),
        section=Section.START,
        default="error",
        doc="What to do with queues that have no message at or after their time of `startingTimestamp` or "
        "`startingOffsetsByTimestamp`. `error` (default): fail with an error that lists them. `latest`: start at their "
        "end. Ending times are not affected: such a queue is read to its end.",
    )
    consume_from_where: str | None = option(
        "consumeFromWhere",
        choice("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"),
        section=Section.START,
        doc="RocketMQ's form of these options. `CONSUME_FROM_LAST_OFFSET`: same as `startingOffsets=latest`. "
        "`CONSUME_FROM_FIRST_OFFSET`: same as `startingOffsets=earliest`. `CONSUME_FROM_TIMESTAMP`: same as "
        "`startingTimestamp`; requires that option or `consumeTimestamp`. Options with different start positions are "
        "rejected.",
    )
    consume_timestamp_ms: int | None = option(
        "consumeTimestamp",
        LOCAL_TIME,
        section=Section.START,
        doc="RocketMQ's form of `startingTimestamp`: `yyyyMMddHHmmss` in the time zone of the driver.",
    )
    group_offsets: str = option(
        "groupOffsets",
        choice("resume", "ignore", "checkpoint"),
        section=Section.START,
        default="resume",
        doc="Use of the group's committed offsets when the query starts. `resume` (default): resume from the larger "
        "of the checkpoint offset and the group offset. `ignore`: on the first run with a new checkpoint, reset the "
        "group's offsets to the configured start position (`startingOffsets`, `startingTimestamp` or "
        "`consumeFromWhere`), forward or backward. The retry topic is not reset; from the second batch on the option "
        "has no effect. `checkpoint`: at every start, reset group offsets that are ahead of the checkpoint to its "
        "offsets; use it after you restore an older checkpoint. A reset requires that the query is the only member of "
        "the group.",
    )
    max_offsets_per_trigger: int | None = option(
        "maxOffsetsPerTrigger",
        integer(1, 2**63 - 1),
        section=Section.SIZE,
        unset="none; 10,000 with `loadBalance=message`",
        essential=True,
        doc="Maximum number of offsets per micro-batch, split across the queues in proportion to their backlog. "
        "With `loadBalance=message`: maximum number of messages. The query "
        "prefetches at most about 10,000 messages and 64 MiB, which also limits a batch.",
    )
    min_offsets_per_trigger: int | None = option(
        "minOffsetsPerTrigger",
        integer(1, 2**63 - 1),
        section=Section.SIZE,
        doc="Minimum number of offsets per micro-batch. While fewer are available in the queues of this query, no "
        "batch is planned, at most for `maxTriggerDelay` after the last batch. The first batch after a start is not "
        "delayed. With `availableNow` and `once` it has no effect.",
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger",
        integer(1, 2**63 - 1),
        section=Section.SIZE,
        doc="Soft maximum number of bytes per micro-batch, counted as the brokers store the messages (compressed "
        "bodies stay compressed). The offsets of a batch are estimated from the mean size of the messages that the "
        "query has read of each queue since its start, with a filter only of those that match; before that, and with "
        "`assign` always, from the first message of the queue in each batch. A batch has at least one offset. With "
        "`maxOffsetsPerTrigger`, the smaller limit applies. With `once` it has no effect on Spark 4.2 and newer. With "
        "`loadBalance=message`: "
        "maximum number of bytes, which only a single message can exceed. The query prefetches up to 64 MiB in any "
        "case.",
    )
    max_trigger_delay_ms: int = option(
        "maxTriggerDelay",
        DURATION,
        section=Section.SIZE,
        default="15m",
        doc="Maximum time from one micro-batch to the next while fewer than `minOffsetsPerTrigger` offsets, but at "
        "least one, are available: `30s`, `15m`, `2h`, or a number of ms.",
    )
    min_partitions: int | None = option(
        "minPartitions",
        integer(1),
        section=Section.SIZE,
        essential=True,
        doc="Minimum number of Spark tasks per micro-batch, if it has that many offsets; above 20,000 it counts as "
        "about 20,000. By default one task reads one queue, and short ranges of several queues, up to 10,000 offsets "
        "in total, share a task.",
    )
    max_records_per_partition: int | None = option(
        "maxRecordsPerPartition",
        integer(1, 2**63 - 1),
        section=Section.SIZE,
        unset="none; 2,000 with `loadBalance=message`",
        doc="Maximum number of offsets per Spark task. It is exceeded if a micro-batch would otherwise have more than "
        "20,000 tasks. With `loadBalance=message`: maximum number of messages per task, and 8 MiB in any case.",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        BOOLEAN,
        section=Section.DATA_LOSS,
        essential=True,
        default="true",
        doc="Whether to fail the query on data loss: messages were deleted before they were read, or the topic was "
        "deleted and re-created, so that the query's offsets are no longer valid. With `false`, the query logs the "
        "lost offset ranges and continues.",
    )
    bad_messages: str = option(
        "badMessages",
        choice("fail", "null", "deadLetter"),
        section=Section.DATA_LOSS,
        default="fail",
        doc="What to do with undecodable messages. Such a message is marked as compressed and is damaged or not "
        "compressed; is marked as a batch and is none, or has a number of messages that differs from its queue "
        "offsets; or has invalid IPv6 host flags. `fail`: fail the query. `null`: return the row with a null body. "
        "`deadLetter`: return no row, and send the message with its stored body and the reason to the group's "
        "dead-letter topic `%DLQ%<group>`, at least once. All values log the queue, the offsets and the reason. "
        "Bodies are checked only if the schema has the column `body`. You can change the value and keep the "
        "checkpoint.",
    )
    read_from: str = option(
        "readFrom",
        choice("master", "slave", "auto"),
        section=Section.DATA_LOSS,
        default="master",
        doc="Which server of a broker with replicas is read. `master` (default): its master; without one, its queues "
        "wait. `slave`: the slave with the lowest ID, or the master if the slave fails or the route has none. `auto`: "
        "the master, or the server that it suggests for messages that are no longer in memory; a slave if the master "
        "fails or the route has none. With `slave` and `auto`, a query whose master is missing or does not respond "
        "within `brokerTimeoutMs` continues with the messages of the slave. "
        "It commits offsets when there is a master again, and only a master's response shows a loss. An `availableNow` "
        "run and a graceful stop wait for that at most `clusterTimeoutMs` after their last batch. New queues, "
        "`consumeOrderly` and batch reads that are not planned yet wait for the master. Slaves require "
        "`slaveReadEnable=true`. You can change the value and keep the checkpoint.",
    )
    missing_topic_timeout_ms: int = option(
        "missingTopicTimeoutMs",
        integer(0),
        section=Section.DATA_LOSS,
        default="60000",
        doc="How long to wait, in ms, for a topic without a route, for a static topic, or for a topic or group that a "
        "proxy does not find; in queue mode also for a topic without a readable queue. For a topic that had a route "
        "before, `clusterTimeoutMs` or `missingQueues` applies instead.",
    )
    missing_queues: str = option(
        "missingQueues",
        choice("wait", "fail", "drop"),
        section=Section.DATA_LOSS,
        default="wait",
        doc="What to do if a queue that the query has read becomes unavailable: its broker is not in the route, it "
        "has no read permission, or the topic has fewer queues. `wait` (default): read the other queues; fail after "
        "`missingQueuesTimeoutMs`. `fail`: fail immediately. `drop`: read the other queues without a time limit. The "
        "queue's offset is kept in all cases, and reading resumes there. A batch that is already planned waits for "
        "all of its queues, also with `drop`.",
    )
    missing_queues_timeout_ms: int = option(
        "missingQueuesTimeoutMs",
        integer(0),
        section=Section.DATA_LOSS,
        default="300000",
        doc="How long to wait, in ms, for a queue that is no longer in the route: with `missingQueues=wait`, and for "
        "batches that are already planned. If the route still has the queue and its broker does not respond, "
        "`clusterTimeoutMs` applies instead.",
    )

    skip_ranges: tuple[QueueRange, ...] = option(
        "skipRanges",
        RANGES,
        section=Section.DATA_LOSS,
        default="",
        doc="Offset ranges to skip when a restarted query replays the last batch in its checkpoint, for a broker that "
        "is permanently lost. Format: `topic@broker:queueId[from,to)`, separated by commas; copy the value from the "
        "error with which the query failed. A range that overlaps the replayed batch and is not exactly one of its "
        "ranges is an error; other ranges are ignored. The skipped messages appear in no output; one warning lists "
        "them. To continue without the broker, also set `missingQueues=drop`.",
    )

    log_level: str = option(
        "logLevel",
        choice("DEBUG", "INFO", "WARN", "ERROR"),
        section=Section.LOG,
        default="INFO",
        doc="Log level of the connector's Python processes, which log to standard error; Spark's log level does not "
        "apply to them. `ERROR`: nothing, unless a thread of the connector fails. `WARN`: outages, data loss, and "
        "options without effect. `INFO` (default): also group membership, assigned queues, and start positions. "
        "`DEBUG`: also every failed request.",
    )

    @property
    def missing_queues_limit_ms(self) -> int:
        """Return the maximum wait for an unavailable queue, in ms: ``missingQueuesTimeoutMs``; 0 with
        ``missingQueues=fail``."""
        return 0 if self.missing_queues == "fail" else self.missing_queues_timeout_ms

    @classmethod
    def parse(cls, configured: Mapping[str, str]) -> ReadOptions:
        """Parse the options of a query; names in any case.

        Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | TIME_WITHOUT_ZONE |
        INCOMPATIBLE_OPTIONS | OPTION_REQUIRES_OPTION].
        """
        return checked(cls(**parse_table(cls, configured)), READ_DEPENDENCIES, READ_CONFLICTS)

    @property
    def replays_batches(self) -> bool:
        """Return True. A restarted query replays the last batch of its checkpoint."""
        return True

    @property
    def ignores_group_offsets(self) -> bool:
        """Return whether a new checkpoint resets the group's offsets to the start position."""
        return self.group_offsets == "ignore"

    @property
    def requires_match(self) -> bool:
        """Return whether queues without a message at or after their start time are an error: with ``startingTimestamp``
        or ``startingOffsetsByTimestamp``, unless their strategy is ``latest``. RocketMQ's ``consumeTimestamp`` alone is
        False: such queues start at their end."""
        has_times = self.starting_timestamp_ms is not None or self.starting_timestamps_ms is not None
        return has_times and self.timestamp_strategy == "error"

    @property
    def starts_at_earliest(self) -> bool:
        """Return whether a group without offsets starts at the first message of each queue:
        ``startingOffsets=earliest`` or ``consumeFromWhere=CONSUME_FROM_FIRST_OFFSET``."""
        return (
            self.starting_offsets == QueuePositions(EARLIEST) or self.consume_from_where == "CONSUME_FROM_FIRST_OFFSET"
        )
