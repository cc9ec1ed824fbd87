"""Plan of a batch read: its ranges, requested once with retries, and kept on the driver's disk for the same DataFrame.

Spark 4.0 plans a Python source separately for each action, and for each occurrence of a DataFrame in a query. Spark 4.1
and newer plan it once for each ``load()``. The first planning of a ``load()`` stores its plan, and later ones read it,
so all of them end at the same offsets. The file is in a directory that Spark deletes when the application ends.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from rocketmq_spark.consumer.broker_identities import BrokerIdentities, check_bounds
from rocketmq_spark.consumer.subscribed_topics import warn_of_batch_queues
from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError
from rocketmq_spark.grouping import grouped
from rocketmq_spark.model import (
    UNFILTERED,
    BrokerAddress,
    MessageQueue,
    QueueBounds,
    QueueRange,
)
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.options.subscription import is_matched
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_topic_missing_at_broker, is_topic_without_route
from rocketmq_spark.remoting.failures import Failures, Sleep
from rocketmq_spark.remoting.outage_log import TOPIC_LIST, broker_subject, topic_subject
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.prober import Prober, ignore_reset
from rocketmq_spark.remoting.retry import request_policy
from rocketmq_spark.source.batch.batch_ranges import batch_ranges, end_of, start_of
from rocketmq_spark.source.early_times import warn_of_early_times

log = logging.getLogger(__name__)

T = TypeVar("T")

LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
"""Environment variable with the application's local directories, which Spark sets in its planner processes."""


def plan_of_load(options: BatchReadOptions, load_id: str) -> BatchPlan:
    """Return the plan of the ``load()`` with this ID. The first call requests routes and bounds over new connections,
    waits, and stores the plan on this machine. It logs a warning for times that are probably in seconds. Later calls
    read the stored plan, or plan again if it could not be stored or read. Raises the errors of
    ``QueueLookup.ranges``."""
    stored = StoredPlan(load_id)
    return stored.read() or stored.keep(_new_plan(options))


def _new_plan(options: BatchReadOptions) -> BatchPlan:
    """Request routes and bounds over new connections, wait, and return the plan, as ``plan_of_load`` describes."""
    warn_of_early_times(options)
    with closing(ConnectionPool(options.broker_timeout_ms, security=options.security)) as pool:
        lookup = QueueLookup(options, pool)
        ranges = lookup.ranges()
        return BatchPlan(ranges, lookup.masters({one.queue.broker_name for one in ranges}))


@dataclass(frozen=True)
class BatchPlan:
    """Non-empty ranges to read, and the addresses of their masters by broker name."""

    ranges: Sequence[QueueRange]
    masters: Mapping[str, BrokerAddress]

    def to_json(self) -> str:
        """Return the plan as JSON text, which ``from_json`` reads."""
        ranges = [
            (one.queue.topic, one.queue.broker_name, one.queue.queue_id, one.begin_offset, one.end_offset)
            for one in self.ranges
        ]
        masters = {name: (address.server, address.broker_name) for name, address in self.masters.items()}
        return json.dumps({"ranges": ranges, "masters": masters})

    @classmethod
    def from_json(cls, text: str) -> BatchPlan:
        """Return the plan that ``to_json`` returned as ``text``. Raises ValueError, TypeError or LookupError for other
        text, and for ranges that no queue has."""
        plan = json.loads(text)
        if not isinstance(plan["masters"], dict):
            raise TypeError(f"no object: {plan['masters']}")
        ranges = [
            QueueRange(MessageQueue(topic, broker_name, queue_id), begin_offset, end_offset)
            for topic, broker_name, queue_id, begin_offset, end_offset in plan["ranges"]
        ]
        for one in ranges:
            if not all(type(number) is int for number in (one.queue.queue_id, one.begin_offset, one.end_offset)):
                raise TypeError(f"no integers: {one}")
            if not 0 <= one.begin_offset < one.end_offset < 2**63:
                raise ValueError(f"no range of a queue: {one}")
        return cls(ranges, {name: BrokerAddress(*address) for name, address in plan["masters"].items()})


class StoredPlan:
    """File with the plan of one ``load()``, by its ID. Without a local directory there is none: ``read`` returns None,
    and ``keep`` stores nothing."""

    def __init__(self, load_id: str, environ: Mapping[str, str] = os.environ) -> None:
        folder = environ.get(LOCAL_DIRS, "").split(",")[0]
        self._file = Path(folder, f"rocketmq-plan-{load_id}.json") if folder else None

    def read(self) -> BatchPlan | None:
        """Return the stored plan, or None if there is none. If it cannot be read, log a warning and return None."""
        if self._file is None:
            return None
        try:
            return BatchPlan.from_json(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError) as error:
            _warn_of_unusable_file(error)
            return None

    def keep(self, plan: BatchPlan) -> BatchPlan:
        """Store ``plan`` and return it, or return the plan that a concurrent planning stored first. If none can be
        stored, log a warning and return ``plan``."""
        if self._file is None:
            return plan
        unfinished = self._file.with_suffix(f".{uuid4().hex}")
        try:
            unfinished.touch(mode=0o600)
            unfinished.write_text(plan.to_json(), encoding="utf-8")
            with suppress(FileExistsError):
                os.link(unfinished, self._file)
        except OSError as error:
            _warn_of_unusable_file(error)
            return plan
        finally:
            with suppress(OSError):
                unfinished.unlink()
        return self.read() or plan


def _warn_of_unusable_file(error: Exception) -> None:
    """Log a warning that the plan cannot be stored or read, because of ``error``."""
    log.warning(
        "PLAN_NOT_STORED: Cannot store the end offsets of this DataFrame. Further actions on it may read more messages "
        "than the first one: %s",
        error,
    )


class QueueLookup:
    """Lookup of the queues that ``options`` select, for the plan of a batch read. Not thread-safe.

    Methods that send requests raise permanent errors at once. They raise TransportError[CLUSTER_TIMEOUT] if servers are
    unresponsive for ``clusterTimeoutMs``. After ``missingTopicTimeoutMs`` they raise RouteError[TOPIC_NOT_FOUND |
    NO_MASTER_BROKER | TOPIC_UNAVAILABLE.NO_READABLE_QUEUE].
    """

    def __init__(self, options: BatchReadOptions, pool: ConnectionPool, sleep: Sleep = time.sleep) -> None:
        self._options = options
        self._prober = Prober(options.consumer_group, ignore_reset)
        self._client = ClusterClient.of(options, pool, self._prober)
        self._addresses: dict[str, BrokerAddress] = {}
        """Address at which each broker was called last, by its name."""
        self._registered: frozenset[str] = frozenset()
        """Names of the brokers that were registered when topics were listed."""
        # Bounds of queues that are not read may be impossible.
        self._identities = BrokerIdentities(self._client, self._addresses.get, check=lambda bounds: None)
        policy = request_policy(options.cluster_timeout_ms, options.missing_topic_timeout_ms)
        self._failures = Failures(policy, monotonic_ms)
        self._sleep = sleep

    def ranges(self) -> list[QueueRange]:
        """Request routes, bounds, and the offsets on which both ends depend; return the non-empty ranges to read.
        Raises OptionError[ASSIGNED_QUEUES_NOT_FOUND | LISTED_QUEUES_MISMATCH | COMMITTED_OFFSETS_NOT_FOUND |
        TIMESTAMP_NOT_MATCHED | OFFSETS_OUT_OF_RANGE | END_BEFORE_START] too."""
        bounds, start, end = self.query_selected_bounds(), start_of(self._options), end_of(self._options)
        start.check_listed(bounds.keys())
        end.check_listed(bounds.keys())
        of_group = dict.fromkeys([*start.group_queues(bounds), *end.group_queues(bounds)])
        committed = self.query_committed(self._options.given_group, of_group)
        starts, ends = (
            one.resolve(bounds, self.search_offsets(one.timestamps_ms(bounds)), committed) for one in (start, end)
        )
        return batch_ranges(bounds, (start, starts), (end, ends), fail_on_data_loss=self._options.fail_on_data_loss)

    def query_selected_bounds(self) -> dict[MessageQueue, QueueBounds]:
        """Request routes and bounds; return the bounds of the queues that ``options`` select: the queues of ``assign``,
        or all queues of the topics. Raises OptionError[ASSIGNED_QUEUES_NOT_FOUND], which lists the assigned queues that
        no route has as readable ones."""
        assigned = self._options.assigned
        queues = self.query_queues(self._options.listed_topics or self._query_matching_topics())
        if assigned is None:
            return self.query_bounds(queues)
        readable = set(queues)
        missing = [str(queue) for queue in assigned if queue not in readable]
        if missing:
            raise OptionError("ASSIGNED_QUEUES_NOT_FOUND", count=len(missing), queues=", ".join(missing))
        return self.query_bounds(assigned)

    def _query_matching_topics(self) -> list[str]:
        """Request the topics of users, with retries, and return, sorted by name, those that ``subscribePattern``
        matches as a whole, without retry and dead-letter topics. Log a warning if there are none."""
        pattern, name_servers = self._options.topic_pattern, self._client.name_servers
        listed = self._failures.retry_until_success(name_servers.query_topic_list, TOPIC_LIST, None, self._sleep)
        self._registered = listed.broker_names
        matching = sorted(topic for topic in listed.topics if pattern is not None and is_matched(pattern, topic))
        if not matching:
            log.warning("NO_TOPIC_MATCHES: No topic of the cluster matches 'subscribePattern'; the read has no rows")
        return matching

    def query_queues(self, topics: Iterable[str]) -> list[MessageQueue]:
        """Request the routes of ``topics``, with retries, and return all readable queues, in the order of ``topics``,
        then by broker and queue ID: see ``_readable_queues``."""
        return [
            queue
            for topic in topics
            for queue in self._retry(topic_subject(topic), topic, partial(self._readable_queues, topic))
        ]

    def query_bounds(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
        """Request the bounds of ``queues`` from their brokers, one topic and broker after another with retries, and
        return them in the order of ``queues``. Missing are queues of which ``_bounds_at`` returns none. With a filter,
        check it first: see ``_check_filter``."""
        found: dict[MessageQueue, QueueBounds] = {}
        for of_broker in _by_topic_and_broker(queues).values():
            self._check_filter(of_broker[0])
            found |= self._call(of_broker[0], partial(self._bounds_at, of_broker))
        return {queue: found[queue] for queue in queues if queue in found}

    def _check_filter(self, queue: MessageQueue) -> None:
        """Have the queue's broker compile a SQL92 filter, with retries, and wait. With any filter, request the topic's
        settings once, without raising an error, and log a warning for batch consume queues. Do nothing without a
        filter. Raises the errors of ``QueueLookup``; those of ``Broker.submit_filter_check`` are not retried."""
        group, message_filter = self._options.consumer_group, self._options.message_filter
        if message_filter.is_sql:
            self._call(queue, lambda broker: broker.submit_filter_check(group, queue.topic, message_filter).result())
        if message_filter != UNFILTERED:
            with suppress(RocketMQError):
                if self._client.call(queue, lambda broker: broker.query_topic_settings(queue.topic)).has_batch_queues:
                    warn_of_batch_queues(queue.topic)

    def _readable_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Request the route of ``topic`` once, without a retry, and return its readable queues; with
        ``subscribePattern``, () and a warning if the topic ``_is_deleted``. Raises the errors of ``RouteTable.route``;
        RouteError[TOPIC_UNAVAILABLE.NO_READABLE_QUEUE] for a route without any."""
        try:
            queues = self._client.routes.route(topic, refresh=True).read_queues()
        except RouteError as error:
            if self._options.topic_pattern is None or not is_topic_without_route(error) or not self._is_deleted(topic):
                raise
            log.warning("TOPIC_SKIPPED: Skipping topic=%s: a name server lists it, and none has a route of it", topic)
            return ()
        if not queues:
            raise RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic)
        return queues

    def _is_deleted(self, topic: str) -> bool:
        """Request topics and brokers of all name servers, wait, and return whether ``topic``, of which none has a route
        now, is deleted and not unavailable: all of them respond, and list the brokers of its previous routes and those
        that were registered when the topics were listed. Raises the errors of ``NameServers.query_topic_list``."""
        listed = self._client.name_servers.query_topic_list()
        expected = self._registered | self._client.routes.recorded_brokers(topic)
        return listed.is_complete and expected <= listed.broker_names

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return for each queue the first offset that was stored at its timestamp (epoch ms) or later, else its max
        offset. Request it broker by broker, with retries. Raises the errors of ``QueueLookup``."""
        found: dict[MessageQueue, int] = {}
        for of_broker in _by_topic_and_broker(timestamps_ms).values():
            requested = {queue: timestamps_ms[queue] for queue in of_broker}
            found |= self._call_verified(
                of_broker[0], partial(Broker.search_offsets, timestamps_ms=requested, prober=self._prober)
            )
        return found

    def query_committed(self, group: str | None, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Return the committed offset of ``group`` for each queue, or None without one. Request it broker by broker,
        with retries. ``group`` is None only without queues. Raises the errors of ``QueueLookup``."""
        found: dict[MessageQueue, int | None] = {}
        for of_broker in _by_topic_and_broker(queues).values():
            found |= self._call_verified(
                of_broker[0], partial(Broker.query_offsets, group=str(group), queues=of_broker)
            )
        return found

    def masters(self, broker_names: Collection[str]) -> dict[str, BrokerAddress]:
        """Return the addresses to pull from, by broker name, from the routes requested so far. Send nothing; omit
        brokers without an address."""
        masters = self._client.routes.pull_addresses(self._options.read_from)
        return {name: masters[name] for name in broker_names if name in masters}

    def _bounds_at(self, queues: Collection[MessageQueue], broker: Broker) -> dict[MessageQueue, QueueBounds]:
        """Request the bounds of ``queues``, all of one topic and broker, once, and return them; with
        ``subscribePattern``, {} and a warning if the broker does not have the topic, and bounds of another topic verify
        it. Raises RouteError[BROKER_ADDRESS_MISMATCH] if another broker responds,
        [TOPIC_UNAVAILABLE.NO_READABLE_QUEUE] if it does not have all of the queues,
        RemoteProtocolError[INVALID_QUEUE_OFFSETS] for impossible bounds of one."""
        first = next(iter(queues))
        self._addresses[first.broker_name] = broker.address
        try:
            held = self._identities.submit_bounds(broker, first.topic, first.broker_name).result()
        except BrokerError as error:
            if self._options.topic_pattern is None or not is_topic_missing_at_broker(error):
                raise
            self._identities.submit_check(broker, first.broker_name).result()
            log.warning(
                "TOPIC_SKIPPED: Skipping topic=%s at broker=%s: a name server has a route of it, and the broker does "
                "not have it",
                first.topic,
                first.broker_name,
            )
            return {}
        if not held.keys() >= set(queues):
            raise RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=first.topic)
        bounds = {queue: held[queue] for queue in queues}
        check_bounds(bounds)
        return bounds

    def _call(self, queue: MessageQueue, operation: Callable[[Broker], T]) -> T:
        """Call ``operation`` with the master of the queue's broker, with retries, and return its result."""
        return self._retry(broker_subject(queue.broker_name), queue.topic, lambda: self._client.call(queue, operation))

    def _call_verified(self, queue: MessageQueue, operation: Callable[[Broker], T]) -> T:
        """Do what ``_call`` does, over a connection that bounds with the broker's name have verified. The result itself
        has no broker name, and brokers may have exchanged their addresses since."""
        name = queue.broker_name

        def call(broker: Broker) -> T:
            """Return the result of ``operation``. Raises its errors, those of ``BrokerIdentities.submit_check``, and
            TransportError[CONNECTION_LOST] if another connection may have received the result."""
            self._addresses[name] = broker.address
            if not self._identities.is_verified(name):
                self._identities.submit_check(broker, name).result()
            result = operation(broker)
            self._identities.ensure_verified(name)
            return result

        return self._call(queue, call)

    def _retry(self, subject: str, topic: str, call: Callable[[], T]) -> T:
        """Repeat ``call``, with pauses, until it succeeds, and return its result. ``subject``: broker or topic whose
        failures are logged; ``topic``: the topic whose route ``call`` needs. Raises the errors of ``QueueLookup``."""
        return self._failures.retry_until_success(call, subject, topic, self._sleep)


def _by_topic_and_broker(queues: Collection[MessageQueue]) -> dict[tuple[str, str], list[MessageQueue]]:
    """Return ``queues`` by topic and broker name, in their order."""
    return grouped(queues, lambda queue: (queue.topic, queue.broker_name))
