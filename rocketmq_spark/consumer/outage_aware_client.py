"""Servers: asking name servers and brokers. The one place where a failure becomes an outage.

Who is silent is left out and asked again later. No decisions about queues or offsets are made here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeVar

from rocketmq_spark.consumer.broker_identities import BrokerIdentities
from rocketmq_spark.consumer.cluster_api import BrokerApi, ClusterApi, Future, Link
from rocketmq_spark.consumer.heartbeats import Heartbeats
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.prober import TOOLS_PROBER, Prober
from rocketmq_spark.remoting.retry import (
    NAME_SERVERS,
    Retryability,
    broker_subject,
    is_broker_error,
    is_no_name_server,
    is_topic_route_lost,
    retryability_of_request,
    topic_subject,
)
from rocketmq_spark.wire.remoting.codes import ResponseCode

log = logging.getLogger(__name__)

OFFSET_DELETION_VERSION: Final = 441
"""V5_1_4, the oldest on which that was seen. Source: ``common/MQVersion.java``."""

BROKER_REGISTRATION_MS: Final = 15_000
"""A broker that is back serves its queues before the name servers name it, and a name server that is back hears of
brokers only from them. While the queues are served nobody waits for that, so at first nothing is said."""

MISSING_TOPIC_CODES: Final = frozenset({ResponseCode.TOPIC_NOT_EXIST})

T = TypeVar("T")
K = TypeVar("K")
P = ParamSpec("P")


class OutageAwareClient:
    """The servers of the topics that are read. Not thread-safe."""

    def __init__(self, options: ReadOptions, cluster: ClusterApi, outage_tracker: OutageTracker) -> None:
        self._options = options
        self._cluster = cluster
        self._routes = cluster.routes
        self._outage_tracker = outage_tracker
        self._prober = TOOLS_PROBER
        self._identities = BrokerIdentities(cluster, MISSING_TOPIC_CODES)

    def set_reset_callback(self, on_reset: Callable[[MessageQueue, int], None]) -> None:
        """Who signs looks at messages as a member of the query's group, because that is what it has the right to: so it
        may be told of an operator's reset."""
        if self._options.security.credentials is not None:
            self._prober = Prober(self._options.consumer_group, on_reset)

    # ------------------------------------------------------------------------------------------ how to ask

    def call(
        self, broker_name: str, call: Callable[Concatenate[BrokerApi, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Ask a broker by name; None if it is silent, or was a moment ago. Refusals that will not pass are raised."""
        address = self._routes.master(broker_name)
        if (
            address is None
            or not self._outage_tracker.may_call(broker_name)
            or not self._verified_brokers([broker_name])
        ):
            return None
        try:
            response = call(self._cluster.broker(address), *args, **kwargs)
        except RocketMQError as error:
            if retryability_of_request(error) is not Retryability.TRANSIENT:
                raise
            self._record_failure(broker_name, error)
            return None
        self._outage_tracker.record_success(broker_subject(broker_name))
        return response

    def _verified_brokers(self, broker_names: Iterable[str]) -> list[str]:
        """Those of which it is known who answers: where a connection is new, that takes a request, to all at once."""
        names = list(broker_names)
        self.call_concurrently(
            {name: name for name in names if not self._identities.is_verified(name)}, self._identities.submit_check
        )
        return [name for name in names if self._identities.is_verified(name)]

    def call_sequentially(
        self, queues: Iterable[MessageQueue], call: Callable[[BrokerApi, Collection[MessageQueue]], T]
    ) -> Iterator[T]:
        """Ask the broker of each of ``queues`` about those that it has: what takes a broker several requests, each for
        what was said to the one before."""
        for broker_name, of_broker in _by_broker(queues).items():
            response = self.call(broker_name, call, of_broker)
            if response is not None:
                yield response

    def call_each(
        self, queues: Iterable[MessageQueue], submit: Callable[[BrokerApi, Collection[MessageQueue]], Future[T]]
    ) -> list[tuple[Collection[MessageQueue], T]]:
        """Ask the broker of each of ``queues`` about those that it has, all at once: (queues, answer) of each that
        answers. A turn waits for the slowest of them, and not for their sum."""
        of_broker = _by_broker(queues)

        def submit_if_verified(broker: BrokerApi, name: str) -> Future[T]:
            self._identities.ensure_verified(name)  # others were asked since, and connections are lost in a moment
            return submit(broker, of_broker[name])

        responses = self.call_concurrently(
            {name: name for name in self._verified_brokers(of_broker)}, submit_if_verified
        )
        return [(of_broker[name], response) for name, response in responses.items()]

    def call_concurrently(
        self,
        requests: Mapping[K, str],
        submit: Callable[[BrokerApi, K], Future[T]],
        ignored_codes: Collection[int] = (),
    ) -> dict[K, T]:
        """Ask brokers by name, all at once. Left out is what silent brokers were asked, and what was refused with a
        code of ``ignored_codes``; other refusals that will not pass are raised."""
        call_round = _CallRound(ignored_codes)
        futures: dict[K, Future[T]] = {}
        for key, broker_name in requests.items():
            address = self._routes.master(broker_name)
            if (
                address is not None
                and broker_name not in call_round.failures
                and self._outage_tracker.may_call(broker_name)
            ):
                call_round.note(broker_name, futures, key, partial(submit, self._cluster.broker(address), key))
        responses: dict[K, T] = {}
        for key, future in futures.items():
            call_round.note(requests[key], responses, key, future.result)
        for broker_name, error in call_round.failures.items():
            self._record_failure(broker_name, error)
        for broker_name in call_round.responded - call_round.failures.keys():
            if not self._identities.is_mismatched(broker_name):
                self._outage_tracker.record_success(broker_subject(broker_name))
        return responses

    def call_any(self, call: Callable[[BrokerApi], T]) -> T | None:
        """Ask a broker, any that was not silent when it was last asked. None, and no outage, if it does not answer."""
        address = next(iter(self._outage_tracker.responsive_masters().values()), None)
        if address is None:
            return None
        try:
            return call(self._cluster.broker(address))
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Request to address=%s failed: %s", address, error)
            return None

    def send(self, heartbeats: Heartbeats) -> set[BrokerAddress]:
        """Who has answered."""
        return heartbeats.send(self._cluster)

    def try_call(self, address: BrokerAddress, call: Callable[[BrokerApi], object]) -> bool:
        """Tell a broker something that is told again by the timer, or need not be; says whether it has answered."""
        try:
            call(self._cluster.broker(address))
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Notification to address=%s failed: %s", address, error)
            return False
        return True

    def link(self, broker_name: str) -> Link | None:
        """By which the broker is reached now; None while no route names its master, and where a proxy is between: then
        a connection says nothing of the broker."""
        address = self._routes.master(broker_name)
        return None if address is None or address.broker_name is not None else self._identities.link(broker_name)

    def deletes_offsets(self, broker_name: str) -> bool:
        """Whether the broker is known to delete groups' offsets with their topic. Older ones keep them."""
        address = self._routes.master(broker_name)
        return address is not None and self._cluster.version(address) >= OFFSET_DELETION_VERSION

    def _record_failure(self, broker_name: str, error: RocketMQError) -> None:
        self._outage_tracker.record_failure(broker_subject(broker_name), error, self._options.cluster_timeout_ms)

    # ------------------------------------------------------------------------------------------ commits

    def may_commit(self, queue: MessageQueue) -> bool:
        """Whether the broker has not refused a moment ago to store the queue's offset."""
        return self._outage_tracker.may_commit(queue)

    def record_commit(self, queue: MessageQueue, error: RocketMQError | None) -> None:
        """The broker has stored the queue's offset, or not. The limit counts from the first refusal, whatever else the
        broker answers."""
        if error is None:
            self._outage_tracker.commit_succeeded(queue)
        else:
            self._outage_tracker.commit_failed(queue, error, self._options.cluster_timeout_ms)

    # ------------------------------------------------------------------------------------------ name servers

    def refresh_routes(self) -> None:
        """Ask for the route of every topic. One that is not told now stays as it was."""
        failures = self._routes.refresh(self._options.read_topics)
        for topic in self._options.read_topics:
            error = failures.get(topic)
            # Without read permission a topic looks like an idle one.
            if error is None and not self._routes.queues_of(topic):
                error = RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic)
            if isinstance(error, RouteError):
                self._record_missing_topic(topic, error)
            elif error is None:
                self._outage_tracker.record_success(topic_subject(topic))
        self._record_name_servers([one for one in failures.values() if not isinstance(one, RouteError)])
        self._outage_tracker.discard_removed_brokers()
        for broker_name in self._routes.brokers_without_master():
            # It is listed, so it is there; it is its master that does not answer.
            self._record_failure(
                broker_name,
                RouteError("MASTER_UNAVAILABLE", broker=broker_name, topic=self._routes.topics_at(broker_name)[0]),
            )

    def _record_name_servers(self, errors: Sequence[RocketMQError]) -> None:
        for error in errors:
            if is_no_name_server(error):
                raise error
        if errors:
            is_transient = retryability_of_request(errors[0]) is Retryability.TRANSIENT
            self._outage_tracker.record_failure(
                NAME_SERVERS, errors[0], self._options.cluster_timeout_ms if is_transient else 0
            )
        else:
            self._outage_tracker.record_success(NAME_SERVERS)

    def _record_missing_topic(self, topic: str, error: RouteError) -> None:
        """One that has had a route is missed as its brokers are. The group's retry topic is made by its brokers, when
        they have the first heartbeat of a member."""
        limit_ms, quiet_ms = self._options.missing_topic_timeout_ms, 0
        if is_topic_route_lost(error):
            limit_ms, quiet_ms = self._options.cluster_timeout_ms, BROKER_REGISTRATION_MS
        elif topic == self._options.retry_topic:
            quiet_ms = BROKER_REGISTRATION_MS
        self._outage_tracker.record_failure(topic_subject(topic), error, limit_ms, quiet_ms)

    # ------------------------------------------------------------------------------------------ what queues hold

    def bounds(self) -> dict[MessageQueue, QueueBounds]:
        """The bounds of all readable queues, one request for each topic and broker, all at once; without the silent
        brokers' queues."""
        readable = {topic: set(queues) for topic, queues in self._routes.queues.items()}
        requests = {
            (topic, broker_name): broker_name
            for topic, queues in readable.items()
            for broker_name in sorted({queue.broker_name for queue in queues})
        }
        # A broker may not have a topic any more: the route will follow.
        held = self.call_concurrently(
            requests,
            lambda broker, request: self._identities.submit_bounds(broker, *request),
            MISSING_TOPIC_CODES,
        )
        self._verified_brokers(
            {broker_name for _, broker_name in requests}
        )  # who has nothing to tell has not said who it is
        return {
            queue: of_queue
            for (topic, _), bounds in held.items()
            for queue, of_queue in bounds.items()
            if queue in readable[topic]
        }

    def check_group(self) -> None:
        """Raises why brokers do not list us, where they say so: BrokerError[GROUP_NOT_FOUND.BROKER | GROUP_DENIED |
        TOPIC_DENIED]."""
        requests = {
            (topic, broker.broker_name): broker.broker_name
            for topic, route in self._routes.routes.items()
            for broker in route.brokers
        }
        group = self._options.consumer_group
        self.call_concurrently(requests, lambda broker, request: broker.submit_group_check(group, request[0]))

    def store_times(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """When the message at an offset of each queue was stored, in ms; None where there is none. Queues whose broker
        is silent are left out, and those whose broker refuses pulls, for ``clusterTimeoutMs``."""
        found: dict[MessageQueue, int | None] = {}
        for response in self.call_sequentially(
            offsets, lambda broker, queues: self._probe_store_times(broker, queues, offsets)
        ):
            found |= response
        return found

    def _probe_store_times(
        self, broker: BrokerApi, queues: Collection[MessageQueue], offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]:
        """A refusal ends nothing at once: a topic may just have been deleted, or reading be forbidden for a while. What
        is refused to us alone is raised."""
        subject = f"messages of {broker_subject(next(iter(queues)).broker_name)}"
        try:
            found = broker.store_times({queue: offsets[queue] for queue in queues}, self._prober)
        except BrokerError as error:
            if not is_broker_error(error):
                raise
            self._outage_tracker.record_failure(subject, error, self._options.cluster_timeout_ms)
            return {}
        self._outage_tracker.record_success(subject)
        return found

    def search_hints(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """As ``search_offsets``, quickly and unchecked: it may be too small."""
        found: dict[MessageQueue, int] = {}
        for _, offsets in self.call_each(
            timestamps_ms,
            lambda broker, queues: broker.submit_search_hints({queue: timestamps_ms[queue] for queue in queues}),
        ):
            found |= offsets
        return found

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset of each queue that was stored at the given time or later, else its max offset. Queues whose
        broker is silent are left out."""
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
    """One round of questions to brokers: who has answered, and who has not."""

    def __init__(self, ignored_codes: Collection[int]) -> None:
        self.failures: dict[str, RocketMQError] = {}
        self.responded: set[str] = set()
        self._ignored_codes = ignored_codes

    def note(self, broker_name: str, results: dict[K, T], key: K, call: Callable[[], T]) -> None:
        """Put what a broker says among the ``results``. A failure that passes is remembered, others are raised."""
        try:
            results[key] = call()
        except RocketMQError as error:
            if retryability_of_request(error) is Retryability.TRANSIENT:
                self.failures[broker_name] = error
                return
            if not (is_broker_error(error) and error.code in self._ignored_codes):
                raise
        self.responded.add(broker_name)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    grouped: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        grouped.setdefault(queue.broker_name, []).append(queue)
    return grouped
