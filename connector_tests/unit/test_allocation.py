from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from rocketmq_spark.consumer.allocation import (
    AllocateAllToEach,
    AllocateAveragelyOverAllTopics,
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
    Strategy,
    allocate_all,
)
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.model import MessageQueue


class MachineRoomByPrefix:
    """``room-anything`` runs in ``room``; what has no dash runs nowhere."""

    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return queue.broker_name.rpartition("-")[0]

    def consumer_deploy_in(self, client_id: str) -> str:
        return client_id.rpartition("-")[0]


AVERAGELY = AllocateMessageQueueAveragely()
CIRCLE = AllocateMessageQueueAveragelyByCircle()
NEARBY = AllocateMachineRoomNearby(AVERAGELY, MachineRoomByPrefix())
SIX: list[AllocateMessageQueueStrategy] = [
    AVERAGELY,
    CIRCLE,
    AllocateMessageQueueConsistentHash(),
    AllocateMessageQueueByConfig(()),
    AllocateMessageQueueByMachineRoom(frozenset({"room"})),
    NEARBY,
]
THAT_CHECK = [strategy for strategy in SIX if strategy.name != "CONFIG"]


def queues_of(topic: str, count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue(topic, broker, number) for number in range(count)]


def allocation(
    strategy: AllocateMessageQueueStrategy, queues: Sequence[MessageQueue], members: Sequence[str]
) -> list[list[int]]:
    """Queue ids by member."""
    return [[queue.queue_id for queue in strategy.allocate("group", member, queues, members)] for member in members]


def test_the_names_are_those_of_rocketmq() -> None:
    names = ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY-AVG"]
    assert [strategy.name for strategy in SIX] == names


def test_averagely_gives_blocks_and_the_first_members_the_rest() -> None:
    assert allocation(AVERAGELY, queues_of("T", 8), ["a", "b", "c"]) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_averagely_leaves_the_last_members_idle_when_there_are_more_of_them_than_queues() -> None:
    assert allocation(AVERAGELY, queues_of("T", 2), ["a", "b", "c"]) == [[0], [1], []]


def test_by_circle_assigns_the_queues_round_robin() -> None:
    assert allocation(CIRCLE, queues_of("T", 8), ["a", "b", "c"]) == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_consistent_hash_is_that_of_the_java_client() -> None:
    """The answers of the Java class for these names."""
    members = ["10.0.0.1@4711", "10.0.0.2@4712", "10.0.0.3@4713"]
    assert allocation(AllocateMessageQueueConsistentHash(), queues_of("orders", 8), members) == [
        [3, 6],
        [0, 1, 2, 5, 7],
        [4],
    ]


def test_of_two_virtual_nodes_with_one_hash_the_later_one_stays() -> None:
    everything_collides = AllocateMessageQueueConsistentHash(hash_function=len)
    assert allocation(everything_collides, queues_of("T", 3), ["a", "b"]) == [[], [0, 1, 2]]


def test_a_hash_ring_without_virtual_nodes_gives_nothing() -> None:
    assert allocation(AllocateMessageQueueConsistentHash(0), queues_of("T", 3), ["a", "b"]) == [[], []]


def test_there_is_no_negative_number_of_virtual_nodes() -> None:
    with pytest.raises(ValueError, match="virtual_node_count"):
        AllocateMessageQueueConsistentHash(-1)


def test_config_gives_its_list_to_each_caller() -> None:
    fixed = queues_of("T", 2)
    assert AllocateMessageQueueByConfig(tuple(fixed)).allocate("group", "stranger", queues_of("U", 9), ["a"]) == fixed


@pytest.mark.parametrize(
    ("broker", "eligible"),
    [
        ("r1@x", True),
        ("r1@x@", True),
        ("r1@X", True),
        ("r1@", False),
        ("r1", False),
        ("r1@x@y", False),
        ("r2@x", False),
        ("@x", False),
    ],
)
def test_machine_room_reads_brokers_called_room_at_name(broker: str, eligible: bool) -> None:
    strategy = AllocateMessageQueueByMachineRoom(frozenset({"r1"}))
    assert allocation(strategy, queues_of("T", 1, broker), ["a"]) == [[0] if eligible else []]


def test_machine_room_gives_the_rest_from_behind_the_blocks() -> None:
    strategy = AllocateMessageQueueByMachineRoom(frozenset({"r1"}))
    assert allocation(strategy, queues_of("T", 8, "r1@x"), ["a", "b", "c"]) == [[0, 1, 6], [2, 3, 7], [4, 5]]


def test_nearby_members_share_the_queues_of_their_room() -> None:
    queues = queues_of("T", 4, "east-1") + [MessageQueue("T", "west-1", number) for number in range(4, 8)]
    assert allocation(NEARBY, queues, ["east-a", "west-a", "west-b"]) == [[0, 1, 2, 3], [4, 5], [6, 7]]


def test_queues_of_a_room_without_members_are_shared_by_all() -> None:
    queues = queues_of("T", 2, "east-1") + [MessageQueue("T", "north-1", number) for number in range(2, 4)]
    assert allocation(NEARBY, queues, ["east-a", "west-a"]) == [[0, 1, 2], [3]]


def test_rooms_without_members_follow_in_javas_order_and_a_room_without_queues_is_no_error() -> None:
    emoji, tilde = "\U0001f600", "\uff5e"
    queues = [MessageQueue("T", f"{tilde}-1", 0), MessageQueue("T", f"{emoji}-1", 1)]
    assert allocation(NEARBY, queues, ["east-a"]) == [[1, 0]]


@dataclass(frozen=True)
class ByGroup:
    """Gives all to the member that is called as the group."""

    name: str = "BY_GROUP"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(queues) if client_id == group else []


def test_the_strategy_within_rooms_receives_the_group() -> None:
    strategy = AllocateMachineRoomNearby(ByGroup(), MachineRoomByPrefix())
    queues = queues_of("T", 1, "east-1") + queues_of("T", 1, "north-1")
    assert strategy.allocate("east-a", "east-a", queues, ["east-a"]) == queues


@pytest.mark.parametrize(("broker", "member"), [("nowhere", "east-a"), ("east-1", "nowhere")])
def test_what_runs_in_no_known_room_is_named(broker: str, member: str) -> None:
    with pytest.raises(MembershipError, match=r"returned no machine room for .*nowhere") as caught:
        NEARBY.allocate("group", member, queues_of("T", 1, broker), [member])
    assert caught.value.condition == "UNKNOWN_MACHINE_ROOM"


@pytest.mark.parametrize("strategy", THAT_CHECK, ids=lambda strategy: strategy.name)
def test_a_member_that_is_not_in_the_list_gets_nothing(strategy: AllocateMessageQueueStrategy) -> None:
    assert strategy.allocate("group", "east-b", queues_of("T", 3, "east-1"), ["east-a"]) == []


@pytest.mark.parametrize("strategy", THAT_CHECK, ids=lambda strategy: strategy.name)
@pytest.mark.parametrize(
    ("client_id", "count", "members", "what"),
    [("", 1, ["east-a"], "client_id"), ("east-a", 0, ["east-a"], "queues"), ("east-a", 1, [], "client_ids")],
)
def test_empty_arguments_are_refused(
    strategy: AllocateMessageQueueStrategy, client_id: str, count: int, members: list[str], what: str
) -> None:
    with pytest.raises(ValueError, match=f"^{what} is empty"):
        strategy.allocate("group", client_id, queues_of("T", count, "east-1"), members)


# ---------------------------------------------------------------------------------------------------- all topics

SMALL_TOPICS = {"T1": queues_of("T1", 1), "T2": queues_of("T2", 2), "T3": queues_of("T3", 3)}
ALL_TOPICS = AllocateAveragelyOverAllTopics()


def loads(strategy: Strategy, members: Sequence[str]) -> list[int]:
    return [len(allocate_all(strategy, "group", member, SMALL_TOPICS, members)) for member in members]


def test_small_topics_together_are_divided_evenly_and_one_by_one_they_are_not() -> None:
    members = ["a", "b", "c"]
    assert loads(AVERAGELY, members) == [3, 2, 1]
    assert loads(ALL_TOPICS, members) == [2, 2, 2]


def test_the_owner_of_a_queue_is_the_same_in_every_version() -> None:
    """Members that run different versions must agree, so these answers may never change."""
    members = ["a", "b", "\U0001f680"]
    owned = [allocate_all(ALL_TOPICS, "group", member, SMALL_TOPICS, members) for member in members]
    assert [[str(queue) for queue in queues] for queues in owned] == [
        ["T1@broker-a:0", "T2@broker-a:0"],
        ["T3@broker-a:0", "T2@broker-a:1"],
        ["T3@broker-a:1", "T3@broker-a:2"],
    ]


def test_over_all_topics_no_member_has_one_topic_alone() -> None:
    topics = {"busy": queues_of("busy", 4), "quiet": queues_of("quiet", 4)}
    owned = [allocate_all(ALL_TOPICS, "group", member, topics, ["a", "b"]) for member in ("a", "b")]
    assert [[queue.topic for queue in queues] for queues in owned] == [["busy", "quiet"] * 2] * 2


def test_over_all_topics_a_member_that_is_not_in_the_list_gets_nothing() -> None:
    assert ALL_TOPICS.allocate_all_topics("group", "x", queues_of("T", 3), ["a"]) == []


def test_over_all_topics_no_queues_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^queues is empty"):
        ALL_TOPICS.allocate_all_topics("group", "a", [], ["a"])


def test_the_order_of_topics_queues_and_members_makes_no_difference() -> None:
    shuffled = {topic: queues[::-1] for topic, queues in reversed(SMALL_TOPICS.items())}
    for strategy in (AVERAGELY, ALL_TOPICS):
        in_order = allocate_all(strategy, "g", "a", SMALL_TOPICS, ["a", "b"])
        assert allocate_all(strategy, "g", "a", shuffled, ["b", "a"]) == in_order


def test_members_are_ordered_as_java_orders_strings() -> None:
    """U+FF21 comes after an astral character in UTF-16, and before it by code point."""
    members = ["\uff21", "\U0001f680"]
    assert allocate_all(AVERAGELY, "g", "\U0001f680", {"T": queues_of("T", 2)}, members) == queues_of("T", 1)


def test_a_topic_without_queues_is_omitted() -> None:
    assert allocate_all(AVERAGELY, "g", "a", {"T": queues_of("T", 1), "U": []}, ["a"]) == queues_of("T", 1)
    assert allocate_all(ALL_TOPICS, "g", "a", {"U": []}, ["a"]) == []


def test_a_configured_queue_is_owned_once_however_many_topics_there_are() -> None:
    fixed = AllocateMessageQueueByConfig((MessageQueue("T1", "broker-a", 0),))
    assert allocate_all(fixed, "g", "a", SMALL_TOPICS, ["a"]) == [MessageQueue("T1", "broker-a", 0)]


def test_a_stranger_in_no_known_room_gets_nothing_and_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    queues = queues_of("T", 4, "east-1") + [MessageQueue("T", "north-1", number) for number in range(4, 6)]
    members = ["east-a", "east-b", "nowhere"]
    nearby = AllocateMachineRoomNearby(NEARBY.strategy, NEARBY.resolver)
    for _ in range(2):
        mine = [nearby.allocate("group", one, queues, members) for one in members[:2]]
    assert [[one.queue_id for one in queues] for queues in mine] == [[0, 1, 4], [2, 3, 5]]
    assert caplog.text.count("Machine room resolver returned no room for clientId=nowhere") == 1


BEYOND, PRIVATE = "\U00010000", "\ue000"
"""By UTF-16, as Java orders strings, the first comes first: it is a pair of surrogates. By code points it does not."""


def test_queues_are_ordered_as_java_orders_their_names() -> None:
    queues = [MessageQueue("T", PRIVATE, 0), MessageQueue("T", BEYOND, 0)]
    for strategy in (AVERAGELY, ALL_TOPICS):
        assert allocate_all(strategy, "g", "a", {"T": queues}, ["a"]) == queues[::-1]


def test_over_all_topics_topics_are_ordered_as_java_orders_strings() -> None:
    topics = {name: [MessageQueue(name, "broker-a", 0)] for name in (PRIVATE, BEYOND)}
    assert allocate_all(ALL_TOPICS, "g", "a", topics, ["a", "b"]) == topics[BEYOND]


@dataclass(frozen=True)
class AllByGroup:
    """Gives all to the member that is called as the group."""

    name: str = "ALL_BY_GROUP"

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(queues) if client_id == group else []


@pytest.mark.parametrize("strategy", [ByGroup(), AllByGroup()])
def test_a_strategy_receives_the_group(strategy: Strategy) -> None:
    topics = {"T": queues_of("T", 2)}
    assert allocate_all(strategy, "me", "me", topics, ["me", "you"]) == topics["T"]
    assert allocate_all(strategy, "you", "me", topics, ["me", "you"]) == []


def test_in_broadcasting_each_member_has_every_queue() -> None:
    topics = {"T": queues_of("T", 2), "U": queues_of("U", 1)}
    for member in ("a", "b"):
        assert allocate_all(AllocateAllToEach(), "g", member, topics, ["a", "b"]) == [*topics["T"], *topics["U"]]
