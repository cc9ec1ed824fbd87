"""Which queues of a topic belong to which member: RocketMQ's six strategies, and one over all topics.

Members share nothing: each computes its own part from the same sorted lists of queues and client ids, so every strategy
here must give what the others expect. For the same input the six answer as the Java client's classes of the same names;
``AVG_ALL_TOPICS`` is ours alone, for groups of Spark members only.

Source: ``client/consumer/rebalance/*.java``. Differs: where Java throws IllegalArgumentException for what only a caller
can do wrong, it is a ValueError here.
"""

from __future__ import annotations

import hashlib
import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

from rocketmq_spark.errors import MembershipError
from rocketmq_spark.model import MessageQueue, java_string_order

log = logging.getLogger(__name__)


@runtime_checkable
class AllocateMessageQueueStrategy(Protocol):
    """Divides the queues of one topic."""

    @property
    def name(self) -> str:
        """As ``getName`` of the Java class says."""

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of member ``client_id``; none if ``client_ids`` does not name it.

        All members must pass the same ``queues`` and ``client_ids`` in the same order, neither of them empty.
        """


@runtime_checkable
class AllocateAllTopicsStrategy(Protocol):
    """Divides the queues of all subscribed topics at once."""

    @property
    def name(self) -> str: ...

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of member ``client_id``, of whatever topic; none if ``client_ids`` does not name it."""


Strategy: TypeAlias = AllocateMessageQueueStrategy | AllocateAllTopicsStrategy


def allocate_all(
    strategy: Strategy,
    group: str,
    client_id: str,
    queues_by_topic: Mapping[str, Sequence[MessageQueue]],
    client_ids: Sequence[str],
) -> list[MessageQueue]:
    """What member ``client_id`` owns of all its topics, each queue once; the arguments may be in any order.

    Topics without queues are left out.

    Source: ``client/impl/consumer/RebalanceImpl.java#rebalanceByTopic``, which sorts before it allocates.
    """
    members = sorted(client_ids, key=java_string_order)
    topics = [sorted(queues, key=MessageQueue.sort_key) for _, queues in sorted(queues_by_topic.items()) if queues]
    if not topics:
        return []
    if isinstance(strategy, AllocateAllTopicsStrategy):
        return strategy.allocate_all_topics(group, client_id, list(chain.from_iterable(topics)), members)
    parts = (strategy.allocate(group, client_id, queues, members) for queues in topics)
    return list(dict.fromkeys(chain.from_iterable(parts)))


class AllocateAllToEach:
    """BROADCASTING: everybody reads everything.

    Source: ``client/impl/consumer/RebalanceImpl.java#rebalanceByTopic``, for which it is no strategy.
    """

    name: ClassVar[str] = "BROADCASTING"

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(queues)


def is_member(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> bool:
    """Whether there is something to allocate to ``client_id``; ValueError for arguments that make no sense.

    Source: ``client/consumer/rebalance/AbstractAllocateMessageQueueStrategy.java#check``.
    """
    for value, what in ((client_id, "client_id"), (queues, "queues"), (client_ids, "client_ids")):
        if not value:
            raise ValueError(f"{what} is empty")
    return client_id in client_ids


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueAveragely:
    """Consecutive blocks, the first members' one longer. The default of RocketMQ's clients."""

    name: ClassVar[str] = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not is_member(client_id, queues, client_ids):
            return []
        size, longer = divmod(len(queues), len(client_ids))
        index = client_ids.index(client_id)
        begin = index * size + min(index, longer)
        return list(queues[begin : begin + size + (index < longer)])


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueAveragelyByCircle:
    """One queue to each member in turn."""

    name: ClassVar[str] = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not is_member(client_id, queues, client_ids):
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


HashFunction = Callable[[str], int]


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5 of ``key`` in UTF-8, big-endian and unsigned.

    A lone surrogate counts as ``?``, as in Java's encoder. Source: ``common/consistenthash/ConsistentHashRouter.java``.
    """
    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class ConsistentHashRouter:
    """A ring of virtual nodes, and the node at or after the hash of a key.

    A node that is named twice gets twice as many virtual nodes: their numbers go on from those it has on the ring. Of
    two virtual nodes with one hash, the later one takes the place. Threads: any, it does not change.
    Source: ``common/consistenthash/ConsistentHashRouter.java``.
    """

    def __init__(self, nodes: Sequence[str], virtual_node_count: int, hash_function: HashFunction = md5_hash) -> None:
        self._hash_function = hash_function
        self._ring: dict[int, str] = {}
        for node in nodes:
            self._add(node, virtual_node_count)
        self._hashes = sorted(self._ring)

    def _add(self, node: str, virtual_node_count: int) -> None:
        present = sum(owner == node for owner in self._ring.values())
        for replica in range(present, present + virtual_node_count):
            self._ring[self._hash_function(f"{node}-{replica}")] = node

    def route(self, key: str) -> str | None:
        """The node that ``key`` belongs to; None on an empty ring."""
        if not self._hashes:
            return None
        position = bisect_left(self._hashes, self._hash_function(key))
        return self._ring[self._hashes[position % len(self._hashes)]]


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueConsistentHash:
    """Each queue to the member of the next virtual node on a hash ring. Few queues move, but loads differ a lot."""

    name: ClassVar[str] = "CONSISTENT_HASH"

    virtual_node_count: int = 10
    hash_function: HashFunction = md5_hash

    def __post_init__(self) -> None:
        if self.virtual_node_count < 0:
            raise ValueError(f"virtual_node_count is {self.virtual_node_count}")

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not is_member(client_id, queues, client_ids):
            return []
        router = ConsistentHashRouter(client_ids, self.virtual_node_count, self.hash_function)
        return [queue for queue in queues if router.route(_java_text(queue)) == client_id]


def _java_text(queue: MessageQueue) -> str:
    """``MessageQueue#toString`` of Java, the key on its ring."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueByConfig:
    """A fixed list, whatever the group looks like. The user sees to it that no two members name the same queue."""

    name: ClassVar[str] = "CONFIG"

    message_queues: tuple[MessageQueue, ...]

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(self.message_queues)


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueByMachineRoom:
    """Averagely, of the brokers called ``room@name`` in one of ``consumer_idcs``; the queues of others are nobody's."""

    name: ClassVar[str] = "MACHINE_ROOM"

    consumer_idcs: frozenset[str]

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not is_member(client_id, queues, client_ids):
            return []
        eligible = [queue for queue in queues if self._is_here(queue.broker_name)]
        size, remainder = divmod(len(eligible), len(client_ids))
        index = client_ids.index(client_id)
        block = eligible[size * index : size * (index + 1)]
        return block + ([eligible[size * len(client_ids) + index]] if index < remainder else [])

    def _is_here(self, broker_name: str) -> bool:
        """Java's ``split("@")`` forgets empty parts at the end."""
        parts = broker_name.rstrip("@").split("@")
        return len(parts) == 2 and parts[0] in self.consumer_idcs


@runtime_checkable
class MachineRoomResolver(Protocol):
    """Knows in which machine room brokers and clients run. All members of a group need the same one."""

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        """The room of the broker that holds ``queue``; never empty."""

    def consumer_deploy_in(self, client_id: str) -> str:
        """The room of a client; never empty."""


@dataclass(frozen=True, slots=True)
class AllocateMachineRoomNearby:
    """Another strategy within each machine room; queues of rooms where no member runs are divided among all.

    MembershipError[UNKNOWN_MACHINE_ROOM] when the resolver does not know where a broker or this client runs. Another
    client in no known room gets nothing, and is warned of once: Java divides nothing more then. It fails by itself, if
    it asks the same resolver.

    Not thread-safe.
    """

    strategy: AllocateMessageQueueStrategy
    resolver: MachineRoomResolver
    _strangers: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.strategy.name}"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not is_member(client_id, queues, client_ids):
            return []
        queues_in = self._queues_by_room(queues)
        here = _require_room(self.resolver.consumer_deploy_in(client_id), client_id)
        members_in = self._members_by_room(client_ids)
        members_with_room = [one for one in client_ids if any(one in members for members in members_in.values())]
        nearby = queues_in.pop(here, [])
        mine = self.strategy.allocate(group, client_id, nearby, members_in[here]) if nearby else []
        for room in sorted(queues_in.keys() - members_in.keys(), key=java_string_order):
            mine += self.strategy.allocate(group, client_id, queues_in[room], members_with_room)
        return mine

    def _queues_by_room(self, queues: Sequence[MessageQueue]) -> dict[str, list[MessageQueue]]:
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            rooms.setdefault(_require_room(self.resolver.broker_deploy_in(queue), str(queue)), []).append(queue)
        return rooms

    def _members_by_room(self, client_ids: Sequence[str]) -> dict[str, list[str]]:
        rooms: dict[str, list[str]] = {}
        for client_id in client_ids:
            room = self.resolver.consumer_deploy_in(client_id)
            if room:
                rooms.setdefault(room, []).append(client_id)
            elif client_id not in self._strangers:
                self._strangers.add(client_id)
                log.warning(
                    "UNKNOWN_MACHINE_ROOM: Resolver returned no machine room for clientId=%s; the member gets no "
                    "queues. Add the member to the resolver.",
                    client_id,
                )
        return rooms


def _require_room(room: str | None, subject: str) -> str:
    if not room:
        raise MembershipError("UNKNOWN_MACHINE_ROOM", subject=subject)
    return room


@dataclass(frozen=True, slots=True)
class AllocateAveragelyOverAllTopics:
    """Consecutive blocks of all topics' queues together: loads differ by at most one. For groups of Spark members only.

    Allocation by topic gives the first members the odd queue of every topic, and later members nothing where topics are
    small. Queues are sorted by broker and ID before topic, so that a member has about as many of each topic as others.
    """

    name: ClassVar[str] = "AVG_ALL_TOPICS"

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return AllocateMessageQueueAveragely().allocate(
            group, client_id, sorted(queues, key=_across_topics), client_ids
        )


def _across_topics(queue: MessageQueue) -> tuple[bytes, int, bytes]:
    return java_string_order(queue.broker_name), queue.queue_id, java_string_order(queue.topic)
