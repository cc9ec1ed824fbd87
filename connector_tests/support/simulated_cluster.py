"""A cluster in memory behind the ports of ``consumer.outage_aware_client``: name server, brokers, one consumer group,
time by hand.

It follows the real broker where members could come to harm: group offsets are taken whatever they are; the list of
members is one of connections, in which the dead stay until the broker notices; each broker knows only the heartbeats
that reached it; queue locks expire. Every request is a point (``strand.point``), so others may come in between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, Generic, TypeVar

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.strand import point
from rocketmq_spark.consumer.outage_aware_client import OFFSET_DELETION_VERSION
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import (
    BrokerAddress,
    BrokerData,
    MessageFilter,
    MessageQueue,
    QueueBounds,
    QueueData,
    TopicList,
    TopicRoute,
)
from rocketmq_spark.remoting.prober import TOOLS_PROBER, Prober
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.wire.body.groups import Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo
from rocketmq_spark.wire.body.subscription import build_subscription
from rocketmq_spark.wire.body.topics import TopicSettings
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION

GROUP: Final = "g"
OLD_VERSION: Final = 407
"""RocketMQ 4.9.7's."""
CONNECTION_EXPIRY_MS: Final = 120_000
FLUSH_MS: Final = 5_000
"""Period in which brokers flush the group's offsets."""
LOCK_EXPIRY_MS: Final = 60_000
MESSAGE_BYTES: Final = 100
"""Size of every message."""

T = TypeVar("T")


class Reach(Enum):
    """How a broker can be reached. UNRESPONSIVE: it sends no response; UNAVAILABLE: the name server has removed it from
    the route, too."""

    UP = "up"
    UNRESPONSIVE = "silent"
    UNAVAILABLE = "away"


class Fate(Enum):
    """What becomes of a request whose response does not arrive. LOST: nothing is done; NO_RESPONSE: all is done; HALF:
    of several offsets the first is stored."""

    LOST = "lost"
    NO_RESPONSE = "unanswered"
    HALF = "half"


@dataclass
class Connection:
    """What a broker knows of one connection: who it says it is, when it last said so, and what it said."""

    client_id: str
    heard_ms: int
    heartbeat: Heartbeat | None = None


@dataclass(frozen=True)
class Other:
    """The owner of a connection that no test moves."""

    number: int


@dataclass
class SimulatedBroker:
    """One master. ``offsets``: the group's; ``connections``: by owner, in the order in which they came; ``stored_ms``:
    when each message of a queue was stored, that is all there is to messages; ``min_offsets``: what retention has left;
    ``marks``: where an operator has reset queues to, and nobody was told.

    ``connection_number``: of the connection that the next request uses, as ``ConnectionPool.connection_number``: it
    grows when connections are lost, not when the broker is back. ``flushed``: the group's offsets on disk.

    ``permission`` and ``master_id`` are what routes say of it. ``refusal`` is its answer to everything,
    ``pull_refusal`` to pulls, which do not find what is ``compacted``, ``group_refusal`` to who is not listed,
    ``filter_refusal`` to filters, ``write_refusal`` to group offsets; to a question or write about one of
    ``unresponsive_searches`` and ``unacknowledged_writes`` it gives none. One that ``ignores_heartbeats`` answers
    heartbeats and forgets them; the hints of one are too small by its ``hint_deficit``. Routes name so many ``slaves``.
    One of ``version`` 4 keeps the group's offsets of a topic that is deleted.
    """

    name: str
    clock: ManualClock
    reach: Reach = Reach.UP
    address: str = ""
    connections: dict[object, Connection] = field(default_factory=dict)
    offsets: dict[MessageQueue, int] = field(default_factory=dict)
    stored_ms: dict[MessageQueue, list[int]] = field(default_factory=dict)
    min_offsets: dict[MessageQueue, int] = field(default_factory=dict)
    locks: dict[MessageQueue, tuple[str, int]] = field(default_factory=dict)
    marks: dict[MessageQueue, int] = field(default_factory=dict)
    connection_number: int = 1
    flushed: dict[MessageQueue, int] = field(default_factory=dict)
    flushed_ms: int = 0
    permission: int = 6
    master_id: int = 0
    refusal: RocketMQError | None = None
    compacted: set[tuple[MessageQueue, int]] = field(default_factory=set)
    write_refusal: RocketMQError | None = None
    ignores_heartbeats: bool = False
    slaves: int = 0
    pull_refusal: RocketMQError | None = None
    reset_refusal: RocketMQError | None = None
    group_refusal: RocketMQError | None = None
    filter_refusal: RocketMQError | None = None
    checked_filters: list[MessageFilter] = field(default_factory=list)
    unresponsive_searches: set[MessageQueue] = field(default_factory=set)
    hint_deficit: int = 0
    unacknowledged_writes: set[MessageQueue] = field(default_factory=set)
    version: int = CLIENT_VERSION

    def __post_init__(self) -> None:
        self.address = self.address or address_of(self.name).server

    def consumer_ids(self) -> list[str]:
        """One for each connection, as a broker lists them: in no useful order."""
        self.expire()
        return [connection.client_id for connection in reversed(self.connections.values())]

    def bounds(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Of an empty queue, as after retention, no store time is known."""
        bounds = {}
        for queue, stored_ms in self.stored_ms.items():
            held = slice(self.min_offsets.get(queue, 0), None)
            if queue.topic == topic:
                bounds[queue] = QueueBounds(held.start, len(stored_ms), (stored_ms[held] or [0])[-1])
        return bounds

    def store(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Take the group's offsets, whatever they are. Earlier ones are flushed if the last flush is old enough."""
        if self.clock() - self.flushed_ms >= FLUSH_MS:
            self.flushed, self.flushed_ms = dict(self.offsets), self.clock()
        self.offsets |= offsets

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """As an operator does."""
        self.offsets[queue] = self.marks[queue] = offset

    def recreate(self, queue: MessageQueue) -> None:
        """Its topic is deleted and created again, and the group's offset with it where brokers do that."""
        self.stored_ms[queue] = []
        for table in (self.min_offsets, self.marks):
            table.pop(queue, None)
        if self.version >= OFFSET_DELETION_VERSION:
            self.offsets.pop(queue, None)
            self.flushed.pop(queue, None)

    def restart(self, lost_messages: int = 0) -> None:
        """Locks and marks are in its memory; of each queue the last messages may be lost, too."""
        self._lose_memory()
        for queue, stored_ms in self.stored_ms.items():
            kept = max(len(stored_ms) - lost_messages, self.min_offsets.get(queue, 0))
            del stored_ms[kept:]

    def kill(self) -> None:
        """SIGKILL: the broker is down until its ``reach`` changes; the group's offsets since its flush are lost."""
        self._lose_memory()
        self.offsets = {queue: at for queue, at in self.flushed.items() if queue in self.stored_ms}
        self.reach = Reach.UNRESPONSIVE

    def _lose_memory(self) -> None:
        self.connection_number += 1
        self.locks.clear()
        self.marks.clear()

    def retain(self) -> None:
        """Delete what the group has read; of a topic that was made anew an old broker may say more than there is."""
        for queue, read_to in self.offsets.items():
            deleted_to = min(read_to, len(self.stored_ms.get(queue, ())))
            self.min_offsets[queue] = max(deleted_to, self.min_offsets.get(queue, 0))

    def store_times(self, queue: MessageQueue, offset: int) -> int | None:
        is_there = self.min_offsets.get(queue, 0) <= offset < len(self.stored_ms.get(queue, ()))
        is_there = is_there and (queue, offset) not in self.compacted
        return self.stored_ms[queue][offset] if is_there else None

    def unregister(self, owner: object, client_id: str) -> None:
        connection = self.connections.get(owner)
        if connection is not None and connection.client_id == client_id:
            del self.connections[owner]

    def expire(self) -> None:
        silent_since_ms = self.clock() - CONNECTION_EXPIRY_MS
        for owner in [
            owner for owner, registration in self.connections.items() if registration.heard_ms < silent_since_ms
        ]:
            del self.connections[owner]

    def lock(self, client_id: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        free = {queue for queue in queues if self._lock_owner(queue) in {None, client_id}}
        self.locks |= {queue: (client_id, self.clock()) for queue in free}
        return free

    def unlock(self, client_id: str, queues: Collection[MessageQueue]) -> None:
        for queue in queues:
            if self._lock_owner(queue) == client_id:
                del self.locks[queue]

    def _lock_owner(self, queue: MessageQueue) -> str | None:
        client_id, locked_ms = self.locks.get(queue, (None, 0))
        return client_id if self.clock() - locked_ms <= LOCK_EXPIRY_MS else None


class SimulatedCluster:
    """Brokers and topics. ``now`` counts requests and events, for whoever wants to know what came first.

    ``on_stored`` hears of every group offset that a broker stores. ``subscriptions``: what members answer when a broker
    asks them, expressions by topic, by client id; who is not in it does not answer; ``consumer_settings``: their
    properties. ``name_server_error`` is what the name server answers instead of routes; where not
    ``has_all_name_servers``, others do not answer; ``responding_slaves`` are
    addresses; ``replicas``, by address, have messages too.
    """

    def __init__(self, broker_names: Iterable[str], clock: ManualClock) -> None:
        self.clock = clock
        self.now = 0
        self.brokers = {name: SimulatedBroker(name, clock) for name in broker_names}
        self.on_stored: Callable[[MessageQueue, int], None] = lambda queue, offset: None
        self.subscriptions: dict[str, dict[str, str]] = {}
        self.consumer_settings: dict[str, dict[str, str]] = {}
        self.running_info_requests: list[list[str]] = []
        self.group_list_requests: list[str] = []
        self.topics_with_batch_queues: set[str] = set()
        self.name_server_error: RocketMQError | None = None
        self.has_all_name_servers = True
        self.topic_list_requests = 0
        self.responding_slaves: set[str] = set()
        self.replicas: dict[str, SimulatedBroker] = {}
        self._published_addresses: dict[str, str] = {}
        self._moved_ms: dict[str, int] = {}
        self._queue_counts: dict[str, dict[str, int]] = {}

    # ------------------------------------------------------------------------------------------ what happens to it

    def create_topic(self, topic: str, queue_counts: Mapping[str, int]) -> None:
        """``queue_counts``: by broker name."""
        self._queue_counts[topic] = {}
        for broker_name, count in queue_counts.items():
            self.grow(topic, broker_name, count)

    def delete_topic(self, topic: str) -> None:
        """With all messages, and with the group's offsets where brokers do that."""
        for queue in [queue for queue in self.queues() if queue.topic == topic]:
            broker = self.brokers[queue.broker_name]
            broker.recreate(queue)
            del broker.stored_ms[queue]
        del self._queue_counts[topic]

    def grow(self, topic: str, broker_name: str, by: int) -> None:
        """More queues for a topic on one broker."""
        counts = self._queue_counts[topic]
        first = counts.get(broker_name, 0)
        counts[broker_name] = first + by
        for queue_id in range(first, first + by):
            self.brokers[broker_name].stored_ms[MessageQueue(topic, broker_name, queue_id)] = []

    def show(self, topic: str, broker_name: str, count: int) -> None:
        """The route is to show so many queues of the broker; those above are kept."""
        self._queue_counts[topic][broker_name] = count

    def set_others(self, *client_ids: str) -> None:
        """Who has connections to each broker beside those that come through a door: these, and nobody else."""
        for broker in self.brokers.values():
            for owner in [owner for owner in broker.connections if isinstance(owner, Other)]:
                del broker.connections[owner]
            for number, client_id in enumerate(client_ids):
                broker.connections[Other(number)] = Connection(client_id, self.clock())

    def produce(self, queue: MessageQueue, count: int) -> None:
        """``count`` messages more, stored within the same millisecond, which nothing else was."""
        self.clock.advance(1)
        self.brokers[queue.broker_name].stored_ms[queue] += [self.clock()] * count

    def set_reach(self, reach: Reach) -> None:
        """All brokers'."""
        for broker in self.brokers.values():
            broker.reach = reach

    def recreate(self, topic: str) -> None:
        """Deleted and created again, as many queues as there were."""
        for queue in self.queues():
            if queue.topic == topic:
                self.brokers[queue.broker_name].recreate(queue)

    def replicate(self, broker_name: str) -> SimulatedBroker:
        """Start a slave of the broker, which has what the broker has now, and return it."""
        broker = self.brokers[broker_name]
        broker.slaves = 1
        server = address_of(f"{broker_name}-slave-1").server
        stored_ms = {queue: list(times) for queue, times in broker.stored_ms.items()}
        replica = SimulatedBroker(broker_name, self.clock, address=server, offsets=dict(broker.offsets))
        replica.stored_ms, replica.min_offsets = stored_ms, dict(broker.min_offsets)
        self.replicas[server] = replica
        return replica

    def exchange_addresses(self, one: str, other: str, *, is_published: bool) -> None:
        """Two brokers are started again, each where the other was. Not ``is_published``: they have not registered
        yet."""
        self._published_addresses = {} if is_published else {name: self.brokers[name].address for name in (one, other)}
        first, second = self.brokers[one], self.brokers[other]
        first.address, second.address = second.address, first.address
        for broker in (first, second):
            broker.restart()
            self._moved_ms[broker.name] = self.clock()
        first.connection_number = second.connection_number = max(first.connection_number, second.connection_number)

    def publish_addresses(self) -> None:
        """All brokers have registered where they are."""
        self._moved_ms |= dict.fromkeys(self._published_addresses, self.clock())
        self._published_addresses = {}

    def lose_connections(self, owner: object) -> None:
        """The brokers notice that somebody is gone."""
        for broker in self.brokers.values():
            broker.connections.pop(owner, None)

    # ------------------------------------------------------------------------------------------ what it is

    def queues(self) -> list[MessageQueue]:
        """All queues of all topics, reachable or not."""
        queues = (queue for broker in self.brokers.values() for queue in broker.stored_ms)
        return sorted(queues, key=MessageQueue.sort_key)

    @property
    def is_up(self) -> bool:
        """Whether all brokers can be reached."""
        return all(broker.reach is Reach.UP for broker in self.brokers.values())

    @property
    def is_whole(self) -> bool:
        """Whether the name server knows all brokers."""
        return all(broker.reach is not Reach.UNAVAILABLE for broker in self.brokers.values())

    def shows_without(self, broker_name: str) -> bool:
        """Whether each other broker shows what topics the group has begun with. One that has no offset of the group
        lets a begun topic look new while the rest are out of the route, and nobody can tell."""
        committed_topics = {queue.topic for broker in self.brokers.values() for queue in broker.offsets}
        other_brokers = [broker for name, broker in self.brokers.items() if name != broker_name]
        return all(
            {queue.topic for queue in broker.stored_ms} & committed_topics <= {queue.topic for queue in broker.offsets}
            for broker in other_brokers
        )

    def max_offset(self, queue: MessageQueue) -> int:
        return len(self.brokers[queue.broker_name].stored_ms.get(queue, ()))

    def group_offset(self, queue: MessageQueue) -> int | None:
        return self.brokers[queue.broker_name].offsets.get(queue)

    def topics(self) -> list[str]:
        return sorted(self._queue_counts)

    @property
    def are_addresses_published(self) -> bool:
        """Whether the name server knows where each broker is."""
        return not self._published_addresses

    def moved_ms(self, broker_name: str) -> int | None:
        """When the broker was last somewhere else, or the name server said so."""
        return self.clock() if broker_name in self._published_addresses else self._moved_ms.get(broker_name)

    def query_topic_route(self, topic: str) -> TopicRoute:
        if self.name_server_error is not None:
            raise self.name_server_error
        if topic not in self._queue_counts:
            raise RouteError("TOPIC_NOT_FOUND", topic=topic, address="the simulated name server")
        counts = self._queue_counts[topic]
        present = [
            name for name, count in counts.items() if count and self.brokers[name].reach is not Reach.UNAVAILABLE
        ]
        return TopicRoute(
            topic=topic,
            brokers=tuple(
                BrokerData(
                    "cluster", name, {self.brokers[name].master_id: self._published_address(name)} | self._slaves(name)
                )
                for name in present
            ),
            queues=tuple(
                QueueData(name, counts[name], counts[name], self.brokers[name].permission) for name in present
            ),
        )

    def topic_list(self) -> TopicList:
        """Of the brokers that are not away: a topic is where it has queues."""
        if self.name_server_error is not None:
            raise self.name_server_error
        self.topic_list_requests += 1
        names = {name for name, broker in self.brokers.items() if broker.reach is not Reach.UNAVAILABLE}
        topics = {
            topic for topic, counts in self._queue_counts.items() if names & {one for one in counts if counts[one]}
        }
        return TopicList(frozenset(topics), frozenset(names), self.has_all_name_servers)

    def _published_address(self, broker_name: str) -> str:
        return self._published_addresses.get(broker_name, self.brokers[broker_name].address)

    def _slaves(self, broker_name: str) -> dict[int, str]:
        numbers = range(1, self.brokers[broker_name].slaves + 1)
        return {number: address_of(f"{broker_name}-slave-{number}").server for number in numbers}

    def broker_at(self, address: BrokerAddress) -> SimulatedBroker:
        if address.server in self.replicas:
            return self.replicas[address.server]
        if "-slave-" in address.server:
            reach = Reach.UP if address.server in self.responding_slaves else Reach.UNRESPONSIVE
            return SimulatedBroker(address.server.partition(":")[0], self.clock, reach)
        return next(broker for broker in self.brokers.values() if broker.address == address.server)


class SimulatedClusterClient:
    """One owner's way to the cluster: a ``ClusterApi`` whose requests may be interrupted, delayed and lost.

    ``fates``: what becomes of this owner's next requests, in order; those that are not in it are answered.
    ``cut_off``: brokers that it cannot reach, though others do. ``round_trip_ms``: how long each answer takes.
    """

    def __init__(self, cluster: SimulatedCluster, owner: object) -> None:
        self.cluster = cluster
        self.owner = owner
        self.fates: list[Fate] = []
        self.cut_off: set[str] = set()
        self.round_trip_ms = 0
        self.before_each: Callable[[], None] = lambda: None
        self._failed_ms: dict[str, int] = {}
        self._routes: dict[str, TopicRoute] = {}
        self.routes = RouteTable(self)

    addresses = "n:9876"

    @property
    def name_servers(self) -> SimulatedClusterClient:
        """Which list topics, too."""
        return self

    def query_topic_list(self) -> TopicList:
        self.arrive("topics")
        return self.cluster.topic_list()

    def query_topic_routes(self, topics: Iterable[str]) -> dict[str, TopicRoute | RocketMQError]:
        """All asked at once."""
        pending_routes = {topic: SimulatedFuture(self, partial(self._topic_route, topic)) for topic in topics}
        routes_by_topic: dict[str, TopicRoute | RocketMQError] = {}
        for topic, result in pending_routes.items():
            try:
                routes_by_topic[topic] = result.result()
            except RocketMQError as error:
                routes_by_topic[topic] = error
        return routes_by_topic

    def _topic_route(self, topic: str) -> TopicRoute:
        self.arrive("route")
        self._routes[topic] = self.cluster.query_topic_route(topic)
        return self._routes[topic]

    def has_route_to(self, broker_name: str) -> bool:
        """Whether a route that the owner was told last shows the broker where it is: it can ask no other."""
        address = BrokerAddress(self.cluster.brokers[broker_name].address)
        return any(route.master_address(broker_name) == address for route in self._routes.values())

    def broker(self, address: BrokerAddress) -> SimulatedBrokerClient:
        return SimulatedBrokerClient(self, self.cluster.broker_at(address))

    def connection_number(self, address: BrokerAddress) -> int:
        return self.cluster.broker_at(address).connection_number

    def version(self, address: BrokerAddress) -> int:
        return self.cluster.broker_at(address).version

    def arrive(self, name: str) -> None:
        self.before_each()
        point(f"request {name}")
        self.cluster.now += 1

    def failed(self, broker: SimulatedBroker) -> TransportError:
        self._failed_ms[broker.name] = self.cluster.clock()
        return TransportError("RESPONSE_TIMED_OUT", address=broker.address, request="?", timeout_ms=3_000)

    def has_failed_since(self, broker_name: str, since_ms: int) -> bool:
        """Whether a request to the broker went wrong since then, or so shortly before that it was not tried again."""
        failures_ms = (self._failed_ms.get(broker_name), self.cluster.moved_ms(broker_name))
        return any(at_ms is not None and since_ms - at_ms <= REQUEST_PAUSES.longest_ms for at_ms in failures_ms)


class SimulatedFuture(Generic[T]):
    """A ``Future``. The request is processed when this is made; ``result`` advances the clock to the end of the
    client's round trip, and returns or raises what came of it."""

    def __init__(self, client: SimulatedClusterClient, do: Callable[[], T]) -> None:
        self._clock = client.cluster.clock
        self._there_ms = self._clock() + client.round_trip_ms
        self._outcome: T | RocketMQError
        try:
            self._outcome = do()
        except RocketMQError as error:
            self._outcome = error

    def result(self) -> T:
        self._clock.advance(max(0, self._there_ms - self._clock()))
        if isinstance(self._outcome, RocketMQError):
            raise self._outcome
        return self._outcome


class SimulatedBrokerClient:
    """One owner's way to one broker: a ``BrokerApi``."""

    def __init__(self, client: SimulatedClusterClient, broker: SimulatedBroker) -> None:
        self._client = client
        self._broker = broker

    def submit_heartbeat(self, heartbeat: Heartbeat) -> SimulatedFuture[None]:
        registration = Connection(heartbeat.client_id, self._broker.clock(), heartbeat)
        _check_name(*(consumer.group for consumer in heartbeat.consumers))
        registered = {} if self._broker.ignores_heartbeats else {self._client.owner: registration}
        return self._submit("heartbeat", lambda: self._broker.connections.update(registered))

    def unregister(self, client_id: str, group: str) -> None:
        _check_name(group)
        self._call("unregister", lambda: self._broker.unregister(self._client.owner, client_id))

    def submit_consumer_ids(self, group: str) -> SimulatedFuture[list[str]]:
        _check_name(group)
        return self._submit("consumer ids", self._broker.consumer_ids)

    def submit_group_check(self, group: str, topic: str) -> SimulatedFuture[None]:
        _check_name(group)
        return self._submit("group check", lambda: self._check_group(topic))

    def _check_group(self, topic: str) -> None:
        self._client.cluster.group_list_requests.append(topic)
        if self._broker.group_refusal is not None:
            raise self._broker.group_refusal

    def submit_filter_check(self, group: str, topic: str, message_filter: MessageFilter) -> SimulatedFuture[None]:
        _check_name(group)
        return self._submit("filter check", lambda: self._check_filter(message_filter))

    def _check_filter(self, message_filter: MessageFilter) -> None:
        self._broker.checked_filters.append(message_filter)
        if self._broker.filter_refusal is not None:
            raise self._broker.filter_refusal

    def query_topic_settings(self, topic: str) -> TopicSettings:
        batched = self._client.cluster.topics_with_batch_queues
        return self._call("topic settings", lambda: TopicSettings("NORMAL", False, topic in batched))

    def query_running_infos(self, group: str, client_ids: Iterable[str]) -> dict[str, ConsumerRunningInfo]:
        """Who does not answer may subscribe to the same."""
        _check_name(group)
        cluster = self._client.cluster
        cluster.running_info_requests.append(sorted(client_ids))
        routes_by_topic = cluster.subscriptions
        consumer_settings = cluster.consumer_settings
        return {
            one: _info(routes_by_topic[one], consumer_settings.get(one, {}))
            for one in client_ids
            if one in routes_by_topic
        }

    def submit_topic_stats(self, topic: str) -> SimulatedFuture[dict[MessageQueue, QueueBounds]]:
        return self._submit("bounds", lambda: self._broker.bounds(topic))

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int], prober: Prober) -> dict[MessageQueue, int]:
        if self._broker.unresponsive_searches & timestamps_ms.keys():
            raise self._client.failed(self._broker)
        self._report_resets(timestamps_ms, prober)
        stored_ms = self._broker.stored_ms
        return self._call(
            "search",
            lambda: {
                queue: bisect_left(stored_ms.get(self._own(queue), []), at_ms) for queue, at_ms in timestamps_ms.items()
            },
        )

    def submit_search_hints(
        self, timestamps_ms: Mapping[MessageQueue, int]
    ) -> SimulatedFuture[dict[MessageQueue, int]]:
        stored_ms = self._broker.stored_ms
        return self._submit(
            "hint",
            lambda: {
                queue: bisect_left(stored_ms.get(self._own(queue), []), at_ms) - self._broker.hint_deficit
                for queue, at_ms in timestamps_ms.items()
            },
        )

    def probe_store_times(self, offsets: Mapping[MessageQueue, int], prober: Prober) -> dict[MessageQueue, int | None]:
        if offsets.keys() & self._broker.unresponsive_searches:
            raise self._client.failed(self._broker)
        if self._broker.pull_refusal is not None:
            raise self._broker.pull_refusal
        self._report_resets(offsets, prober)
        return self._call(
            "look",
            lambda: {queue: self._broker.store_times(self._own(queue), at) for queue, at in offsets.items()},
        )

    def probe_sizes(self, offsets: Mapping[MessageQueue, int], prober: Prober) -> dict[MessageQueue, int | None]:
        stored = self.probe_store_times(offsets, prober)
        return {queue: None if at is None else MESSAGE_BYTES for queue, at in stored.items()}

    def _report_resets(self, queues: Iterable[MessageQueue], prober: Prober) -> None:
        """Report each reset to the prober, as to the first pull of the group after it, and forget it."""
        assert prober.group in (GROUP, TOOLS_PROBER.group), f"not the group: {prober.group}"
        for queue in queues if prober is not TOOLS_PROBER else ():
            if queue in self._broker.marks:
                prober.on_reset(queue, self._broker.marks.pop(queue))

    def submit_query_offsets(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> SimulatedFuture[dict[MessageQueue, int | None]]:
        _check_name(group)
        return self._submit(
            "read offsets", lambda: {queue: self._broker.offsets.get(self._own(queue)) for queue in queues}
        )

    def submit_update_offsets(
        self, group: str, offsets: Mapping[MessageQueue, int]
    ) -> SimulatedFuture[dict[MessageQueue, RocketMQError]]:
        _check_name(group)
        return SimulatedFuture(self._client, lambda: self._update_offsets(group, offsets))

    def _update_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, RocketMQError]:
        fate = self._arrive("write offsets")
        if self._broker.write_refusal is not None:
            return dict.fromkeys(offsets, self._broker.write_refusal)
        arrived = list(offsets)[: {Fate.LOST: 0, Fate.HALF: 1}.get(fate, len(offsets)) if fate else None]
        deleted = [queue for queue in arrived if self._own(queue) not in self._broker.stored_ms]
        arrived = [queue for queue in arrived if queue not in deleted]
        rejected = [queue for queue in arrived if self._own(queue) in self._broker.marks]
        no_response = self._broker.unacknowledged_writes
        accepted = [queue for queue in arrived if queue not in rejected and queue not in no_response]
        self._broker.store({self._own(queue): offsets[queue] for queue in accepted})
        for queue in accepted:
            self._client.cluster.on_stored(self._own(queue), offsets[queue])
        acknowledged = {*accepted, *rejected} if fate is not Fate.NO_RESPONSE else set()
        failures: dict[MessageQueue, RocketMQError] = {
            queue: self._client.failed(self._broker) for queue in offsets if queue not in acknowledged
        }
        failures |= {queue: self._no_topic(queue) for queue in deleted if fate is not Fate.NO_RESPONSE}
        return failures | {queue: self._reset_pending(queue, group) for queue in rejected}

    def _no_topic(self, queue: MessageQueue) -> BrokerError:
        remark = f"the topic {queue.topic} not exist"
        return BrokerError("BROKER_ERROR", address=self._broker.address, request="?", code=17, remark=remark)

    def _reset_pending(self, queue: MessageQueue, group: str) -> BrokerError:
        return BrokerError("OFFSET_RESET_PENDING", address=self._broker.address, queue=str(queue), group=group, code=0)

    def consume_reset(self, group: str, queue: MessageQueue) -> int | None:
        _check_name(group)
        return self._call("take mark", lambda: self._pop_mark(queue))

    def restore_reset(self, group: str, queue: MessageQueue, offset: int) -> None:
        _check_name(group)
        self._call("reset", lambda: self._restore_mark(queue, offset))

    def _restore_mark(self, queue: MessageQueue, offset: int) -> None:
        if self._broker.reset_refusal is not None:
            raise self._broker.reset_refusal
        self._broker.reset(self._own(queue), offset)

    def _pop_mark(self, queue: MessageQueue) -> int | None:
        if self._broker.pull_refusal is not None:
            raise self._broker.pull_refusal
        return self._broker.marks.pop(self._own(queue), None)

    def submit_lock_batch(
        self, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> SimulatedFuture[set[MessageQueue]]:
        _check_name(group)
        return self._submit("lock", lambda: self._broker.lock(client_id, queues))

    def submit_unlock_batch(
        self, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> SimulatedFuture[None]:
        _check_name(group)
        return self._submit("unlock", lambda: self._broker.unlock(client_id, queues))

    def _own(self, queue: MessageQueue) -> MessageQueue:
        """What the broker takes a queue for: requests name none."""
        if queue.broker_name == self._broker.name:
            return queue
        return MessageQueue(queue.topic, self._broker.name, queue.queue_id)

    def _call(self, name: str, do: Callable[[], T]) -> T:
        return self._submit(name, do).result()

    def _submit(self, name: str, do: Callable[[], T]) -> SimulatedFuture[T]:
        return SimulatedFuture(self._client, lambda: self._do(name, do))

    def _do(self, name: str, do: Callable[[], T]) -> T:
        fate = self._arrive(name)
        if fate is Fate.LOST:
            raise self._client.failed(self._broker)
        result = do()
        if fate is not None:
            raise self._client.failed(self._broker)
        return result

    def _arrive(self, name: str) -> Fate | None:
        self._client.arrive(f"{name} {self._broker.name}")
        if self._broker.refusal is not None:
            raise self._broker.refusal
        if self._broker.reach is not Reach.UP or self._broker.name in self._client.cut_off:
            return Fate.LOST
        return self._client.fates.pop(0) if self._client.fates else None


def _info(subscriptions: Mapping[str, str], settings: Mapping[str, str]) -> ConsumerRunningInfo:
    built = tuple(build_subscription(topic, expression, 7) for topic, expression in subscriptions.items())
    return ConsumerRunningInfo(properties=settings, subscriptions=built)


def _check_name(*names: str) -> None:
    """Brokers take any name for a group. There is one, so another one is a mistake of who asks."""
    assert set(names) == {GROUP}, f"not the group: {names}"


def address_of(broker_name: str) -> BrokerAddress:
    return BrokerAddress(f"{broker_name}:10911")
