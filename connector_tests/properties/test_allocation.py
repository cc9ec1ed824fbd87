"""What every allocation keeps, whatever the names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_spark.consumer.allocation import (
    AllocateAveragelyOverAllTopics,
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
)
from rocketmq_spark.model import MessageQueue

NAMES = st.text(max_size=12)
CLIENT_IDS = st.text(min_size=1, max_size=12)
QUEUES = st.builds(MessageQueue, NAMES, NAMES, st.integers(0, 99))
QUEUE_LISTS = st.lists(QUEUES, min_size=1, max_size=24, unique=True)
GROUPS = st.lists(CLIENT_IDS, min_size=1, max_size=7, unique=True)


class MachineRoomByLength:
    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return str(len(queue.broker_name) % 3)

    def consumer_deploy_in(self, client_id: str) -> str:
        return str(len(client_id) % 3)


AVERAGING: list[AllocateMessageQueueStrategy] = [
    AllocateMessageQueueAveragely(),
    AllocateMessageQueueAveragelyByCircle(),
]
COMPLETE: list[AllocateMessageQueueStrategy] = [
    *AVERAGING,
    AllocateMessageQueueConsistentHash(),
    *(AllocateMachineRoomNearby(strategy, MachineRoomByLength()) for strategy in AVERAGING),
]


@pytest.mark.parametrize("strategy", COMPLETE, ids=lambda strategy: strategy.name)
@given(queues=QUEUE_LISTS, members=GROUPS)
def test_every_queue_has_one_owner(
    strategy: AllocateMessageQueueStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    owned = [queue for member in members for queue in strategy.allocate("group", member, queues, members)]
    assert Counter(owned) == Counter(queues)


@pytest.mark.parametrize("strategy", AVERAGING, ids=lambda strategy: strategy.name)
@given(queues=QUEUE_LISTS, members=GROUPS)
def test_averaging_loads_differ_by_at_most_one(
    strategy: AllocateMessageQueueStrategy, queues: list[MessageQueue], members: list[str]
) -> None:
    sizes = [len(strategy.allocate("group", member, queues, members)) for member in members]
    assert max(sizes) - min(sizes) <= 1


@given(names=st.lists(st.sampled_from(["r1@a", "r1@b", "r2@a", "r1", "r1@a@b"]), min_size=1), members=GROUPS)
def test_machine_room_divides_the_queues_of_its_rooms(names: list[str], members: list[str]) -> None:
    queues = [MessageQueue("T", name, number) for number, name in enumerate(names)]
    strategy = AllocateMessageQueueByMachineRoom(frozenset({"r1"}))
    owned = [queue for member in members for queue in strategy.allocate("group", member, queues, members)]
    assert Counter(owned) == Counter(queue for queue in queues if queue.broker_name in {"r1@a", "r1@b"})


# ---------------------------------------------------------------------------------------------------- all topics

ALL_TOPICS = AllocateAveragelyOverAllTopics()


def owned_by_each(queues: Sequence[MessageQueue], members: Sequence[str]) -> list[list[MessageQueue]]:
    return [ALL_TOPICS.allocate_all_topics("group", member, queues, members) for member in members]


@given(queues=QUEUE_LISTS, members=GROUPS)
def test_over_all_topics_every_queue_has_one_owner_and_loads_differ_by_at_most_one(
    queues: list[MessageQueue], members: list[str]
) -> None:
    owned = owned_by_each(queues, members)
    assert Counter(queue for held in owned for queue in held) == Counter(queues)
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


@given(queues=QUEUE_LISTS, members=GROUPS, random=st.randoms(use_true_random=False))
def test_over_all_topics_the_order_of_queues_makes_no_difference(
    queues: list[MessageQueue], members: list[str], random: Random
) -> None:
    shuffled = random.sample(queues, len(queues))
    assert owned_by_each(shuffled, members) == owned_by_each(queues, members)


@given(topics=st.integers(1, 6), brokers=st.integers(1, 3), count=st.integers(1, 8), members=GROUPS)
def test_over_all_topics_each_has_as_many_queues_of_a_topic_as_the_others_or_one_more(
    topics: int, brokers: int, count: int, members: list[str]
) -> None:
    """Where all topics are created alike, on the same brokers."""
    names = [f"topic-{number}" for number in range(topics)]
    queues = [MessageQueue(*queue) for queue in product(names, "abc"[:brokers], range(count))]
    for name in names:
        held = [sum(queue.topic == name for queue in own) for own in owned_by_each(queues, members)]
        assert max(held) - min(held) <= 1
