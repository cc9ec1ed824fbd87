"""BrokerIdentities: verification of which broker responds at an address. Brokers may exchange addresses, and the wrong
broker responds without an error.

Neither a request for a queue nor its response names a broker. The bounds of a topic's queues do, so bounds are
requested over each connection before any request for a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from rocketmq_spark.consumer.cluster_api import BrokerApi, ClusterApi, Future, Link
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.error_kinds import is_topic_missing_at_broker
from rocketmq_spark.remoting.route_table import UNKNOWN_ADDRESS
from rocketmq_spark.wire.bounds import QUEUE_OFFSETS

Bounds = dict[MessageQueue, QueueBounds]
T = TypeVar("T")


def find_broker_name(bounds: Bounds, expected_name: str) -> str | None:
    """Return ``expected_name`` if all queues of ``bounds`` have this broker name, else the first other name. Return
    None for empty bounds."""
    other_names = (queue.broker_name for queue in bounds if queue.broker_name != expected_name)
    return next(other_names, expected_name if bounds else None)


def find_invalid_bounds(bounds: Bounds) -> MessageQueue | None:
    """Return the first queue with a negative min offset, a max offset less than the min offset, or more than
    ``QUEUE_OFFSETS.maximum`` offsets; else None. Too many offsets would be planned as endless tasks. A negative number
    of offsets would count as a loss or as empty. A checkpoint with a negative offset cannot be read."""
    maximum = QUEUE_OFFSETS.maximum
    return next(
        (
            queue
            for queue, queue_bounds in bounds.items()
            if queue_bounds.min_offset < 0 or not 0 <= queue_bounds.max_offset - queue_bounds.min_offset <= maximum
        ),
        None,
    )


def check_bounds(bounds: Bounds) -> None:
    """Do nothing for bounds that are possible. Raises RemoteProtocolError[INVALID_QUEUE_OFFSETS] with the first of
    ``find_invalid_bounds``."""
    queue = find_invalid_bounds(bounds)
    if queue is not None:
        min_offset, max_offset = bounds[queue].min_offset, bounds[queue].max_offset
        raise RemoteProtocolError(
            "INVALID_QUEUE_OFFSETS", queue=str(queue), min_offset=min_offset, max_offset=max_offset
        )


class BrokerIdentities:
    """Link over which each broker was verified: bounds received over it had the broker's name. Not thread-safe.

    ``address_of``: returns the address of a broker, by its name, or None while there is none. ``check``: raises an
    error for bounds that verify nothing.
    """

    def __init__(
        self,
        cluster: ClusterApi,
        address_of: Callable[[str], BrokerAddress | None],
        check: Callable[[Bounds], object] = check_bounds,
    ) -> None:
        self.check: Final = check
        self._address_of = address_of
        self._cluster = cluster
        self._routes = cluster.routes
        self._verified: dict[str, Link] = {}
        self._mismatched: set[str] = set()

    def link(self, broker_name: str) -> Link | None:
        """Return the broker's address, and the number of the connection that its next request uses, or None without an
        address. Sends nothing."""
        address = self._address_of(broker_name)
        return None if address is None else (address, self._cluster.connection_number(address))

    def is_verified(self, broker_name: str) -> bool:
        """Return whether bounds with the broker's name were received over the connection that its next request uses.
        Sends nothing. A proxy's bounds always have the requested name."""
        return broker_name in self._verified and self._verified[broker_name] == self.link(broker_name)

    def ensure_verified(self, broker_name: str) -> None:
        """Do nothing if ``is_verified``. Raises TransportError[CONNECTION_LOST] otherwise, even if it never was."""
        if not self.is_verified(broker_name):
            address = _address(self.link(broker_name))
            raise TransportError(
                "CONNECTION_LOST", address=address, reason="it closed before the broker's response was received"
            )

    def verify_response(self, broker_name: str, future: Future[T]) -> Future[T]:
        """Return a future of the same response, which a broker may have sent that took over the address. ``result``
        raises what that of ``future`` does, and TransportError[CONNECTION_LOST] unless ``is_verified`` holds then."""
        return _VerifiedResponse(future, self, broker_name)

    def is_mismatched(self, broker_name: str) -> bool:
        """Return whether another broker was found at the broker's address, and ``record_verified`` has not recorded the
        right one since. Then responses from that address do not count as the broker's."""
        return broker_name in self._mismatched

    def submit_check(self, broker: BrokerApi, broker_name: str) -> Future[None]:
        """Request the bounds of the broker's first topic; a route must name the broker. If there is no connection, open
        one, wait for it, and raise its errors: TransportError, OptionError. ``result`` waits for bounds that verify the
        broker, and records this. While the broker has no queues of a topic, ``result`` requests the next one. Its
        errors: ``_IdentityFuture.result``."""
        return _IdentityFuture(self, broker, broker_name, self._routes.topics_at(broker_name))

    def submit_bounds(self, broker: BrokerApi, topic: str, broker_name: str) -> Future[Bounds]:
        """Request the bounds of the broker's queues of a topic, and wait only for a connection, see ``submit_check``.
        ``result`` waits, returns them, and records the broker as verified if they have its name; an empty response
        verifies nothing. See ``_VerifiedBounds.result`` for errors."""
        link = self.link(broker_name)  # before the request: the response verifies it only if it is still the same then
        return _VerifiedBounds(broker.submit_topic_stats(topic), self, broker_name, link)

    def record_verified(self, broker_name: str, link: Link | None) -> None:
        """Record that the broker was verified over ``link``, and end a mismatch. Do nothing if ``link`` is None or not
        the current one any more."""
        if link is not None and link == self.link(broker_name):
            self._verified[broker_name] = link
            self._mismatched.discard(broker_name)

    def record_missing_topics(self, broker_name: str, topics: Sequence[str]) -> RouteError:
        """Record a mismatch of the broker, because the broker at its address has none of ``topics``. Return
        RouteError[BROKER_ADDRESS_MISMATCH], not raised."""
        return self.record_mismatch(self.link(broker_name), broker_name, f"one without {', '.join(topics)}")

    def record_mismatch(self, link: Link | None, broker_name: str, other: str) -> RouteError:
        """Record a mismatch until ``record_verified``, and return RouteError[BROKER_ADDRESS_MISMATCH], not raised.
        ``other`` describes the broker at the address of ``link``, which is None for an unknown one. Sends nothing."""
        address = _address(link)
        self._mismatched.add(broker_name)
        return RouteError("BROKER_ADDRESS_MISMATCH", address=address, broker=broker_name, other=other)


def _address(link: Link | None) -> str:
    """Return the address of ``link`` as text; UNKNOWN_ADDRESS for None."""
    return UNKNOWN_ADDRESS if link is None else str(link[0])


class _IdentityFuture:
    """Verification of a broker: bounds of one topic suffice. If the broker no longer has a topic, the next is
    requested."""

    def __init__(
        self, identities: BrokerIdentities, broker: BrokerApi, broker_name: str, topics: Sequence[str]
    ) -> None:
        """Request the bounds of the first of ``topics``, at least one, without waiting for the response."""
        self._identities = identities
        self._broker = broker
        self._broker_name = broker_name
        self._topics = topics
        self._first = identities.submit_bounds(broker, topics[0], broker_name)

    def result(self) -> None:
        """Wait until bounds of one topic verify the broker. If it has no queues of a topic, request the next, one by
        one. Raises RouteError[BROKER_ADDRESS_MISMATCH], also recorded, if the broker has queues of no topic or another
        name, and the other errors of ``submit_bounds``."""
        if self._wait_for_queues(self._first):
            return
        other_names = (
            self._identities.submit_bounds(self._broker, topic, self._broker_name) for topic in self._topics[1:]
        )
        if not any(map(self._wait_for_queues, other_names)):
            raise self._identities.record_missing_topics(self._broker_name, self._topics)

    def _wait_for_queues(self, bounds: Future[Bounds]) -> bool:
        """Wait for the response and return whether the broker has queues of the topic. False also for the error of a
        broker that does not have the topic; other errors are raised."""
        try:
            return bool(bounds.result())
        except BrokerError as error:
            if not is_topic_missing_at_broker(error):
                raise
            return False


class _VerifiedBounds:
    """Future of ``BrokerIdentities.submit_bounds``."""

    def __init__(
        self, future: Future[Bounds], identities: BrokerIdentities, broker_name: str, link: Link | None
    ) -> None:
        self._future = future
        self._identities = identities
        self._broker_name = broker_name
        self._link = link

    def result(self) -> Bounds:
        """Wait for the bounds and return them. Record the broker as verified if they name it; empty bounds verify
        nothing.

        Raises RouteError[BROKER_ADDRESS_MISMATCH] if they name another broker, which is recorded, the errors of
        ``BrokerIdentities.check``, by default RemoteProtocolError[INVALID_QUEUE_OFFSETS] for impossible bounds, and
        those of ``submit_topic_stats``.
        """
        bounds = self._future.result()
        name = find_broker_name(bounds, self._broker_name)
        if name is not None and name != self._broker_name:
            raise self._identities.record_mismatch(self._link, self._broker_name, name)
        self._identities.check(bounds)
        if name is not None:
            self._identities.record_verified(self._broker_name, self._link)
        return bounds


class _VerifiedResponse(Generic[T]):
    """Future of ``BrokerIdentities.verify_response``."""

    def __init__(self, future: Future[T], identities: BrokerIdentities, broker_name: str) -> None:
        self._future = future
        self._identities = identities
        self._broker_name = broker_name

    def result(self) -> T:
        """Wait for the response and return it, see ``BrokerIdentities.verify_response``."""
        response = self._future.result()
        self._identities.ensure_verified(self._broker_name)
        return response
