"""Options of what a stream reads: topics or queues, filter and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rocketmq_spark.model import SQL92, TAG, UNFILTERED, MessageFilter, MessageQueue, is_of_group, retry_topic
from rocketmq_spark.options.group import GroupOptions
from rocketmq_spark.options.kinds import ASSIGNMENT, BOOLEAN, EXPRESSION, PROPERTIES, TOPIC_PATTERN, TOPICS, choice
from rocketmq_spark.options.read_rules import BROADCASTING
from rocketmq_spark.options.table import Section, option


@dataclass(frozen=True, kw_only=True)
class SubscriptionOptions(GroupOptions):
    """Options of a stream's subscribed topics or assigned queues, of their filter, and of the columns of their
    messages."""

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
        "not have that setting, or rejects the expression.",
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
        """Return ``listed_topics``, and the group's retry topic if it is read."""
        topics = self.listed_topics
        return tuple(dict.fromkeys((*topics, self.retry_topic))) if self.reads_retry_topic else topics

    @property
    def listed_topics(self) -> tuple[str, ...]:
        """Return the topics of ``subscribe`` or ``assign``; () with ``subscribePattern``."""
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
        """Return whether a queue of ``read_topics`` is one to read: all are, or with ``assign`` those that it lists."""
        return self.assigned is None or queue in self.assigned

    def reads_from(self, broker_name: str) -> bool:
        """Return whether queues of the broker may be read: with ``assign``, whether it lists one."""
        return self.assigned is None or any(queue.broker_name == broker_name for queue in self.assigned)

    @property
    def has_own_offsets(self) -> bool:
        """Return whether no other query uses the offsets of this one: in BROADCASTING, and without
        ``commitOffsets``."""
        return self.message_model == BROADCASTING or not self.commits_offsets

    @property
    def message_filter(self) -> MessageFilter:
        """Return the filter of ``listed_topics``."""
        return MessageFilter(self.sub_expression, self.expression_type)

    def filter_of(self, topic: str) -> MessageFilter:
        """Return the topic's filter: none for the retry topic, whose messages passed the filter before."""
        return UNFILTERED if topic == self.retry_topic else self.message_filter


def is_matched(pattern: re.Pattern[str], topic: str) -> bool:
    """Return whether ``pattern`` matches the whole name of a topic that is not a group's."""
    return not is_of_group(topic) and pattern.fullmatch(topic) is not None


def topics_of(queues: Iterable[MessageQueue]) -> tuple[str, ...]:
    """Return the topics of ``queues``, each once, in their order."""
    return tuple(dict.fromkeys(queue.topic for queue in queues))
