"""Members that hear of each other late still agree in the end, and never work on a queue that they have lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from connector_tests.support.queues import queue
from rocketmq_spark.consumer.allocation import (
    AllocateAveragelyOverAllTopics,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueConsistentHash,
    Strategy,
    allocate_all,
)
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.consumer.rebalance import RebalanceImpl
from rocketmq_spark.model import MessageQueue

GROUP = "g"
TOPICS = ("orders", "payments")
CLIENT_IDS = st.sampled_from(["10.0.0.1@a", "10.0.0.2@b", "10.0.0.10@c", "\U0001f600", "\uff5e"])
STRATEGIES: list[Strategy] = [
    AllocateMessageQueueAveragely(),
    AllocateMessageQueueAveragelyByCircle(),
    AllocateMessageQueueConsistentHash(),
    AllocateAveragelyOverAllTopics(),
]

Knowledge = tuple[Mapping[str, Sequence[MessageQueue]], Sequence[str]]


class Group(RuleBasedStateMachine):
    """The queues and the listed members as they are, and members that look at them now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.strategy = STRATEGIES[0]
        self.queue_counts = dict.fromkeys(TOPICS, 0)
        self.members: dict[str, RebalanceImpl] = {}
        self.history: list[Knowledge] = []
        self.ever_owned: dict[str, dict[MessageQueue, list[ProcessQueue]]] = {}

    @initialize(strategy=st.sampled_from(STRATEGIES), first=st.integers(0, 8), second=st.integers(0, 3))
    def begin(self, strategy: Strategy, first: int, second: int) -> None:
        self.strategy = strategy
        self.queue_counts = {"orders": first, "payments": second}

    def knowledge(self) -> Knowledge:
        topics = {topic: [queue(number, topic) for number in range(n)] for topic, n in self.queue_counts.items()}
        return topics, list(self.members)

    # ------------------------------------------------------------------------------------------ what happens

    @rule(client_id=CLIENT_IDS)
    def join(self, client_id: str) -> None:
        if client_id not in self.members:
            self.members[client_id] = RebalanceImpl(GROUP, client_id, self.strategy)
            self.ever_owned[client_id] = {}

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        del self.members[data.draw(st.sampled_from(sorted(self.members)))]

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(0, 10))
    def change_queues(self, topic: str, count: int) -> None:
        self.queue_counts[topic] = count

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def one_member_refreshes(self, data: st.DataObject) -> None:
        self.history.append(self.knowledge())
        self.rebalance(data.draw(st.sampled_from(sorted(self.members))), self.knowledge())

    @precondition(lambda self: self.members and self.history)
    @rule(data=st.data())
    def one_member_gets_an_old_response(self, data: st.DataObject) -> None:
        self.rebalance(data.draw(st.sampled_from(sorted(self.members))), data.draw(st.sampled_from(self.history)))

    @rule()
    def quiet_comes_and_all_refresh(self) -> None:
        for client_id in sorted(self.members):
            self.rebalance(client_id, self.knowledge())
        owned = [owned_queue for member in self.members.values() for owned_queue in member.table]
        there = [one for queues in self.knowledge()[0].values() for one in queues] if self.members else []
        assert sorted(owned, key=MessageQueue.sort_key) == sorted(there, key=MessageQueue.sort_key)

    def rebalance(self, client_id: str, knowledge: Knowledge) -> None:
        member = self.members[client_id]
        before = dict(member.table)
        plan = member.decide(*knowledge)
        if client_id not in knowledge[1]:
            assert plan is None
            return
        assert plan is not None
        member.apply(plan)
        self.check_change(client_id, before, knowledge)

    # ------------------------------------------------------------------------------------------ what must hold

    def check_change(self, client_id: str, before: Mapping[MessageQueue, ProcessQueue], knowledge: Knowledge) -> None:
        table = self.members[client_id].table
        assert table.keys() == set(allocate_all(self.strategy, GROUP, client_id, *knowledge))
        assert all(table[kept] is before[kept] for kept in table.keys() & before.keys())
        assert all(before[lost].dropped for lost in before.keys() - table.keys())
        for gained in table.keys() - before.keys():
            earlier = self.ever_owned[client_id].setdefault(gained, [])
            assert all(one is not table[gained] for one in earlier)
            earlier.append(table[gained])

    @invariant()
    def what_was_dropped_stays_dropped(self) -> None:
        for client_id, member in self.members.items():
            for one_queue, process_queues in self.ever_owned[client_id].items():
                *earlier, latest = process_queues
                assert len({process_queue.generation for process_queue in process_queues}) == len(process_queues)
                assert all(process_queue.dropped for process_queue in earlier)
                assert latest.dropped == (one_queue not in member.table)

    @invariant()
    def nothing_in_a_table_is_dropped(self) -> None:
        for member in self.members.values():
            assert not any(process_queue.dropped for process_queue in member.table.values())


TestGroup = Group.TestCase
TestGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
