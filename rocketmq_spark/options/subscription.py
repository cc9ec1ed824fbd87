"""Options of a stream's subscription: its consumer group, and its topics or queues, filter and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rocketmq_spark.model import SQL92, TAG, UNFILTERED, MessageFilter, MessageQueue, is_of_group, retry_topic
from rocketmq_spark.options.kinds import (
    ASSIGNMENT,
    BOOLEAN,
    EXPRESSION,
    GROUP,
    INSTANCE,
    NAMES,
    PROPERTIES,
    QUEUES,
    STRATEGY,
    TEXT,
    TOPIC_PATTERN,
    TOPICS,
    choice,
    integer,
)
from rocketmq_spark.options.read_rules import BROADCASTING
from rocketmq_spark.options.receive import ReceiveOptions
from rocketmq_spark.options.table import Section, option


@dataclass(frozen=True, kw_only=True)
class SubscriptionOptions(ReceiveOptions):
    """Options of a stream's consumer group, the allocation of its queues, its topics or assigned queues, their filter,
    and the columns of their messages."""

    consumer_group: str = option(
        "consumerGroup",
        GROUP,
        section=Section.GROUP,
        essential=True,
        required=True,
        doc="Consumer group of the query. With `loadBalance=queue` the query joins the group as one member, which "
        "RocketMQ's admin tools list. The group's committed offsets show its progress, except with "
        "`messageModel=BROADCASTING`. `spark.read` joins no group and commits no offsets. It accepts the option "
        "for two purposes: for `group` in `startingOffsets` or `endingOffsets`, and, if `accessKey` is set, to pull "
        "with the permissions of that group instead of `TOOLS_CONSUMER`. "
        "With `view`, it is the group that the view shows.",
    )
    instance_name: str | None = option(
        "instanceName",
        INSTANCE,
        section=Section.GROUP,
        doc="Part of the client ID after `@`. By default each start of the query generates a new one. With a fixed "
        "name, a restarted query is the same member again. Two running queries must not use the same name.",
    )
    allocate_strategy: str = option(
        "allocateStrategy",
        STRATEGY,
        section=Section.GROUP,
        default="AVG",
        doc="How queues are allocated to the members of the group. RocketMQ's strategies give the same result as the "
        "Java client: `AVG`, `AVG_BY_CIRCLE`, `CONSISTENT_HASH`, `CONFIG`, `MACHINE_ROOM`, "
        "`MACHINE_ROOM_NEARBY-<name>` (`<name>` is the strategy within a room). `AVG_ALL_TOPICS` allocates the queues "
        "of all topics together; use it only in groups without Java members. `module:Class` is the import path of "
        "your own class. All members must use the same strategy.",
    )
    message_queue_list: tuple[MessageQueue, ...] = option(
        "messageQueueList",
        QUEUES,
        section=Section.GROUP,
        default="",
        doc="Applies to `allocateStrategy=CONFIG`: the queues of this member, separated by commas.",
    )
    consumer_idcs: tuple[str, ...] = option(
        "consumeridcs",
        NAMES,
        section=Section.GROUP,
        default="",
        doc="Applies to `allocateStrategy=MACHINE_ROOM`: the machine rooms to read, separated by commas. The names of "
        "their brokers are `room@name`.",
    )
    machine_room_resolver: str = option(
        "machineRoomResolver",
        TEXT,
        section=Section.GROUP,
        default="",
        doc="Applies to `allocateStrategy=MACHINE_ROOM_NEARBY-<name>`: import path `module:Class` of a resolver that "
        "maps brokers and client IDs to machine rooms.",
    )
    consume_orderly: bool = option(
        "consumeOrderly",
        BOOLEAN,
        section=Section.GROUP,
        essential=True,
        default="false",
        doc="Whether to lock each queue at its broker while this query reads it, as RocketMQ's orderly consumers do. "
        "A queue is then reassigned only between micro-batches, and two members never read it at the same time.",
    )
    message_model: str = option(
        "messageModel",
        choice("CLUSTERING", BROADCASTING),
        section=Section.GROUP,
        default="CLUSTERING",
        doc="`CLUSTERING`: the queues are divided among the members of the group. `BROADCASTING`: this query reads "
        "all queues, independently of other members, and commits no offsets to the brokers. It resumes from its "
        "checkpoint or, without one, from a local offset file; `instanceName` names that file.",
    )
    local_offset_store_dir: str | None = option(
        "localOffsetStoreDir",
        TEXT,
        unset="`.rocketmq_offsets` in the home directory, as in RocketMQ",
        section=Section.GROUP,
        doc="Applies to `messageModel=BROADCASTING`: directory of the local offset files on the driver's machine.",
    )
    rebalance_interval_ms: int = option(
        "rebalanceIntervalMs",
        integer(1_000, 600_000),
        section=Section.GROUP,
        default="20000",
        doc="Interval of rebalances in ms, and with `subscribePattern` also of topic lists. A broker's notification of "
        "a membership change triggers a rebalance at once.",
    )
    persist_offset_interval_ms: int = option(
        "persistOffsetIntervalMs",
        integer(100, 600_000),
        section=Section.GROUP,
        default="5000",
        doc="Retry interval, in ms, for offset commits that a broker has not acknowledged.",
    )

    topics: tuple[str, ...] = option(
        "subscribe",
        TOPICS,
        section=Section.SUBSCRIPTION,
        essential=True,
        aliases=("topic",),
        required=True,
        alternatives=("subscribePattern", "assign"),
        doc="Topics to read, separated by commas: `orders,returns`. All members of a group must subscribe to the same "
        "topics.",
    )
    topic_pattern: re.Pattern[str] | None = option(
        "subscribePattern",
        TOPIC_PATTERN,
        section=Section.SUBSCRIPTION,
        doc="Alternative to `subscribe`: a regular expression of Python that matches the whole name of each topic to "
        "read. Topics are those that any name server lists, without RocketMQ's system topics, retry topics "
        "(`%RETRY%...`) and dead-letter topics (`%DLQ%...`), which only `subscribe`, `assign` and `retryTopic` read. A "
        "stream lists them when it starts and every `rebalanceIntervalMs`, and reads a topic that appears later from "
        "its first message, whatever the start position is. It no longer reads a deleted topic, and keeps its offsets. "
        "While no topic matches, it waits for one. All members of a group must use the same pattern. `spark.read` "
        "lists the topics when the read is planned; if none matches, it has no rows.",
    )
    assigned: tuple[MessageQueue, ...] | None = option(
        "assign",
        ASSIGNMENT,
        section=Section.SUBSCRIPTION,
        doc="Alternative to `subscribe`: the queues to read, as JSON by topic and broker, "
        '`{"orders":{"broker-a":[0,1]}}`. A stream then joins no group: its queues are not balanced or locked, and no '
        "other queue is read, also if the topic gets more. It resumes from the larger of checkpoint and group offset, "
        "so no two queries may read a queue in the name of one group. A queue that does not exist when the query "
        "starts is an error before any task runs; later, `missingQueues` applies.",
    )
    commits_offsets: bool = option(
        "commitOffsets",
        BOOLEAN,
        section=Section.SUBSCRIPTION,
        default="true",
        doc="Applies to `assign`: whether the query commits its progress to the group, for operators' tools. With "
        "`false` it neither reads nor writes the group's offsets: it resumes from its checkpoint, or without one from "
        "its start position.",
    )
    include_properties: bool = option(
        "includeProperties",
        BOOLEAN,
        section=Section.SUBSCRIPTION,
        default="false",
        doc="Whether rows have the column `properties`, a map of all properties of the message. The map is costly: "
        "for a million rows Spark's JVM needs 1.04 s instead of 0.61 s. A user-specified schema can name the column "
        "without this option.",
    )
    property_columns: tuple[str, ...] = option(
        "propertyColumns",
        PROPERTIES,
        section=Section.SUBSCRIPTION,
        default="",
        doc="Names of message properties, separated by commas, to read as columns of type STRING after the other "
        "columns. A column is null if the message does not have the property. These columns cost less than the map of "
        "`includeProperties`. A user-specified schema has only those of them that it names.",
    )
    sub_expression: str = option(
        "subExpression",
        EXPRESSION,
        section=Section.SUBSCRIPTION,
        essential=True,
        default="*",
        doc="Filter by tags, for example `TagA || TagB`; `*` reads all messages. The broker filters by the tags' hash "
        "codes, the connector by their text. With `expressionType=SQL92`: a SQL92 expression over message properties, "
        "for example `region = 'north' AND price > 5`, by which the broker filters.",
    )
    expression_type: str = option(
        "expressionType",
        choice(TAG, SQL92),
        section=Section.SUBSCRIPTION,
        default=TAG,
        doc="Type of `subExpression`: `TAG` (default), tags, or `SQL92`, an expression over properties. `SQL92` needs "
        "`enablePropertyFilter=true` on every broker of the topics. The query fails before it reads if a broker does "
        "not have that setting, or rejects the expression. Over `endpoints` the setting is not checked.",
    )
    reads_retry_topic: bool = option(
        "retryTopic",
        BOOLEAN,
        section=Section.SUBSCRIPTION,
        default="false",
        doc="Whether to read the group's retry topic `%RETRY%<group>` too. It has the messages that "
        "`rocketmq_spark.send_back` or Java consumers sent back for retry. Their rows have the original topic and "
        "message ID, but the queue and offset of the retry topic: topic, queue and offset do not identify a message "
        "then. All members of a group must use the same value.",
    )

    @property
    def retry_topic(self) -> str:
        """Return the name of the group's retry topic, read or not."""
        return retry_topic(self.consumer_group)

    @property
    def read_topics(self) -> tuple[str, ...]:
        """Return ``listed_topics``, then the group's retry topic if it is read and not listed."""
        topics = self.listed_topics
        return tuple(dict.fromkeys((*topics, self.retry_topic))) if self.reads_retry_topic else topics

    @property
    def listed_topics(self) -> tuple[str, ...]:
        """Return the topics of ``subscribe`` or ``assign``, each once, in their order; () with ``subscribePattern``."""
        return self.topics or topics_of(self.assigned or ())

    @property
    def shown_topics(self) -> str:
        """Return the topics for log lines: the pattern, or the names joined by commas; then the retry topic if it is
        read."""
        names = ",".join(self.read_topics)
        return names if self.topic_pattern is None else ",".join(filter(None, (self.topic_pattern.pattern, names)))

    def selects(self, topic: str) -> bool:
        """Return whether ``subscribe``, ``subscribePattern`` or ``assign`` selects ``topic``. The pattern selects no
        retry or dead-letter topics; ``retryTopic`` does not count."""
        if self.topic_pattern is None:
            return topic in self.listed_topics
        return is_matched(self.topic_pattern, topic)

    def reads(self, queue: MessageQueue) -> bool:
        """Return whether to read a queue of ``read_topics``: every queue, or with ``assign`` each listed one."""
        return self.assigned is None or queue in self.assigned

    def reads_from(self, broker_name: str) -> bool:
        """Return whether queues of the broker may be read: True, or with ``assign`` whether it lists one."""
        return self.assigned is None or any(queue.broker_name == broker_name for queue in self.assigned)

    @property
    def has_own_offsets(self) -> bool:
        """Return whether no other query uses the offsets of this one: in BROADCASTING, or without ``commitOffsets``."""
        return self.message_model == BROADCASTING or not self.commits_offsets

    @property
    def message_filter(self) -> MessageFilter:
        """Return the filter of ``listed_topics``."""
        return MessageFilter(self.sub_expression, self.expression_type)

    def filter_of(self, topic: str) -> MessageFilter:
        """Return the filter of all topics; for the retry topic UNFILTERED: its messages passed the filter before."""
        return UNFILTERED if topic == self.retry_topic else self.message_filter


def is_matched(pattern: re.Pattern[str], topic: str) -> bool:
    """Return whether ``pattern`` matches the whole name of the topic. False for retry and dead-letter topics."""
    return not is_of_group(topic) and pattern.fullmatch(topic) is not None


def topics_of(queues: Iterable[MessageQueue]) -> tuple[str, ...]:
    """Return the topics of ``queues``, each once, in the order of their first queues."""
    return tuple(dict.fromkeys(queue.topic for queue in queues))
