"""BrokerNames: who is at a broker's address. Brokers exchange addresses, and a wrong one answers politely.

Nothing in a request for a queue, nor in its answer, names a broker. The bounds of a topic's queues do, so each
connection is asked for some before anything of a queue is asked or told over it.
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
    """Whose queues these are: any other broker's than the ``expected_name`` one's, else its. None: of no queue,
    nobody's."""
    other_names = (queue.broker_name for queue in bounds if queue.broker_name != expected_name)
    return next(other_names, expected_name if bounds else None)


def find_invalid_bounds(bounds: Bounds) -> MessageQueue | None:
    """A queue that ends before it begins, or holds more than any can: taken as it is, the first would be a loss or
    nothing new, the second tasks without end."""
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
    """By which connection each broker was found where the routes say that it is. Not thread-safe.

    ``missing_topic_codes``: codes by which a broker says that it does not have a topic.
    """

    def __init__(self, cluster: ClusterApi, missing_topic_codes: Collection[int]) -> None:
        self._missing_topic_codes = missing_topic_codes
        self._cluster = cluster
        self._routes = cluster.routes
        self._verified: dict[str, Link] = {}
        self._mismatched: set[str] = set()

    def link(self, broker_name: str) -> Link | None:
        """By which the broker is reached now; None while no route names its master."""
        address = self._routes.master(broker_name)
        return None if address is None else (address, self._cluster.connection_number(address))

    def is_verified(self, broker_name: str) -> bool:
        """Whether it is this broker that answers by the connection that there is now. Another is no sign of it."""
        return broker_name in self._verified and self._verified[broker_name] == self.link(broker_name)

    def ensure_verified(self, broker_name: str) -> None:
        """Raises TransportError[CONNECTION_LOST] where it is not: the connection by which it was known is gone."""
        if not self.is_verified(broker_name):
            address = _address(self.link(broker_name))
            raise TransportError(
                "CONNECTION_LOST", address=address, reason="it closed before a request to the broker was sent"
            )

    def is_mismatched(self, broker_name: str) -> bool:
        """Whether another broker was found in its place, and it has not answered since: then others' answers from there
        are no sign of life."""
        return broker_name in self._mismatched

    def submit_check(self, broker: BrokerApi, broker_name: str) -> Future[None]:
        """Ask who is there: after it the broker is known, or it is not that one. Who has none of its topics is not."""
        return _IdentityFuture(
            self, broker, broker_name, self._routes.topics_at(broker_name), self._missing_topic_codes
        )

    def submit_bounds(self, broker: BrokerApi, topic: str, broker_name: str) -> Future[Bounds]:
        """The bounds of the broker's queues of a topic, which say whose they are."""
        link = self.link(broker_name)  # before it is asked: what comes over it is known to, if it is still there then
        return _VerifiedBounds(broker.submit_topic_stats(topic), self, broker_name, link)

    def record_verified(self, broker_name: str, link: Link | None) -> None:
        """The broker has answered by that connection."""
        if link is not None and link == self.link(broker_name):
            self._verified[broker_name] = link
            self._mismatched.discard(broker_name)

    def error_without_topics(self, broker_name: str, topics: Sequence[str]) -> RouteError:
        """Who was found in its place has none of its topics."""
        return self.mismatch_error(self.link(broker_name), broker_name, f"one without {', '.join(topics)}")

    def mismatch_error(self, link: Link | None, broker_name: str, other: str) -> RouteError:
        """Another broker was found in its place."""
        address = _address(link)
        self._mismatched.add(broker_name)
        return RouteError("BROKER_ADDRESS_MISMATCH", address=address, broker=broker_name, other=other)


def _address(link: Link | None) -> str:
    return UNKNOWN_ADDRESS if link is None else str(link[0])


class _IdentityFuture:
    """Bounds of one topic are enough; those of the next are asked for where the broker does not have it any more."""

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
        """Raises RouteError[BROKER_ADDRESS_MISMATCH], and what the request for bounds does."""
        if self._has_queues(self._first):
            return
        other_names = (
            self._identities.submit_bounds(self._broker, topic, self._broker_name) for topic in self._topics[1:]
        )
        if not any(map(self._has_queues, other_names)):
            raise self._identities.error_without_topics(self._broker_name, self._topics)

    def _has_queues(self, bounds: Future[Bounds]) -> bool:
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
        """Raises RouteError[BROKER_ADDRESS_MISMATCH] where it is another broker's answer,
        RemoteProtocolError[INVALID_QUEUE_OFFSETS] where it is none that can be true."""
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
