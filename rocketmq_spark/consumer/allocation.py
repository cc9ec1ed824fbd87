"""Allocation of a topic's queues to members: RocketMQ's six strategies, and one for all topics together.

Members share no state. Each computes its own part from the same sorted lists of queues and client IDs, and all parts
must match. For equal input the six return the same as the Java client's classes of the same names. ``AVG_ALL_TOPICS``
exists only here, for groups of Spark members only.

Source: ``client/consumer/rebalance/*.java``. Differs: for a caller's mistakes Java throws IllegalArgumentException,
here it is a ValueError.
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
    """Strategy that allocates the queues of one topic."""

    @property
    def name(self) -> str:
        """Return the name, as ``getName`` of the Java class does."""

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of member ``client_id``, of one topic; [] if ``client_ids`` lacks it.

        All members must pass the same ``queues`` and ``client_ids`` in the same order, neither of them empty.
        """


@runtime_checkable
class AllocateAllTopicsStrategy(Protocol):
    """Strategy that allocates the queues of all subscribed topics together."""

    @property
    def name(self) -> str: ...

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of member ``client_id``, of all topics; [] if ``client_ids`` lacks it, unless the strategy
        is independent of the members."""


Strategy: TypeAlias = AllocateMessageQueueStrategy | AllocateAllTopicsStrategy


def allocate_all(
    strategy: Strategy,
    group: str,
    client_id: str,
    queues_by_topic: Mapping[str, Sequence[MessageQueue]],
    client_ids: Sequence[str],
) -> list[MessageQueue]:
    """Sort topics, queues and ``client_ids``, call the strategy once for each topic that has queues, and return its
    results joined, each queue once. Call an AllocateAllTopicsStrategy once for all topics, and return its result
    unchanged. Return [] without a call if no topic has queues. Raises what the strategy raises. Source:
    ``client/impl/consumer/RebalanceImpl.java#rebalanceByTopic``, which sorts before it allocates."""
    members = sorted(client_ids, key=java_string_order)
    topics = [sorted(queues, key=MessageQueue.sort_key) for _, queues in sorted(queues_by_topic.items()) if queues]
    if not topics:
        return []
    if isinstance(strategy, AllocateAllTopicsStrategy):
        return strategy.allocate_all_topics(group, client_id, list(chain.from_iterable(topics)), members)
    parts = (strategy.allocate(group, client_id, queues, members) for queues in topics)
    return list(dict.fromkeys(chain.from_iterable(parts)))


class AllocateAllToEach:
    """Strategy of BROADCASTING: every member reads all queues.

    Source: ``client/impl/consumer/RebalanceImpl.java#rebalanceByTopic``, where it is not a strategy.
    """

    name: ClassVar[str] = "BROADCASTING"

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return all ``queues`` as a new list; the other arguments have no effect."""
        return list(queues)


@dataclass(frozen=True, slots=True)
class AllocateAssigned:
    """Strategy of ``assign``: this query reads the assigned queues that exist, independent of members."""

    name: ClassVar[str] = "ASSIGNED"

    assigned: frozenset[MessageQueue]

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return those of ``queues`` that are assigned, in their order; the other arguments have no effect."""
        return [queue for queue in queues if queue in self.assigned]


def is_member(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> bool:
    """Return whether ``client_ids`` contains ``client_id``. Raises ValueError if one of the three arguments is empty.

    Source: ``client/consumer/rebalance/AbstractAllocateMessageQueueStrategy.java#check``.
    """
    for value, what in ((client_id, "client_id"), (queues, "queues"), (client_ids, "client_ids")):
        if not value:
            raise ValueError(f"{what} is empty")
    return client_id in client_ids


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueAveragely:
    """Strategy AVG: consecutive blocks of queues, one queue longer for the first members if queues remain. The default
    of RocketMQ's clients."""

    name: ClassVar[str] = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the consecutive block of ``queues`` for the position of ``client_id`` in ``client_ids``. If queues
        remain, the first members get one more. Return [] for a member that is not in ``client_ids``, or gets no queue.
        Raises ValueError if one of the last three arguments is empty; ``group`` has no effect."""
        if not is_member(client_id, queues, client_ids):
            return []
        size, longer = divmod(len(queues), len(client_ids))
        index = client_ids.index(client_id)
        begin = index * size + min(index, longer)
        return list(queues[begin : begin + size + (index < longer)])


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueAveragelyByCircle:
    """Strategy AVG_BY_CIRCLE: one queue to each member, round robin."""

    name: ClassVar[str] = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return every n-th of ``queues`` for n members, from the position of ``client_id`` on; [] if ``client_ids``
        lack it. Raises ValueError if one of the last three arguments is empty; ``group`` has no effect."""
        if not is_member(client_id, queues, client_ids):
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


HashFunction = Callable[[str], int]


def md5_hash(key: str) -> int:
    """Return the first four bytes of the MD5 of ``key`` in UTF-8, as an unsigned big-endian integer.

    A lone surrogate counts as ``?``, as in Java's encoder. Source: ``common/consistenthash/ConsistentHashRouter.java``.
    """
    digest = hashlib.md5(key.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class ConsistentHashRouter:
    """Hash ring of virtual nodes. A key belongs to the node at or after its hash.

    A node that is listed twice gets twice as many virtual nodes, numbered on from those on the ring. If two virtual
    nodes have the same hash, the later one replaces the earlier. Threads: any, it is immutable. Source:
    ``common/consistenthash/ConsistentHashRouter.java``.
    """

    def __init__(self, nodes: Sequence[str], virtual_node_count: int, hash_function: HashFunction = md5_hash) -> None:
        """Build the ring, with ``virtual_node_count`` virtual nodes for each of ``nodes``; it may be empty."""
        self._hash_function = hash_function
        self._ring: dict[int, str] = {}
        for node in nodes:
            self._add(node, virtual_node_count)
        self._hashes = sorted(self._ring)

    def _add(self, node: str, virtual_node_count: int) -> None:
        """Add virtual nodes ``node-N`` to the ring, with numbers N after those of ``node`` that are on it; replace
        virtual nodes with the same hash."""
        present = sum(owner == node for owner in self._ring.values())
        for replica in range(present, present + virtual_node_count):
            self._ring[self._hash_function(f"{node}-{replica}")] = node

    def route(self, key: str) -> str | None:
        """Return the node of the first virtual node at or after the hash of ``key`` on the ring, which begins again
        after its end. Return None on an empty ring."""
        if not self._hashes:
            return None
        position = bisect_left(self._hashes, self._hash_function(key))
        return self._ring[self._hashes[position % len(self._hashes)]]


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueConsistentHash:
    """Strategy CONSISTENT_HASH: each queue to the member of the next virtual node on a hash ring. Few queues move at a
    rebalance, but loads differ a lot."""

    name: ClassVar[str] = "CONSISTENT_HASH"

    virtual_node_count: int = 10
    hash_function: HashFunction = md5_hash

    def __post_init__(self) -> None:
        """Raise ValueError for a negative ``virtual_node_count``; with 0 no queue is allocated."""
        if self.virtual_node_count < 0:
            raise ValueError(f"virtual_node_count is {self.virtual_node_count}")

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues, in their order, that a hash ring of ``client_ids`` maps to ``client_id``; [] if
        ``client_ids`` lack it. Raises ValueError if one of the last three arguments is empty; ``group`` has no
        effect."""
        if not is_member(client_id, queues, client_ids):
            return []
        router = ConsistentHashRouter(client_ids, self.virtual_node_count, self.hash_function)
        return [queue for queue in queues if router.route(_java_text(queue)) == client_id]


def _java_text(queue: MessageQueue) -> str:
    """Return Java's ``MessageQueue#toString``, the queue's key on the ring."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueByConfig:
    """Strategy CONFIG: a fixed list, independent of the group. The user ensures that no two members list the same
    queue."""

    name: ClassVar[str] = "CONFIG"

    message_queues: tuple[MessageQueue, ...]

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return all ``message_queues`` as a new list, even queues that ``queues`` lack; the arguments have no
        effect."""
        return list(self.message_queues)


@dataclass(frozen=True, slots=True)
class AllocateMessageQueueByMachineRoom:
    """Strategy MACHINE_ROOM: the queues of brokers named ``room@name`` with a room of ``consumer_idcs``, allocated on
    average. No member reads other queues."""

    name: ClassVar[str] = "MACHINE_ROOM"

    consumer_idcs: frozenset[str]

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Divide the queues of brokers in ``consumer_idcs`` into equal blocks, one for each of ``client_ids``. Of the
        queues that remain at the end, each of the first members gets one. Return the block at the position of
        ``client_id``, then its remaining queue; [] if ``client_ids`` lack it. Raises ValueError if one of the last
        three arguments is empty; ``group`` has no effect."""
        if not is_member(client_id, queues, client_ids):
            return []
        eligible = [queue for queue in queues if self._is_here(queue.broker_name)]
        size, remainder = divmod(len(eligible), len(client_ids))
        index = client_ids.index(client_id)
        block = eligible[size * index : size * (index + 1)]
        return block + ([eligible[size * len(client_ids) + index]] if index < remainder else [])

    def _is_here(self, broker_name: str) -> bool:
        """Return whether the broker's name is ``room@name``, with exactly one "@", and the room is in
        ``consumer_idcs``. As in Java, each "@" at the end of the name is ignored."""
        parts = broker_name.rstrip("@").split("@")
        return len(parts) == 2 and parts[0] in self.consumer_idcs


@runtime_checkable
class MachineRoomResolver(Protocol):
    """Maps brokers and clients to machine rooms. All members of a group need the same resolver."""

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        """Return the room of the broker that has ``queue``; never empty."""

    def consumer_deploy_in(self, client_id: str) -> str:
        """Return the room of a client; never empty."""


@dataclass(frozen=True, slots=True)
class AllocateMachineRoomNearby:
    """Another strategy within each machine room; the queues of rooms without members are allocated among all members
    that have a room.

    Raises MembershipError[UNKNOWN_MACHINE_ROOM] when the resolver returns no room for a broker or this client. Another
    client without a room gets no queues and is logged once; Java then allocates nothing. With the same resolver that
    client fails itself.

    Not thread-safe.
    """

    strategy: AllocateMessageQueueStrategy
    resolver: MachineRoomResolver
    _strangers: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Return ``MACHINE_ROOM_NEARBY-`` and the name of ``strategy``."""
        return f"MACHINE_ROOM_NEARBY-{self.strategy.name}"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Call ``strategy`` for the queues in the room of ``client_id``, with the members there. Then call it for each
        room without members, with all members that have a room. Return the results joined; [] if ``client_ids`` lack
        ``client_id``. A member without a room gets no queues, and is logged once. Calls the resolver for each queue and
        member. Raises MembershipError[UNKNOWN_MACHINE_ROOM] if the resolver returns no room for a broker or for
        ``client_id``, ValueError if one of the last three arguments is empty."""
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
        """Return the queues by the room that the resolver returns for their broker. Raises
        MembershipError[UNKNOWN_MACHINE_ROOM] if it returns none."""
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            rooms.setdefault(_require_room(self.resolver.broker_deploy_in(queue), str(queue)), []).append(queue)
        return rooms

    def _members_by_room(self, client_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the members by the room that the resolver returns for them. A member without a room is omitted, and
        logged once per strategy object."""
        rooms: dict[str, list[str]] = {}
        for client_id in client_ids:
            room = self.resolver.consumer_deploy_in(client_id)
            if room:
                rooms.setdefault(room, []).append(client_id)
            elif client_id not in self._strangers:
                self._strangers.add(client_id)
                log.warning(
                    "UNKNOWN_MACHINE_ROOM: Machine room resolver returned no room for clientId=%s; the member gets no "
                    "queues. Add the member to the resolver.",
                    client_id,
                )
        return rooms


def _require_room(room: str | None, subject: str) -> str:
    """Return ``room``. Raises MembershipError[UNKNOWN_MACHINE_ROOM], which names ``subject``, if it is None or
    empty."""
    if not room:
        raise MembershipError("UNKNOWN_MACHINE_ROOM", subject=subject)
    return room


@dataclass(frozen=True, slots=True)
class AllocateAveragelyOverAllTopics:
    """Consecutive blocks of all topics' queues together: loads differ by at most one queue. For groups of Spark members
    only.

    Allocation by topic gives the first members the odd queue of every topic, and later members nothing where topics are
    small. Queues are sorted by broker and ID before topic, so that each member has about as many queues of each topic.
    """

    name: ClassVar[str] = "AVG_ALL_TOPICS"

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Sort ``queues`` by broker, ID and topic, and return the consecutive block for the position of ``client_id``
        in ``client_ids``; [] if ``client_ids`` lack it. Raises ValueError if one of the last three arguments is empty;
        ``group`` has no effect."""
        return AllocateMessageQueueAveragely().allocate(
            group, client_id, sorted(queues, key=_across_topics), client_ids
        )


def _across_topics(queue: MessageQueue) -> tuple[bytes, int, bytes]:
    """Return a sort key: broker name, queue ID, topic."""
    return java_string_order(queue.broker_name), queue.queue_id, java_string_order(queue.topic)
