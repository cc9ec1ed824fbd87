"""What every allocation keeps, whatever the names, and what moves when the group changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rocketmq_spark.consumer.allocation import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
)
from rocketmq_spark.consumer.balanced_hash import balance, pair_cost
from rocketmq_spark.model import MessageQueue

NAMES = st.text(max_size=12)
CLIENT_IDS = st.text(min_size=1, max_size=12)
QUEUES = st.builds(MessageQueue, NAMES, NAMES, st.integers(0, 99))
QUEUE_LISTS = st.lists(QUEUES, min_size=1, max_size=24, unique=True)
GROUPS = st.lists(CLIENT_IDS, min_size=1, max_size=7, unique=True)


class RoomByLength:
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
    *(AllocateMachineRoomNearby(strategy, RoomByLength()) for strategy in AVERAGING),
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

Owners = Mapping[MessageQueue, str]


def owners(queues: Sequence[MessageQueue], members: Sequence[str]) -> dict[MessageQueue, str]:
    return {queue: member for member, held in balance(queues, members).items() for queue in held}


@given(queues=QUEUE_LISTS, members=GROUPS)
def test_over_all_topics_every_queue_has_one_owner_and_loads_differ_by_at_most_one(
    queues: list[MessageQueue], members: list[str]
) -> None:
    balanced = balance(queues, members)
    assert list(balanced) and set(balanced) == set(members)
    assert Counter(queue for held in balanced.values() for queue in held) == Counter(queues)
    sizes = [len(held) for held in balanced.values()]
    assert max(sizes) - min(sizes) <= 1


@given(queues=QUEUE_LISTS, members=GROUPS, random=st.randoms(use_true_random=False))
def test_over_all_topics_order_and_repetition_make_no_difference(
    queues: list[MessageQueue], members: list[str], random: Random
) -> None:
    more_queues, more_members = [*queues, queues[0]], [*members, members[-1]]
    random.shuffle(more_queues)
    random.shuffle(more_members)
    assert balance(more_queues, more_members) == balance(queues, members)


class Leaving(NamedTuple):
    """What happens to ``queues`` when ``leaver`` leaves ``members``; read backwards, what happens when it joins."""

    before: Owners
    after: Owners
    leaver: str
    staying: tuple[str, ...]

    @property
    def must_move(self) -> int:
        return sum(owner == self.leaver for owner in self.before.values())

    @property
    def arrows(self) -> Counter[tuple[str, str]]:
        """(old, new) owner of each queue that moves between two who stay."""
        pairs = ((owner, self.after[queue]) for queue, owner in self.before.items() if owner != self.leaver)
        return Counter((old, new) for old, new in pairs if old != new)

    @property
    def moves_beside(self) -> int:
        return self.arrows.total()


def leaving(queues: Sequence[MessageQueue], members: Sequence[str], leaver: str) -> Leaving:
    staying = tuple(member for member in members if member != leaver)
    return Leaving(owners(queues, members), owners(queues, staying), leaver, staying)


def assert_moves_little(case: Leaving) -> None:
    """The bound proven in ``balanced_hash``, and the lemmas that it rests on."""
    sizes_before, sizes_after = Counter(case.before.values()), Counter(case.after.values())
    assert all(sizes_before[member] <= sizes_after[member] for member in case.staying)
    assert is_without_rings(set(case.arrows))
    assert case.moves_beside <= case.must_move * (len(case.staying) - 1)


def is_certain(case: Leaving) -> bool:
    """Where "what must move, and one more for each who stays" is proven."""
    return case.must_move * (len(case.staying) - 1) <= len(case.staying)


def is_without_rings(arrows: set[tuple[str, str]]) -> bool:
    """Whether the members at the ends of no arrows can be taken away until nobody is left."""
    while arrows:
        givers = {giver for giver, _ in arrows}
        inner = {(giver, taker) for giver, taker in arrows if taker in givers}
        if len(inner) == len(arrows):
            return False
        arrows = inner
    return True


@given(queues=QUEUE_LISTS, members=GROUPS)
def test_who_leaves_moves_few_queues_of_others(queues: list[MessageQueue], members: list[str]) -> None:
    assume(len(members) > 1)
    for leaver in members:
        case = leaving(queues, members, leaver)
        assert_moves_little(case)
        if is_certain(case):
            assert case.moves_beside <= len(case.staying)


def test_in_all_small_groups_who_leaves_moves_few_queues_of_others() -> None:
    """All groups of two to five among six clients, with each number of queues up to 14, and each of them leaving."""
    cases = list(small_leavings(range(1, 15), ("orders", "trades")))
    for case in cases:
        assert_moves_little(case)
        if is_certain(case):
            assert case.moves_beside <= len(case.staying)
    assert {is_certain(case) for case in cases} == {True, False}
    assert sum(case.moves_beside <= len(case.staying) for case in cases) >= 0.999 * len(cases)


def small_leavings(counts: range, topics: tuple[str, str]) -> list[Leaving]:
    clients = [f"10.0.0.{number}@{4000 + number}#{number:015d}" for number in range(6)]
    groups = [group for size in range(2, 6) for group in combinations(clients, size)]
    return [
        leaving(queues_of(count, topics), group, leaver) for count, group in product(counts, groups) for leaver in group
    ]


def queues_of(count: int, topics: Sequence[str] = ("orders",)) -> list[MessageQueue]:
    return [MessageQueue(topics[number % len(topics)], "broker-a", number) for number in range(count)]


@settings(max_examples=30)
@given(
    queues=st.lists(QUEUES, min_size=1, max_size=6, unique=True),
    members=st.lists(CLIENT_IDS, min_size=2, max_size=3, unique=True),
)
def test_no_even_assignment_is_cheaper(queues: list[MessageQueue], members: list[str]) -> None:
    """Compared with all of them; the bound rests on this."""
    costs = {pair: pair_cost(*pair) for pair in product(queues, members)}
    chosen = sum(costs[pair] for pair in owners(queues, members).items())
    all_even = even_owners(len(queues), members)
    assert chosen == min(sum(costs[pair] for pair in zip(queues, even, strict=True)) for even in all_even)


def even_owners(count: int, members: list[str]) -> set[tuple[str, ...]]:
    """All ways to own ``count`` queues such that loads differ by at most one."""
    least, rest = divmod(count, len(members))
    with_one_more = combinations(members, rest)
    return {even for lucky in with_one_more for even in permutations([*(members * least), *lucky])}


# ---------------------------------------------------------------------------------------------------- figures


class Figures(NamedTuple):
    """A row of the table in ``balanced_hash``: queues moved beside what must, and how often those are few."""

    queue_count: int
    member_count: int
    mean: float
    most_of_95_percent: int
    few: float


SHORT = [Figures(24, 4, 1.1, 3, 0.99), Figures(48, 8, 3.1, 6, 0.99), Figures(96, 3, 1.2, 3, 0.86)]
LONG = [*SHORT, Figures(200, 10, 6.9, 11, 0.89), Figures(1000, 10, 14, 20, 0.1)]


@pytest.mark.parametrize("figures", SHORT, ids=str)
def test_with_names_as_they_come_the_figures_of_the_documentation_hold(figures: Figures) -> None:
    assert_figures_hold(figures, trials=200)


@pytest.mark.long
@pytest.mark.parametrize("figures", LONG, ids=str)
def test_with_many_names_as_they_come_the_figures_of_the_documentation_hold(figures: Figures) -> None:
    assert_figures_hold(figures, trials=300)


def assert_figures_hold(figures: Figures, trials: int) -> None:
    random = Random(20)
    queues = queues_of(figures.queue_count)
    cases = [random_leaving(queues, figures.member_count, random) for _ in range(trials)]
    moves = sorted(case.moves_beside for case in cases)
    assert sum(moves) / trials == pytest.approx(figures.mean, rel=0.15)
    assert moves[trials * 95 // 100 - 1] <= figures.most_of_95_percent + 1
    few = sum(case.moves_beside <= len(case.staying) for case in cases) / trials
    assert few == pytest.approx(figures.few, abs=0.05)


def random_leaving(queues: Sequence[MessageQueue], member_count: int, random: Random) -> Leaving:
    members = [client_id(random) for _ in range(member_count)]
    case = leaving(queues, members, random.choice(members))
    assert_moves_little(case)
    return case


def client_id(random: Random) -> str:
    """As clients make them: address, process id and start time in nanoseconds."""
    return f"10.0.{random.randrange(256)}.{random.randrange(256)}@{random.randrange(1 << 15)}#{random.getrandbits(48)}"
