"""OutageAwareClient: requests to name servers and brokers. The only place where a failed request becomes an outage.

Results omit unresponsive servers, which later calls try again. This module decides nothing about queues or offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from rocketmq_spark.consumer.broker_identities import BrokerIdentities
from rocketmq_spark.consumer.cluster_api import BrokerApi, ClusterApi, Future, Link
from rocketmq_spark.consumer.heartbeats import Heartbeats
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.slave_reads import SlaveReads
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.consumer.topic_routes import TopicRoutes
from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.grouping import grouped
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.error_kinds import is_broker_error, is_topic_missing_at_broker, is_unanswered
from rocketmq_spark.remoting.outage_log import broker_subject
from rocketmq_spark.remoting.prober import OnReset, ignore_reset, prober_of
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request

log = logging.getLogger(__name__)

OFFSET_DELETION_VERSION: Final = 441
"""V5_1_4, the oldest version on which brokers were seen to delete offsets with their topic. Source:
``common/MQVersion.java``."""

T = TypeVar("T")
K = TypeVar("K")
P = ParamSpec("P")

_Probe: TypeAlias = Callable[[BrokerApi, Mapping[MessageQueue, int]], dict[MessageQueue, int | None]]
"""Probes one message of each queue, by offset, at the queues' broker. None: there is none."""


class OutageAwareClient:
    """Requests of one member to the servers of the subscribed topics. Its parts call it. Not thread-safe.

    Public methods raise permanent errors at once. A transient failure is recorded as the server's outage, not raised,
    and the server's results are missing. ``OutageTracker.raise_expired`` raises outages that last too long.
    """

    def __init__(
        self,
        options: ReadOptions,
        cluster: ClusterApi,
        topics: SubscribedTopics,
        outage_tracker: OutageTracker,
        on_reset: OnReset = ignore_reset,
    ) -> None:
        """Send nothing. ``on_reset``: see ``prober_of``; called with operators' resets that message probes receive."""
        self.routes: Final = cluster.routes
        self.topics: Final = topics
        self.outage_tracker: Final = outage_tracker
        self._options = options
        self._cluster = cluster
        self._prober = prober_of(options, on_reset)
        self.slave_reads: Final = SlaveReads(options, self.routes, outage_tracker)
        self.topic_routes: Final = TopicRoutes(options, cluster, topics, self.slave_reads, outage_tracker)
        self._identities = BrokerIdentities(cluster, self.slave_reads.address)

    # ------------------------------------------------------------------------------------------ requests

    def call(
        self, broker_name: str, call: Callable[Concatenate[BrokerApi, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Verify the broker's identity, if its connection is new, send a blocking request to it, and return the
        response. Return None if no route has its master, the broker is unresponsive or not verified, its pause after a
        failure is not over, or the connection was lost. Transient failures are its outage; other errors are raised."""
        return self._call(broker_name, lambda broker: call(broker, *args, **kwargs), of_slaves=False)

    def _call(self, broker_name: str, call: Callable[[BrokerApi], T], *, of_slaves: bool) -> T | None:
        """Return the response or None as ``call`` does. ``of_slaves``: while the master is missing or unresponsive,
        call a slave, if ``readFrom`` allows slaves."""
        address = (self.slave_reads.address if of_slaves else self.slave_reads.master)(broker_name)
        if address is None or not self.outage_tracker.may_call(broker_name) or not self._verify_brokers([broker_name]):
            return None
        try:
            response = call(self._cluster.broker(address))
            self._identities.ensure_verified(broker_name)
        except RocketMQError as error:
            if retryability_of_request(error) is not Retryability.TRANSIENT:
                raise
            self._record_failure(broker_name, error)
            return None
        self.outage_tracker.record_success(broker_subject(broker_name))
        return response

    def _verify_brokers(self, broker_names: Iterable[str]) -> list[str]:
        """Verify the ``broker_names`` whose connections are not verified, concurrently, and wait. Return all names that
        are verified then, in order. Permanent errors are raised."""
        names = list(broker_names)
        self.call_concurrently(
            {name: name for name in names if not self._identities.is_verified(name)},
            self._identities.submit_check,
            of_slaves=True,
        )
        return [name for name in names if self._identities.is_verified(name)]

    def call_sequentially(
        self, queues: Iterable[MessageQueue], call: Callable[[BrokerApi, Collection[MessageQueue]], T]
    ) -> Iterator[T]:
        """Call the broker of each of ``queues``, or its slave, with its queues, one after another during iteration.
        Yield the responses, except None. Unresponsive brokers are skipped. Permanent errors are raised."""
        for broker_name, of_broker in grouped(queues, lambda queue: queue.broker_name).items():
            response = self._call(broker_name, partial(lambda of, broker: call(broker, of), of_broker), of_slaves=True)
            if response is not None:
                yield response

    def call_each(
        self,
        queues: Iterable[MessageQueue],
        submit: Callable[[BrokerApi, Collection[MessageQueue]], Future[T]],
        *,
        of_slaves: bool = False,
    ) -> list[tuple[Collection[MessageQueue], T]]:
        """Verify brokers whose connections are new, then send one request to each broker of ``queues``, concurrently;
        wait; return (its queues, response) of each that responds. ``of_slaves``: use slaves of missing masters."""
        of_broker = grouped(queues, lambda queue: queue.broker_name)

        def submit_if_verified(broker: BrokerApi, name: str) -> Future[T]:
            """Send the request. Raises TransportError[CONNECTION_LOST] if the broker is not verified any more."""
            self._identities.ensure_verified(name)  # its connection may be lost since: other brokers came first
            return self._identities.verify_response(name, submit(broker, of_broker[name]))

        responses = self.call_concurrently(
            {name: name for name in self._verify_brokers(of_broker)}, submit_if_verified, of_slaves=of_slaves
        )
        return [(of_broker[name], response) for name, response in responses.items()]

    def call_concurrently(
        self,
        requests: Mapping[K, str],
        submit: Callable[[BrokerApi, K], Future[T]],
        *,
        of_slaves: bool = False,
        ignores_missing_topics: bool = False,
    ) -> dict[K, T]:
        """Send ``requests`` (broker name by key) concurrently, by ``submit(broker, key)``; wait for all, and return
        responses by key. Nothing is sent to a broker without an address, or in the pause after a failure: its keys are
        missing. So are keys of transient failures, recorded as outages, and, with ``ignores_missing_topics``, of topics
        that the broker does not have. Other errors are raised. A broker's outage ends if all its requests get
        responses. Does not verify identities. ``of_slaves``: use slaves of missing masters."""
        call_round = _CallRound(ignores_missing_topics)
        futures: dict[K, Future[T]] = {}
        for key, broker_name in requests.items():
            address = (self.slave_reads.address if of_slaves else self.slave_reads.master)(broker_name)
            if (
                address is not None
                and broker_name not in call_round.failures
                and self.outage_tracker.may_call(broker_name)
            ):
                call_round.try_call(broker_name, futures, key, partial(submit, self._cluster.broker(address), key))
        responses: dict[K, T] = {}
        for key, future in futures.items():
            call_round.try_call(requests[key], responses, key, future.result)
        for broker_name, error in call_round.failures.items():
            self._record_failure(broker_name, error)
        for broker_name in call_round.responded - call_round.failures.keys():
            if not self._identities.is_mismatched(broker_name):
                self.outage_tracker.record_success(broker_subject(broker_name))
        return responses

    def refresh_routes(self) -> None:
        """Refresh all routes (``TopicRoutes.refresh``), then send a request to each of ``SlaveReads.due_masters``,
        concurrently, and wait. If one responds, refresh again: the routes may name another master since."""
        self.topic_routes.refresh()
        responded = _query_responsive(self._cluster, self.slave_reads.due_masters)
        self.slave_reads.record_tries(responded)
        if responded:
            self.topic_routes.refresh()

    def call_any(self, call: Callable[[BrokerApi], T]) -> T | None:
        """Send a blocking request to one responsive master, not verified, and return the response. Return None, without
        an outage, if there is no such master or the request fails, also by a permanent error."""
        address = next(iter(self.outage_tracker.responsive_masters().values()), None)
        if address is None:
            return None
        try:
            return call(self._cluster.broker(address))
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Request to address=%s failed: %s", address, error)
            return None

    def send(self, heartbeats: Heartbeats) -> set[BrokerAddress]:
        """Send heartbeats and wait; return the addresses that acknowledged them. Failures are logged, not raised."""
        return heartbeats.send(self._cluster)

    def try_call(self, address: BrokerAddress, call: Callable[[BrokerApi], object]) -> bool:
        """Send an optional or repeated request; wait, return whether it succeeded. Log errors at DEBUG, raise none."""
        try:
            call(self._cluster.broker(address))
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Optional request to address=%s failed: %s", address, error)
            return False
        return True

    def link(self, broker_name: str) -> Link | None:
        """Return the broker's address, and the number of the connection that its next request uses. None without an
        address (``SlaveReads.address``), and behind a proxy, whose connection does not identify the broker."""
        address = self.slave_reads.address(broker_name)
        return None if address is None or address.broker_name is not None else self._identities.link(broker_name)

    def deletes_offsets(self, broker_name: str) -> bool:
        """Return whether the master's version deletes offsets with their topic; False while unknown. Sends nothing."""
        address = self.routes.master(broker_name)
        return address is not None and self._cluster.version(address) >= OFFSET_DELETION_VERSION

    def _record_failure(self, broker_name: str, error: RocketMQError) -> None:
        """Record a transient ``error`` as outage of the broker, with limit ``clusterTimeoutMs``; raise nothing."""
        self.outage_tracker.record_failure(broker_subject(broker_name), error, self._options.cluster_timeout_ms)

    # ------------------------------------------------------------------------------------------ commits

    def may_commit(self, queue: MessageQueue) -> bool:
        """Return whether its broker is not read at a slave, and its last commit did not fail, or the pause is over."""
        return queue.broker_name not in self.slave_reads.addresses and self.outage_tracker.may_commit(queue)

    def record_commit(self, queue: MessageQueue, error: RocketMQError | None) -> None:
        """Record a commit; ``error`` None: stored. Its limit ``clusterTimeoutMs`` counts from the first failed one."""
        if error is None:
            self.outage_tracker.commit_succeeded(queue)
        else:
            self.outage_tracker.commit_failed(queue, error, self._options.cluster_timeout_ms)

    # ------------------------------------------------------------------------------------------ offsets of queues

    def query_bounds(self, *, of_slaves: bool = False) -> dict[MessageQueue, QueueBounds]:
        """Request the bounds of all readable queues (``assign``: its own), concurrently, once per topic and broker, and
        wait. Verify brokers that returned none, and wait. Return the bounds, without queues of unresponsive brokers
        (outages) and of deleted topics (no outage). Permanent errors are raised. ``of_slaves``: see ``call_each``."""
        readable = {topic: set(filter(self._options.reads, queues)) for topic, queues in self.routes.queues.items()}
        requests = {
            (topic, broker_name): broker_name
            for topic, queues in readable.items()
            for broker_name in sorted({queue.broker_name for queue in queues})
        }
        # A broker may have deleted a topic that the route still lists.
        held = self.call_concurrently(
            requests,
            lambda broker, request: self._identities.submit_bounds(broker, *request),
            of_slaves=of_slaves,
            ignores_missing_topics=True,
        )
        # A broker that returned no bounds is not verified yet.
        self._verify_brokers({broker_name for _, broker_name in requests})
        return {
            queue: of_queue
            for (topic, _), bounds in held.items()
            for queue, of_queue in bounds.items()
            if queue in readable[topic]
        }

    def check_group(self) -> None:
        """Request why brokers do not list this member; wait, and raise the reason if a broker returns one. Raises
        BrokerError[GROUP_NOT_FOUND.BROKER | GROUP_DENIED | TOPIC_DENIED]. Transient failures are outages."""
        requests = {
            (topic, broker.broker_name): broker.broker_name
            for topic, route in self.routes.routes.items()
            for broker in route.brokers
            if self._options.reads_from(broker.broker_name)
        }
        group = self._options.consumer_group
        self.call_concurrently(requests, lambda broker, request: broker.submit_group_check(group, request[0]))

    def probe_store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Probe the message at an offset of each queue, broker after broker. Return its store time in epoch ms, or None
        without a message. Missing are queues of unresponsive brokers, and, for up to ``clusterTimeoutMs``, of brokers
        that refuse pulls. With credentials a probe may consume an operator's reset."""
        return self._probe(offsets, self._probe_store_times_at)

    def probe_sizes(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Probe the message at an offset of each queue. Return its size in bytes at the broker, or None without a
        message. Missing are queues of unresponsive brokers, and, without an outage, of brokers that refuse pulls."""
        return self._probe(offsets, self._probe_sizes_at)

    def _probe(self, offsets: Mapping[MessageQueue, int], probe: _Probe) -> dict[MessageQueue, int | None]:
        """Call ``probe`` once per broker, one after another, with the ``offsets`` of its queues; return all results.
        Queues of brokers that are or become unresponsive are missing. Permanent errors are raised."""
        found: dict[MessageQueue, int | None] = {}
        for response in self.call_sequentially(
            offsets, lambda broker, queues: probe(broker, {one: offsets[one] for one in queues})
        ):
            found |= response
        return found

    def _probe_store_times_at(
        self, broker: BrokerApi, offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]:
        """Return the store times of messages at one broker. If it refuses by a response code, return {} and record an
        outage of its messages, with limit ``clusterTimeoutMs``; success ends that outage. Other errors are raised."""
        subject = f"messages of {broker_subject(next(iter(offsets)).broker_name)}"
        try:
            found = broker.probe_store_times(offsets, self._prober)
        except BrokerError as error:
            if not is_broker_error(error):
                raise
            self.outage_tracker.record_failure(subject, error, self._options.cluster_timeout_ms)
            return {}
        self.outage_tracker.record_success(subject)
        return found

    def _probe_sizes_at(self, broker: BrokerApi, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """Return sizes of messages at one broker; {} if it refuses by a response code. Other errors are raised."""
        try:
            return broker.probe_sizes(offsets, self._prober)
        except BrokerError as error:
            if not is_broker_error(error):
                raise
            log.debug("REQUEST_FAILED: Cannot probe sizes of messages: %s", error)
            return {}

    def query_search_hints(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Request, concurrently, brokers' results for ``search_offsets``, and wait. Without probes an offset may be too
        small, too large or -1. Queues of unresponsive brokers are missing. Permanent errors are raised."""
        found: dict[MessageQueue, int] = {}
        for _, offsets in self.call_each(
            timestamps_ms,
            lambda broker, queues: broker.submit_search_hints({queue: timestamps_ms[queue] for queue in queues}),
        ):
            found |= offsets
        return found

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Request and probe, broker after broker, the first offset of each queue stored at its timestamp (epoch ms) or
        later, else its max offset. Queues of unresponsive brokers are missing. Permanent errors are raised."""
        found: dict[MessageQueue, int] = {}
        for offsets in self.call_sequentially(
            timestamps_ms,
            lambda broker, queues: broker.search_offsets(
                {queue: timestamps_ms[queue] for queue in queues}, self._prober
            ),
        ):
            found |= offsets
        return found


class _CallRound:
    """Concurrent requests to brokers: which responded, and which failed."""

    def __init__(self, ignores_missing_topics: bool) -> None:
        self.failures: dict[str, RocketMQError] = {}
        self.responded: set[str] = set()
        self._ignores_missing_topics = ignores_missing_topics

    def try_call(self, broker_name: str, results: dict[K, T], key: K, call: Callable[[], T]) -> None:
        """Call ``call``, which sends a request or waits. Put its result into ``results``, or a transient failure into
        ``failures``; ignore a missing topic if these are ignored, and raise other errors. Without a failure or another
        error, the broker has ``responded``."""
        try:
            results[key] = call()
        except RocketMQError as error:
            if retryability_of_request(error) is Retryability.TRANSIENT:
                self.failures[broker_name] = error
                return
            if not (self._ignores_missing_topics and is_topic_missing_at_broker(error)):
                raise
        self.responded.add(broker_name)


def _query_responsive(cluster: ClusterApi, masters: Mapping[str, BrokerAddress]) -> list[str]:
    """Send a request to each of ``masters`` (address by broker name) concurrently, wait, and return the broker names of
    those that respond in any way."""
    topics = {name: cluster.routes.topics_at(name)[0] for name in masters}
    submitted = {
        name: _unless_unanswered(partial(cluster.broker(address).submit_topic_stats, topics[name]))
        for name, address in masters.items()
    }
    return [
        name
        for name, future in submitted.items()
        if isinstance(future, RocketMQError) or (future is not None and _unless_unanswered(future.result) is not None)
    ]


def _unless_unanswered(call: Callable[[], T]) -> T | RocketMQError | None:
    """Return the result of ``call``, the error with which a server responded, or None without a response."""
    try:
        return call()
    except RocketMQError as error:
        return None if is_unanswered(error) else error
