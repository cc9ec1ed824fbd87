"""Our six strategies and the Java client's give the same queues for the same input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import pytest
from py4j.protocol import Py4JJavaError

from connector_tests.support.java_values import java_queues, java_strings, queues_from, random_text
from rocketmq_spark.consumer.allocation import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
)
from rocketmq_spark.model import MessageQueue, java_string_order

COUNTS = [200, pytest.param(2000, marks=pytest.mark.long)]
REBALANCE = "org.apache.rocketmq.client.consumer.rebalance"


@dataclass(frozen=True)
class Case:
    """Arguments of ``allocate``, and what the strategies are set up with."""

    client_id: str
    queues: list[MessageQueue]
    client_ids: list[str]
    config: list[MessageQueue]
    idcs: frozenset[str]
    room_of: Mapping[str, str]
    virtual_nodes: int

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return self.room_of[queue.broker_name]

    def consumer_deploy_in(self, client_id: str) -> str:
        return self.room_of[client_id]


def random_cases(count: int) -> Iterator[Case]:
    random = Random(count)
    for _ in range(count):
        yield random_case(random)


def random_case(random: Random) -> Case:
    """Mostly in Java's order, as RebalanceImpl passes them; sometimes the client id is not in the list, or twice."""
    rooms = [random_text(random, 4, ["ab", "19", "中文", "\uff21\U0001f680"]) for _ in range(random.randint(1, 4))]
    brokers = [random_broker(random, rooms) for _ in range(random.randint(1, 5))]
    topic = random_text(random)
    queues = list(
        {MessageQueue(topic, random.choice(brokers), random.randrange(12)) for _ in range(random.randint(1, 24))}
    )
    members = [random_client_id(random) for _ in range(random.randint(1, 10))]
    members += random.choices(members, k=random.choice([0, 0, 1, 3]))
    if random.random() < 0.8:
        queues.sort(key=MessageQueue.sort_key)
        members.sort(key=java_string_order)
    client_id = random_client_id(random) if random.random() < 0.1 else random.choice(members)
    return Case(
        client_id=client_id,
        queues=queues,
        client_ids=members,
        config=random.sample(queues, random.randint(0, len(queues))),
        idcs=frozenset(random.sample(rooms, random.randint(0, len(rooms)))),
        room_of={name: random.choice(rooms) for name in [*brokers, *members]},
        virtual_nodes=random.choice([0, 1, 2, 10, 10, 10, 50]),
    )


def random_broker(random: Random, rooms: list[str]) -> str:
    name = random_text(random)
    return random.choice([name, f"{random.choice(rooms)}@{name}", f"{random.choice(rooms)}@{name}@", f"@{name}"])


def random_client_id(random: Random) -> str:
    return random.choice([f"10.0.0.{random.randrange(200)}@{random.randrange(30000)}", random_text(random)])


# ---------------------------------------------------------------------------------------------------- both sides

Ours = Callable[[Case], AllocateMessageQueueStrategy]
Theirs = Callable[[Any, Case], Any]


def java_class(java: Any, name: str) -> Any:
    return getattr(java.org.apache.rocketmq.client.consumer.rebalance, name)


def java_averagely(java: Any, case: Case) -> Any:
    return java_class(java, "AllocateMessageQueueAveragely")()


def java_by_circle(java: Any, case: Case) -> Any:
    return java_class(java, "AllocateMessageQueueAveragelyByCircle")()


def java_consistent_hash(java: Any, case: Case) -> Any:
    return java_class(java, "AllocateMessageQueueConsistentHash")(case.virtual_nodes)


def java_by_config(java: Any, case: Case) -> Any:
    strategy = java_class(java, "AllocateMessageQueueByConfig")()
    strategy.setMessageQueueList(java_queues(java, case.config))
    return strategy


def java_by_machine_room(java: Any, case: Case) -> Any:
    strategy = java_class(java, "AllocateMessageQueueByMachineRoom")()
    strategy.setConsumeridcs(java.java.util.HashSet(java_strings(java, list(case.idcs))))
    return strategy


def java_nearby(inner: Theirs) -> Theirs:
    def strategy(java: Any, case: Case) -> Any:
        return java_class(java, "AllocateMachineRoomNearby")(inner(java, case), java_resolver(java, case))

    return strategy


def java_resolver(java: Any, case: Case) -> Any:
    """A resolver that looks up queues and client ids in one map."""
    room_of = java.java.util.HashMap()
    for queue in java_queues(java, case.queues):
        room_of.put(queue, case.room_of[queue.getBrokerName()])
    for client_id in case.client_ids:
        room_of.put(client_id, case.room_of[client_id])
    interface = java.java.lang.Class.forName(f"{REBALANCE}.AllocateMachineRoomNearby$MachineRoomResolver")
    return java.java.beans.EventHandler.create(interface, room_of, "get", "")


def averagely(case: Case) -> AllocateMessageQueueStrategy:
    return AllocateMessageQueueAveragely()


def by_circle(case: Case) -> AllocateMessageQueueStrategy:
    return AllocateMessageQueueAveragelyByCircle()


def consistent_hash(case: Case) -> AllocateMessageQueueStrategy:
    return AllocateMessageQueueConsistentHash(case.virtual_nodes)


def by_config(case: Case) -> AllocateMessageQueueStrategy:
    return AllocateMessageQueueByConfig(tuple(case.config))


def by_machine_room(case: Case) -> AllocateMessageQueueStrategy:
    return AllocateMessageQueueByMachineRoom(case.idcs)


def nearby(inner: Ours) -> Ours:
    return lambda case: AllocateMachineRoomNearby(inner(case), case)


BOTH: dict[str, tuple[Ours, Theirs]] = {
    "AVG": (averagely, java_averagely),
    "AVG_BY_CIRCLE": (by_circle, java_by_circle),
    "CONSISTENT_HASH": (consistent_hash, java_consistent_hash),
    "CONFIG": (by_config, java_by_config),
    "MACHINE_ROOM": (by_machine_room, java_by_machine_room),
    "MACHINE_ROOM_NEARBY-AVG": (nearby(averagely), java_nearby(java_averagely)),
    "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE": (nearby(by_circle), java_nearby(java_by_circle)),
    "MACHINE_ROOM_NEARBY-CONSISTENT_HASH": (nearby(consistent_hash), java_nearby(java_consistent_hash)),
}


class JavaCase(NamedTuple):
    """A case, and its queues and client IDs in Java."""

    case: Case
    queues: Any
    client_ids: Any


@pytest.fixture(scope="module", params=COUNTS)
def cases(request: pytest.FixtureRequest, java: Any) -> list[JavaCase]:
    """The same for all strategies."""
    return [java_case(java, case) for case in random_cases(request.param)]


def java_case(java: Any, case: Case) -> JavaCase:
    return JavaCase(case, java_queues(java, case.queues), java_strings(java, case.client_ids))


def java_result(java: Any, strategy: Any, given: JavaCase) -> list[MessageQueue]:
    return queues_from(java, strategy.allocate("group", given.case.client_id, given.queues, given.client_ids))


@pytest.mark.parametrize("name", BOTH)
def test_the_same_input_gives_the_same_queues(java: Any, name: str, cases: list[JavaCase]) -> None:
    ours, theirs = BOTH[name]
    not_empty = 0
    for one in cases:
        case = one.case
        expected = java_result(java, theirs(java, case), one)
        allocated = ours(case).allocate("group", case.client_id, case.queues, case.client_ids)
        assert allocated == expected, case
        not_empty += bool(allocated)
    assert not_empty > len(cases) // 5


@pytest.mark.parametrize("name", BOTH)
def test_the_names_are_the_same(java: Any, name: str) -> None:
    ours, theirs = BOTH[name]
    case = random_case(Random(1))
    assert ours(case).name == theirs(java, case).getName() == name


@pytest.mark.parametrize("name", [name for name in BOTH if name != "CONFIG"])
@pytest.mark.parametrize(
    ("client_id", "queues", "client_ids"),
    [("", [MessageQueue("T", "b", 0)], ["c"]), ("c", [], ["c"]), ("c", [MessageQueue("T", "b", 0)], [])],
)
def test_both_refuse_empty_arguments(
    java: Any, name: str, client_id: str, queues: list[MessageQueue], client_ids: list[str]
) -> None:
    ours, theirs = BOTH[name]
    case = Case(client_id, queues, client_ids, [], frozenset(), {"b": "r", "c": "r"}, 10)
    with pytest.raises(Py4JJavaError, match="IllegalArgumentException"):
        java_result(java, theirs(java, case), java_case(java, case))
    with pytest.raises(ValueError, match="is empty"):
        ours(case).allocate("group", client_id, queues, client_ids)
