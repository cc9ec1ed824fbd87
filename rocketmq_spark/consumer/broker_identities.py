"""BrokerIdentities: verification of which broker responds at an address. Brokers may exchange addresses, and the wrong
broker responds without an error.

Neither a request for a queue nor its response names a broker. The bounds of a topic's queues do, so bounds are
requested over each connection before any request for a queue.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rocketmq_spark.consumer.cluster_api import BrokerApi, ClusterApi, Future, Link
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.remoting.route_table import UNKNOWN_ADDRESS
from rocketmq_spark.wire.bounds import QUEUE_OFFSETS

Bounds = dict[MessageQueue, QueueBounds]


def find_broker_name(bounds: Bounds, expected_name: str) -> str | None:
    """Return the broker to which these queues belong: another than ``expected_name`` if there is one, else
    ``expected_name``; None without queues."""
    other_names = (queue.broker_name for queue in bounds if queue.broker_name != expected_name)
    return next(other_names, expected_name if bounds else None)


def find_invalid_bounds(bounds: Bounds) -> MessageQueue | None:
    """Return a queue that ends before it begins, or has more offsets than possible; None if there is none. Otherwise
    the first would appear as a loss or as empty, the second would plan endless tasks."""
    maximum = QUEUE_OFFSETS.maximum
    return next(
        (
            queue
            for queue, queue_bounds in bounds.items()
            if not 0 <= queue_bounds.max_offset - queue_bounds.min_offset <= maximum
        ),
        None,
    )


class BrokerIdentities:
    """Link over which each broker was verified. Not thread-safe.

    ``missing_topic_codes``: response codes of brokers that do not have a topic.
    """

    def __init__(self, cluster: ClusterApi, missing_topic_codes: Collection[int]) -> None:
        self._missing_topic_codes = missing_topic_codes
        self._cluster = cluster
        self._routes = cluster.routes
        self._verified: dict[str, Link] = {}
        self._mismatched: set[str] = set()

    def link(self, broker_name: str) -> Link | None:
        """Return the link to the broker now; None while no route has its master."""
        address = self._routes.master(broker_name)
        return None if address is None else (address, self._cluster.connection_number(address))

    def is_verified(self, broker_name: str) -> bool:
        """Return whether the broker is verified over its current connection. Another connection verifies nothing."""
        return broker_name in self._verified and self._verified[broker_name] == self.link(broker_name)

    def ensure_verified(self, broker_name: str) -> None:
        """Raises TransportError[CONNECTION_LOST] if the broker is not verified: its verified connection is lost."""
        if not self.is_verified(broker_name):
            address = _address(self.link(broker_name))
            raise TransportError(
                "CONNECTION_LOST", address=address, reason="it closed before a request to the broker was sent"
            )

    def is_mismatched(self, broker_name: str) -> bool:
        """Return whether another broker was found at its address, and it has not responded since. Then responses from
        that address do not count as its own."""
        return broker_name in self._mismatched

    def submit_check(self, broker: BrokerApi, broker_name: str) -> Future[None]:
        """Request bounds to verify the broker. It is not verified if the broker there has none of its topics."""
        return _IdentityFuture(
            self, broker, broker_name, self._routes.topics_at(broker_name), self._missing_topic_codes
        )

    def submit_bounds(self, broker: BrokerApi, topic: str, broker_name: str) -> Future[Bounds]:
        """Request the bounds of the broker's queues of a topic; the response verifies the broker."""
        link = self.link(broker_name)  # before the request: the response verifies it only if it is still the same then
        return _VerifiedBounds(broker.submit_topic_stats(topic), self, broker_name, link)

    def record_verified(self, broker_name: str, link: Link | None) -> None:
        """Record that the broker responded over ``link``, if that is still its link."""
        if link is not None and link == self.link(broker_name):
            self._verified[broker_name] = link
            self._mismatched.discard(broker_name)

    def error_without_topics(self, broker_name: str, topics: Sequence[str]) -> RouteError:
        """Record a mismatch and return its error: the broker at the address has none of ``topics``."""
        return self.mismatch_error(self.link(broker_name), broker_name, f"one without {', '.join(topics)}")

    def mismatch_error(self, link: Link | None, broker_name: str, other: str) -> RouteError:
        """Record a mismatch and return its error: ``other`` describes the broker at the address."""
        address = _address(link)
        self._mismatched.add(broker_name)
        return RouteError("BROKER_ADDRESS_MISMATCH", address=address, broker=broker_name, other=other)


def _address(link: Link | None) -> str:
    return UNKNOWN_ADDRESS if link is None else str(link[0])


class _IdentityFuture:
    """Verification of a broker: bounds of one topic suffice. If the broker no longer has a topic, the next is
    requested."""

    def __init__(
        self,
        identities: BrokerIdentities,
        broker: BrokerApi,
        broker_name: str,
        topics: Sequence[str],
        missing_topic_codes: Collection[int],
    ) -> None:
        self._identities = identities
        self._broker = broker
        self._broker_name = broker_name
        self._topics = topics
        self._missing_topic_codes = missing_topic_codes
        self._first = identities.submit_bounds(broker, topics[0], broker_name)

    def result(self) -> None:
        """Wait for the verification. Raises RouteError[BROKER_ADDRESS_MISMATCH], and the errors of
        ``submit_bounds``."""
        if self._has_queues(self._first):
            return
        other_names = (
            self._identities.submit_bounds(self._broker, topic, self._broker_name) for topic in self._topics[1:]
        )
        if not any(map(self._has_queues, other_names)):
            raise self._identities.error_without_topics(self._broker_name, self._topics)

    def _has_queues(self, bounds: Future[Bounds]) -> bool:
        """Wait for the response; return whether the broker has queues of the topic. A missing topic is no error."""
        try:
            return bool(bounds.result())
        except BrokerError as error:
            if error.code not in self._missing_topic_codes:
                raise
            return False


class _VerifiedBounds:
    def __init__(
        self, future: Future[Bounds], identities: BrokerIdentities, broker_name: str, link: Link | None
    ) -> None:
        self._future = future
        self._identities = identities
        self._broker_name = broker_name
        self._link = link

    def result(self) -> Bounds:
        """Return the bounds. Raises RouteError[BROKER_ADDRESS_MISMATCH] if another broker responded,
        RemoteProtocolError[INVALID_QUEUE_OFFSETS] for impossible bounds."""
        bounds = self._future.result()
        name = find_broker_name(bounds, self._broker_name)
        if name is not None and name != self._broker_name:
            raise self._identities.mismatch_error(self._link, self._broker_name, name)
        queue = find_invalid_bounds(bounds)
        if queue is not None:
            min_offset, max_offset = bounds[queue].min_offset, bounds[queue].max_offset
            raise RemoteProtocolError(
                "INVALID_QUEUE_OFFSETS", queue=str(queue), min_offset=min_offset, max_offset=max_offset
            )
        if name is not None:
            self._identities.record_verified(self._broker_name, self._link)
        return bounds
