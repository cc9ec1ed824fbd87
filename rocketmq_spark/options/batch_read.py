"""Options of a batch read: rows of a streaming read that apply to both, and the ends of the ranges to read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from rocketmq_spark.model import TOOLS_GROUP, MessageFilter, MessageQueue
from rocketmq_spark.options.connection import CONNECTION_CONFLICTS, CONNECTION_DEPENDENCIES, ConnectionOptions
from rocketmq_spark.options.kinds import END_POSITIONS, START_POSITIONS, TIMES, choice
from rocketmq_spark.options.queue_positions import QueuePositions
from rocketmq_spark.options.read import ReadOptions
from rocketmq_spark.options.read_rules import FILTER_RULES, TIME_STRATEGY_DEPENDENCY, TOPIC_CONFLICTS
from rocketmq_spark.options.subscription import topics_of
from rocketmq_spark.options.table import (
    Conflict,
    Dependency,
    Section,
    accepted_by,
    checked,
    option,
    parse_table,
    row_of,
)


@accepted_by("spark.read")
@dataclass(frozen=True, kw_only=True)
class BatchReadOptions(ConnectionOptions):
    """Options of ``spark.read.format("rocketmq")``, which joins no group and commits no offsets."""

    given_group: str | None = row_of(ReadOptions, "consumerGroup", required=False)
    topics: tuple[str, ...] = row_of(ReadOptions, "subscribe")
    topic_pattern: re.Pattern[str] | None = row_of(ReadOptions, "subscribePattern")
    assigned: tuple[MessageQueue, ...] | None = row_of(ReadOptions, "assign")
    include_properties: bool = row_of(ReadOptions, "includeProperties")
    property_columns: tuple[str, ...] = row_of(ReadOptions, "propertyColumns")
    sub_expression: str = row_of(ReadOptions, "subExpression")
    expression_type: str = row_of(ReadOptions, "expressionType")
    starting_offsets: QueuePositions = row_of(ReadOptions, "startingOffsets", kind=START_POSITIONS, default="earliest")
    starting_timestamp_ms: int | None = row_of(ReadOptions, "startingTimestamp")
    starting_timestamps_ms: QueuePositions | None = row_of(ReadOptions, "startingOffsetsByTimestamp")
    timestamp_strategy: str = row_of(ReadOptions, "startingOffsetsByTimestampStrategy")
    ending_offsets: QueuePositions = option(
        "endingOffsets",
        END_POSITIONS,
        section=Section.START,
        default="latest",
        doc="End position of a batch read, exclusive. `latest` (default): the end of each queue when the read is "
        "planned. `group`, `group:earliest` or `group:latest`: the committed offsets of `consumerGroup`, as in "
        "`startingOffsets`. JSON: by topic and queue, where -1 is latest. It must list every queue.",
    )
    ending_timestamp_ms: int | None = row_of(
        ReadOptions,
        "startingTimestamp",
        name="endingTimestamp",
        doc="Alternative to `endingOffsets`, a time as in `startingTimestamp`: each queue ends before its first "
        "message that was stored at this time or later, or at its end if it has none. Takes precedence over "
        "`endingOffsetsByTimestamp` and `endingOffsets`.",
    )
    ending_timestamps_ms: QueuePositions | None = option(
        "endingOffsetsByTimestamp",
        TIMES,
        section=Section.START,
        doc="End position of each topic or queue of a batch read, with times as in `startingTimestamp`, as with "
        "`endingTimestamp`. Takes precedence over `endingOffsets`.",
    )
    min_partitions: int | None = row_of(ReadOptions, "minPartitions")
    max_records_per_partition: int | None = row_of(ReadOptions, "maxRecordsPerPartition")
    fail_on_data_loss: bool = row_of(ReadOptions, "failOnDataLoss")
    bad_messages: str = row_of(ReadOptions, "badMessages", kind=choice("fail", "null"))
    read_from: str = row_of(ReadOptions, "readFrom")
    missing_topic_timeout_ms: int = row_of(ReadOptions, "missingTopicTimeoutMs")
    missing_queues_timeout_ms: int = row_of(ReadOptions, "missingQueuesTimeoutMs")
    log_level: str = row_of(ReadOptions, "logLevel")

    @classmethod
    def parse(cls, configured: Mapping[str, str]) -> BatchReadOptions:
        """Parse the options of a batch read; names in any case.

        Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | TIME_WITHOUT_ZONE |
        INCOMPATIBLE_OPTIONS | OPTION_REQUIRES_OPTION].
        """
        return checked(cls(**parse_table(cls, configured)), BATCH_READ_DEPENDENCIES, BATCH_READ_CONFLICTS)

    @property
    def listed_topics(self) -> tuple[str, ...]:
        """Return the topics of ``subscribe`` or ``assign``, each once, in their order; () with ``subscribePattern``."""
        return self.topics or topics_of(self.assigned or ())

    @property
    def shown_topics(self) -> str:
        """Return the topics for log lines: the pattern, or the names joined by commas."""
        return ",".join(self.listed_topics) if self.topic_pattern is None else self.topic_pattern.pattern

    @property
    def consumer_group(self) -> str:
        """Return the group in whose name messages are pulled: ``consumerGroup`` if it and ``accessKey`` are set, else
        TOOLS_GROUP. Pulls in the name of a group would consume an operator's offset reset."""
        return TOOLS_GROUP if self.given_group is None or self.access_key is None else self.given_group

    @property
    def uses_group_offsets(self) -> bool:
        """Return whether a start or end position is the group's committed offset."""
        return self.starting_offsets.uses_group or self.ending_offsets.uses_group

    @property
    def retry_topic(self) -> None:
        """Return None. A subscribed retry topic is read as any other topic."""

    @property
    def missing_queues_limit_ms(self) -> int:
        """Return the maximum wait for an unavailable queue, in ms."""
        return self.missing_queues_timeout_ms

    @property
    def replays_batches(self) -> bool:
        """Return False. A batch read has no checkpoint."""
        return False

    @property
    def message_filter(self) -> MessageFilter:
        """Return the filter of all topics."""
        return MessageFilter(self.sub_expression, self.expression_type)

    def filter_of(self, _topic: str) -> MessageFilter:
        """Return ``message_filter``, whatever the topic is."""
        return self.message_filter


def _lacks_group(attribute: str, options: Any) -> bool:
    """Return whether the positions in ``attribute`` use a group's committed offsets, and ``consumerGroup`` is not
    set."""
    return getattr(options, attribute).uses_group and options.given_group is None


BATCH_READ_DEPENDENCIES: Final = (
    *CONNECTION_DEPENDENCIES,
    *FILTER_RULES,
    TIME_STRATEGY_DEPENDENCY,
    *(
        Dependency(name, "consumerGroup", partial(_lacks_group, attribute), "'group' is its committed offset.")
        for name, attribute in (("startingOffsets", "starting_offsets"), ("endingOffsets", "ending_offsets"))
    ),
    Dependency(
        "consumerGroup",
        "accessKey",
        lambda options: (
            options.given_group is not None and options.access_key is None and not options.uses_group_offsets
        ),
        "A batch read joins no group and commits no offsets. It uses 'consumerGroup' only with 'group' in "
        "'startingOffsets' or 'endingOffsets', and with credentials: brokers check the permissions of that group.",
    ),
)
"""Checked in this order."""

BATCH_READ_CONFLICTS: Final = (
    *CONNECTION_CONFLICTS,
    *TOPIC_CONFLICTS,
    Conflict(
        "startingTimestamp",
        "endingTimestamp",
        lambda options: (
            options.starting_timestamp_ms is not None
            and options.ending_timestamp_ms is not None
            and options.starting_timestamp_ms > options.ending_timestamp_ms
        ),
        "The end is before the start.",
    ),
)
