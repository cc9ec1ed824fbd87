"""Inquiry: asking a cluster some of whose servers may be away. Who is silent is left out, remembered and asked
again later.

No decisions about queues or offsets are made here; no thread, lock or clock of its own either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from rocketmq_spark.consumer.ports import BrokerPort, Cluster
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds, TopicRoute
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import Outlook, Patience, outlook_of_request
from rocketmq_spark.wire.body.subscription import SubscriptionData
from rocketmq_spark.wire.remoting.codes import ResponseCode

log = logging.getLogger(__name__)

NAME_SERVERS: Final = "the name servers"

T = TypeVar("T")
Clock = Callable[[], int]


class Inquiry:
    """The routes of the topics that are read, and requests to their brokers on behalf of a group."""

    def __init__(self, options: ReadOptions, cluster: Cluster, clock: Clock) -> None:
        self._options = options
        self._group = options.consumer_group
        self._cluster = cluster
        self._clock = clock
        self._patience = Patience()
        self._routes: dict[str, TopicRoute] = {}
        self._last_addresses: dict[str, str] = {}
        self.news = 0
        """How often something has answered that had been silent, has been silent for its limit, or an operator's reset
        was noticed."""
        self.resets: dict[MessageQueue, int] = {}
        """Where an operator wants queues to be read from, and nobody has acted on it yet."""

    # ------------------------------------------------------------------------------------------ who is silent

    def is_complete(self, away: Collection[MessageQueue] = ()) -> bool:
        """Whether every topic has a route and nobody who was asked is silent, beside what explains that queues are
        ``away``."""
        excused = self._behind(away)
        has_routes = all(topic in self._routes or _topic(topic) in excused for topic in self._options.read_topics)
        return has_routes and self._patience.subjects <= excused

    def check(self, away: Collection[MessageQueue] = ()) -> None:
        """Raise for what has been silent for its whole limit, see ``Patience.check``; not for what explains that queues
        are ``away``."""
        self._patience.check(self._clock(), self._behind(away))

    def away(self, queues: Iterable[MessageQueue], bounds: Collection[MessageQueue]) -> dict[MessageQueue, str]:
        """Those of ``queues`` that nobody serves, with the last address of their broker. What is in ``bounds`` is
        served; a queue that the route names and whose broker does not answer is only silent."""
        return {
            queue: self._last_addresses.get(queue.broker_name, "an address that is not known")
            for queue in queues
            if queue not in bounds and self._is_told_of(queue.topic) and not self._is_silent(queue)
        }

    def _is_told_of(self, topic: str) -> bool:
        """Whether the name servers have said anything of a subscribed topic."""
        return topic in self._options.read_topics and (topic in self._routes or self._is_unknown(topic))

    def _is_unknown(self, topic: str) -> bool:
        return self._patience.is_failing(_topic(topic))

    def _is_silent(self, queue: MessageQueue) -> bool:
        is_named = not self._is_unknown(queue.topic) and queue in self._routes[queue.topic].read_queues()
        return is_named and self._patience.is_failing(_broker(queue.broker_name))

    def _behind(self, away: Collection[MessageQueue]) -> set[str]:
        """Subjects whose silence goes with queues that are away: their topics, and brokers that no route names."""
        named = {
            broker.broker_name
            for topic, route in self._routes.items()
            for broker in route.brokers
            if not self._is_unknown(topic)
        }
        return {_topic(queue.topic) for queue in away} | {
            _broker(queue.broker_name) for queue in away if queue.broker_name not in named
        }

    def may_try_again(self) -> bool:
        """Whether something that did not answer is to be asked again now."""
        return self._patience.is_due(self._clock())

    def may_ask(self, broker_name: str) -> bool:
        """Whether the broker has an address and was not silent when it was last asked."""
        return self.address_of(broker_name) is not None and not self._patience.is_failing(_broker(broker_name))

    def failed(self, subject: str, error: RocketMQError, limit_ms: int) -> None:
        """Remember that ``subject`` did not answer, or not as it must."""
        log.warning("no answer from %s: %s", subject, error)
        self.news += self._patience.failed(subject, error, now_ms=self._clock(), limit_ms=limit_ms)

    def succeeded(self, subject: str) -> None:
        """``subject`` has answered."""
        self.news += self._patience.succeeded(subject)

    # ------------------------------------------------------------------------------------------ routes

    @property
    def queues(self) -> dict[str, tuple[MessageQueue, ...]]:
        """The readable queues by topic, as the last routes have them."""
        return {topic: route.read_queues() for topic, route in self._routes.items()}

    def refresh_routes(self) -> None:
        """Ask for the route of every topic. One that is not told now stays as it was."""
        self._ask_for_routes()
        for broker_name in self._last_addresses:
            if self.address_of(broker_name) is None:
                self._patience.forget(_broker(broker_name))
        names = {broker.broker_name for route in self._routes.values() for broker in route.brokers}
        self._last_addresses |= {name: address for name in names if (address := self.address_of(name)) is not None}

    def _ask_for_routes(self) -> None:
        for topic in self._options.read_topics:
            try:
                self._ask_for_route(topic)
            except RouteError as error:
                self.failed(_topic(topic), error, self._options.missing_topic_timeout_ms)
            except RocketMQError as error:
                self.failed(NAME_SERVERS, error, self._options.cluster_timeout_ms)
                return
            else:
                self.succeeded(_topic(topic))
            self.succeeded(NAME_SERVERS)

    def _ask_for_route(self, topic: str) -> None:
        """A route without a readable queue is an error: else a topic without read permission looks like an idle one."""
        self._routes[topic] = self._cluster.topic_route(topic)
        if not self._routes[topic].read_queues():
            raise RouteError("NO_READABLE_QUEUE", topic=topic)

    def address_of(self, broker_name: str) -> str | None:
        """The master's address; None while no route names one."""
        for route in tuple(self._routes.values()):
            address = route.master_address(broker_name)
            if address is not None:
                return address
        return None

    def _broker_names(self) -> list[str]:
        return sorted({broker.broker_name for route in self._routes.values() for broker in route.brokers})

    def addresses(self) -> set[str]:
        """Of all brokers, slaves included."""
        brokers = (broker for route in self._routes.values() for broker in route.brokers)
        return {address for broker in brokers for address in broker.addresses.values()}

    def masters(self) -> set[str]:
        """Addresses of the brokers' masters."""
        return {address for name in self._broker_names() if (address := self.address_of(name)) is not None}

    # ------------------------------------------------------------------------------------------ questions

    def consumer_ids(self) -> list[str] | None:
        """The group's members as the first broker that answers lists them."""
        for broker_name in self._broker_names():
            client_ids = self._ask(broker_name, lambda broker: broker.consumer_ids(self._group))
            if client_ids is not None:
                return client_ids
        return None

    def subscriptions_of(self, client_ids: Collection[str]) -> dict[str, tuple[SubscriptionData, ...]]:
        """What members say that they subscribe to. A broker asks them, any that is up; silence means nothing here."""
        broker_name = next(filter(self.may_ask, self._broker_names()), None)
        address = None if broker_name is None else self.address_of(broker_name)
        if address is None or not client_ids:
            return {}
        try:
            infos = self._cluster.broker(address).running_infos(self._group, client_ids)
        except RocketMQError as error:
            log.info("members not asked for their subscriptions: %s", error)
            return {}
        return {client_id: info.subscriptions for client_id, info in infos.items()}

    def bounds(self) -> dict[MessageQueue, QueueBounds]:
        """The bounds of all readable queues, one request for each topic and broker; without the silent brokers'
        queues."""
        bounds: dict[MessageQueue, QueueBounds] = {}
        for topic, route in self._routes.items():
            readable = set(route.read_queues())
            for broker_name in sorted({queue.broker_name for queue in readable}):
                held = self._bounds_at(broker_name, topic)
                bounds |= {queue: of_queue for queue, of_queue in held.items() if queue in readable}
        return bounds

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset of each queue that was stored at the given time or later, else its max offset. Queues whose
        broker is silent are left out."""
        found: dict[MessageQueue, int] = {}
        for queue, timestamp_ms in timestamps_ms.items():
            offset = self._search_at(queue, timestamp_ms)
            if offset is not None:
                found[queue] = offset
        return found

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The group's offsets at the brokers; None where there is none. Queues whose broker is silent are left out."""
        stored: dict[MessageQueue, int | None] = {}
        for broker_name, of_broker in _by_broker(queues).items():
            stored |= self._stored_at(broker_name, of_broker)
        return stored

    def write_offsets(self, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """Let the brokers store exactly ``offsets``; says for which queues a broker has confirmed it."""
        written: set[MessageQueue] = set()
        for broker_name, of_broker in _by_broker(offsets).items():
            written |= self._write_at(broker_name, {queue: offsets[queue] for queue in of_broker})
        return written

    def _write_at(self, broker_name: str, offsets: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        failures = self._ask(broker_name, lambda broker: broker.update_offsets(self._group, offsets))
        if failures is None:
            return set()
        for queue, error in failures.items():
            log.warning("offset not stored queue=%s offset=%d: %s", queue, offsets[queue], error)
            if error.condition == "OFFSET_NOT_TAKEN":
                self.take_reset(queue)
            else:
                self.failed(_broker(broker_name), error, self._options.cluster_timeout_ms)
        return offsets.keys() - failures.keys()

    def lock(self, client_id: str, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Lock queues for ``client_id``: those that brokers have granted, and those that they have refused."""
        granted: set[MessageQueue] = set()
        refused: set[MessageQueue] = set()
        for broker_name, of_broker in _by_broker(queues).items():
            locked = self._lock_at(broker_name, client_id, of_broker)
            if locked is not None:
                granted |= locked
                refused |= set(of_broker) - locked
        return granted, refused

    def unlock(self, client_id: str, queues: Collection[MessageQueue]) -> None:
        """Unlock queues; one whose broker is silent expires there."""
        for broker_name, of_broker in _by_broker(queues).items():
            self._unlock_at(broker_name, client_id, of_broker)

    def tell(self, address: str, call: Callable[[BrokerPort], object]) -> bool:
        """Tell a broker something that is told again by the timer, or need not be."""
        try:
            call(self._cluster.broker(address))
        except RocketMQError as error:
            log.warning("not told address=%s: %s", address, error)
            return False
        return True

    # ------------------------------------------------------------------------------------------ an operator's resets

    def note_reset(self, queue: MessageQueue, offset: int) -> None:
        """An operator has reset the queue to ``offset``."""
        self.resets[queue] = offset
        self.news += 1

    def keep_resets(self, resets: Mapping[MessageQueue, int]) -> None:
        """Remember resets on which nobody could act; what has been noted since is newer."""
        self.resets = {**resets, **self.resets}

    def take_reset(self, queue: MessageQueue) -> None:
        """Learn where an operator has reset the queue to. One pull of the group is told, and the mark is gone then."""
        offset = self._ask(queue.broker_name, lambda broker: broker.take_reset(self._group, queue))
        if offset is not None:
            self.note_reset(queue, offset)

    def put_back_resets(self, queues: Collection[MessageQueue]) -> None:
        """Mark those of ``queues`` as reset again on which nobody has acted. A broker may refuse that."""
        for queue in self.resets.keys() & set(queues):
            self._put_back(queue, self.resets.pop(queue))

    def _put_back(self, queue: MessageQueue, offset: int) -> None:
        address = self.address_of(queue.broker_name)
        if address is not None:
            self.tell(address, lambda broker: broker.reset_offset(self._group, queue, offset))

    # ------------------------------------------------------------------------------------------ one broker

    def _search_at(self, queue: MessageQueue, timestamp_ms: int) -> int | None:
        return self._ask(queue.broker_name, lambda broker: broker.search_offset(queue, timestamp_ms))

    def _bounds_at(self, broker_name: str, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Nothing where the broker does not have the topic any more: the route will follow."""
        try:
            return self._ask(broker_name, lambda broker: broker.topic_stats(topic)) or {}
        except BrokerError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return {}

    def _stored_at(self, broker_name: str, queues: Collection[MessageQueue]) -> dict[MessageQueue, int | None]:
        return self._ask(broker_name, lambda broker: broker.query_offsets(self._group, queues)) or {}

    def _lock_at(self, broker_name: str, client_id: str, queues: Collection[MessageQueue]) -> set[MessageQueue] | None:
        return self._ask(broker_name, lambda broker: broker.lock_batch(self._group, client_id, queues))

    def _unlock_at(self, broker_name: str, client_id: str, queues: Collection[MessageQueue]) -> None:
        self._ask(broker_name, lambda broker: broker.unlock_batch(self._group, client_id, queues))

    def _ask(self, broker_name: str, call: Callable[[BrokerPort], T]) -> T | None:
        """Ask a broker by name; None if it is silent, or was a moment ago. Refusals that will not pass are raised."""
        subject, address = _broker(broker_name), self.address_of(broker_name)
        if address is None or not self._patience.may_try(subject, self._clock()):
            return None
        try:
            answer = call(self._cluster.broker(address))
        except RocketMQError as error:
            if outlook_of_request(error) is not Outlook.PASSES:
                raise
            self.failed(subject, error, self._options.cluster_timeout_ms)
            return None
        self.succeeded(subject)
        return answer


def _broker(name: str) -> str:
    return f"broker {name}"


def _topic(name: str) -> str:
    return f"topic {name}"


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    grouped: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        grouped.setdefault(queue.broker_name, []).append(queue)
    return grouped
