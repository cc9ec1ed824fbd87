"""Topics of rows: what rows require of their topics, and TopicLookup, which checks the topics before a task sends to
them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue, TopicRoute
from rocketmq_spark.remoting.error_kinds import is_name_server_outage, is_unknown_broker
from rocketmq_spark.remoting.failures import Failures, Sleep
from rocketmq_spark.remoting.outage_log import topic_subject
from rocketmq_spark.remoting.retry import Retryability, retryability_of_write
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.sink.outgoing_rows import OutgoingRows, distinct_rows
from rocketmq_spark.sink.send_batches import RowTarget, named_queue, queue_by_hash, sharded_queues
from rocketmq_spark.wire.arrow.message_encoder import FALSE
from rocketmq_spark.wire.arrow.slices import Positions

_BLANK: Final = (
    r"^(?:[\x09-\x0d\x1c-\x20]|\xe1\x9a\x80|\xe2\x80[\x80-\x86\x88-\x8a\xa8\xa9]|\xe2\x81\x9f|\xe3\x80\x80)*$"
)
"""White space of Java's ``Character.isWhitespace``, in UTF-8. A broker discards messages of a compaction topic whose
keys have nothing else. Source: ``store/kv/CompactionLog.java#asyncPutMessage``."""


class TopicRequirement(NamedTuple):
    """A writable topic; with ``broker_name`` and ``queue_id`` one with that queue.

    Without ``has_keys``, the topic must also accept messages without keys.
    """

    topic: str
    broker_name: str | None = None
    queue_id: int | None = None
    has_keys: bool = False


class RowRequirements(NamedTuple):
    """Distinct ``requirements``, and for each row at ``positions`` the index of its requirement."""

    requirements: tuple[TopicRequirement, ...]
    positions: Positions
    requirement_indices: Positions

    def problems(self, topic_problems: Mapping[TopicRequirement, str]) -> dict[int, str]:
        """Return the problem of each row whose requirement is in ``topic_problems``, by the row's position; {} if none
        is."""
        problem_by_index = [topic_problems.get(one) for one in self.requirements]
        if not any(problem_by_index):
            return {}
        pairs = zip(self.positions.tolist(), self.requirement_indices.tolist(), strict=True)
        return {position: problem for position, index in pairs if (problem := problem_by_index[index]) is not None}


def requirements_of(rows: OutgoingRows, excluded: Iterable[int]) -> RowRequirements:
    """Return the distinct requirements, in no particular order, of the rows that are not at ``excluded`` positions:
    those have problems already."""
    positions = np.delete(np.arange(len(rows)), list(excluded))
    columns = [column.take(pa.array(positions)) for column in _columns(rows)]
    requirement_indices, firsts = distinct_rows(columns, len(positions))
    values = zip(*(column.take(pa.array(firsts)).to_pylist() for column in columns), strict=True)
    return RowRequirements(tuple(TopicRequirement(*one) for one in values), positions, requirement_indices)


def _columns(rows: OutgoingRows) -> tuple[pa.Array, ...]:
    """Return the fields of ``TopicRequirement``, in order, as arrays with one value per row: topics, broker names and
    queue IDs, null where none is given, and whether a row has keys that are not blank."""
    keys = rows.texts.get("KEYS")
    brokers = pa.nulls(len(rows), pa.string()) if rows.broker_names is None else rows.broker_names
    queue_ids = pa.nulls(len(rows), pa.int64()) if rows.queue_ids is None else rows.queue_ids
    has_keys = pa.repeat(pa.scalar(False), len(rows)) if keys is None else _are_not_blank(keys)
    return rows.topics, brokers, queue_ids, has_keys


def _are_not_blank(keys: pa.BinaryArray) -> pa.BooleanArray:
    """Return which keys Java does not regard as blank; false for null."""
    return pc.fill_null(pc.invert(pc.match_substring_regex(keys, _BLANK)), FALSE)


class TopicLookup:
    """Checks that the topics and queues of a task's rows exist, and selects queues for sharding keys. Requests each
    topic once per task, and waits for all missing topics together. Threads: the task's own.

    ``query_is_compacted``: returns whether a topic keeps only the last message of each key, as one of its brokers
    reports, or False without a report. It raises transient errors, for example if no broker can be reached.
    """

    def __init__(
        self,
        routes: RouteTable,
        failures: Failures,
        sleep: Sleep,
        query_is_compacted: Callable[[str], bool],
    ) -> None:
        self._routes = routes
        self._failures = failures
        self._sleep = sleep
        self._query_is_compacted = query_is_compacted
        self._compacted: dict[str, bool] = {}
        self._queues: dict[str, tuple[MessageQueue, ...]] = {}
        self._unknown_brokers: defaultdict[str, set[str]] = defaultdict(set)
        self._unavailable_topics: dict[str, RocketMQError] = {}

    def resolve_queue(self, target: RowTarget) -> MessageQueue | None:
        """Return the queue that ``target`` names, unchecked, or without it the queue that its sharding key selects.
        None: any queue of the topic. Keys select among the queues that the topic had when ``find_problems`` found it.
        Request nothing. KeyError for a sharding key of a topic that was not found."""
        if target.sharding_key is None or target.queue_id is not None:
            return named_queue(target)
        return queue_by_hash(target.sharding_key, self._queues[target.topic])

    def find_problems(
        self, requirements: Collection[TopicRequirement], *, first_only: bool = False
    ) -> dict[TopicRequirement, str]:
        """Look up the topics, and return each of ``requirements`` that is not met, with the reason as text; {} if all
        are met. ``first_only``: return with the first problem. Wait up to ``missingTopicTimeoutMs`` for a topic without
        a route or writable queue, and for a named broker that never had the topic. Later calls report these problems
        without waiting again. Do not wait for a named queue that the topic lacks, or for a compacted topic of rows
        without keys. A named broker that had the topic before is no problem: sending waits for it.

        Raises TransportError[CLUSTER_TIMEOUT] for a transient error that lasts longer than ``clusterTimeoutMs``, and
        permanent errors at once.
        """
        by_topic: defaultdict[str, list[TopicRequirement]] = defaultdict(list)
        for one in requirements:
            by_topic[one.topic].append(one)
        problems: dict[TopicRequirement, str] = {}
        lookups = self._failures.retry_each(by_topic, partial(self._resolve_all, by_topic), _subject_of, self._sleep)
        for final_errors, pending in lookups:
            for topic, error in final_errors.items():
                self._record_final(topic, error, by_topic[topic])
            problems = {one: problem for one in requirements if (problem := self._problem(one)) is not None}
            if first_only and problems:
                for topic in pending:
                    self._failures.record_success(*_subject_of(topic))
                break
        return problems

    def _record_final(self, topic: str, error: RocketMQError, requirements: Iterable[TopicRequirement]) -> None:
        """Record as a problem of ``requirements``, those of ``topic``, that it has been unavailable for its whole
        waiting time. Raises any other ``error``: TransportError[CLUSTER_TIMEOUT], and permanent errors."""
        if retryability_of_write(error) is not Retryability.UNAVAILABLE:
            raise error
        self._record_missing(topic, error, requirements)
        self._failures.record_success(*_subject_of(topic))

    def _resolve_all(
        self, by_topic: Mapping[str, Collection[TopicRequirement]], pending: Collection[str]
    ) -> dict[str, RocketMQError]:
        """Attempt once to resolve each topic of ``pending``, with its requirements in ``by_topic``. Return the error of
        each failed topic; {} if none failed. Invalidate its route if an outdated address may be the cause. If no name
        server responds, stop, and return this error for every topic that is not resolved."""
        failures: dict[str, RocketMQError] = {}
        resolved: set[str] = set()
        for topic in pending:
            try:
                self._resolve(topic, by_topic[topic])
            except RocketMQError as error:
                if is_name_server_outage(error):
                    return {one: error for one in pending if one not in resolved}
                self._routes.invalidate_on_error(topic, error)
                failures[topic] = error
            else:
                resolved.add(topic)
        return failures

    def _resolve(self, topic: str, requirements: Collection[TopicRequirement]) -> None:
        """Attempt once to resolve a topic: cache its queues and, if a requirement is without keys, whether it is
        compacted. If its route lacks a named broker or queue, request the route again. Do nothing if its waiting time
        has expired.

        Raises RouteError[UNKNOWN_BROKER] for a named broker that never had the topic, and the errors of
        ``RouteTable.route``, ``sharded_queues`` and ``query_is_compacted``.
        """
        if topic in self._unavailable_topics:
            return
        if topic not in self._queues:
            self._queues[topic] = sharded_queues(self._routes.route(topic))
        if topic not in self._compacted and not all(one.has_keys for one in requirements):
            self._compacted[topic] = self._query_is_compacted(topic)
        route = self._routes.cached_route(topic)
        if any(no_such_queue(one, route) for one in requirements) or self._brokers_without_route(topic, requirements):
            self._routes.route(topic, refresh=True)
        for broker in self._brokers_without_route(topic, requirements):
            raise RouteError("UNKNOWN_BROKER", topic=topic, broker=broker)

    def _brokers_without_route(self, topic: str, requirements: Iterable[TopicRequirement]) -> list[str]:
        """Return, ascending, the brokers to wait for: named in ``requirements``, and in no recorded route of the
        topic. Those of which ``_record_missing`` recorded that their waiting time has expired are omitted."""
        named = {one.broker_name for one in requirements if one.broker_name is not None}
        return sorted(named - self._routes.recorded_brokers(topic) - self._unknown_brokers[topic])

    def _record_missing(self, topic: str, error: RocketMQError, requirements: Iterable[TopicRequirement]) -> None:
        """Record that the waiting time has expired. If ``error`` is about an unknown broker, record as unknown the
        brokers in ``requirements`` that have never had the topic. Otherwise record the topic as unavailable."""
        if is_unknown_broker(error):
            self._unknown_brokers[topic].update(self._brokers_without_route(topic, requirements))
        else:
            self._unavailable_topics[topic] = error

    def _problem(self, requirement: TopicRequirement) -> str | None:
        """Return why ``requirement`` is not met, by what lookups have shown so far. None: it is met, or its topic is
        not resolved so far. Request nothing."""
        topic = requirement.topic
        if topic in self._unavailable_topics:
            return self._unavailable_topics[topic].summary
        if topic not in self._routes:
            return None
        route = self._routes.cached_route(topic)
        if requirement.broker_name in self._unknown_brokers[topic] - self._routes.recorded_brokers(topic):
            return no_such_broker(requirement, route)
        problem = no_such_queue(requirement, route)
        if problem is None and not requirement.has_keys and self._compacted.get(topic, False):
            return lost_without_keys(topic)
        return problem


def _subject_of(topic: str) -> tuple[str, str]:
    """Return the subject of a topic's failures, and the topic, whose route lookups need."""
    return topic_subject(topic), topic


def no_such_queue(requirement: TopicRequirement, route: TopicRoute) -> str | None:
    """Return the problem, as text, if the topic lacks the named queue at the named broker. Return None if it has the
    queue, if ``requirement`` names no queue, or if its broker is not in ``route``."""
    counts = [data.write_queue_count for data in route.queues if data.broker_name == requirement.broker_name]
    if requirement.queue_id is None or not counts or requirement.queue_id < counts[0]:
        return None
    available = f"there are: 0 to {counts[0] - 1}" if counts[0] else "there is none"
    where = f"at {requirement.broker_name!r} ({available})"
    return f"its topic {requirement.topic!r} has no queue {requirement.queue_id} {where}"


def no_such_broker(requirement: TopicRequirement, route: TopicRoute) -> str:
    """Return, as text with the brokers of ``route``, the problem of a row that names a broker without its topic."""
    brokers = ", ".join(sorted(data.broker_name for data in route.queues))
    return f"no broker {requirement.broker_name!r} serves its topic {requirement.topic!r} (there are: {brokers})"


def lost_without_keys(topic: str) -> str:
    """Return, as text, the problem of a row without keys for a compacted topic."""
    return f"it has no keys, and its topic {topic!r} keeps the last message of each key and no other (COMPACTION)"
