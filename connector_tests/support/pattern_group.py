"""The state machines of groups with ``subscribePattern``, whose topics appear and vanish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from connector_tests.support.join_machine import NUMBERS, ChangingGroup, FailingGroup, _one_of
from connector_tests.support.simulated_cluster import Reach

PATTERN: Final = {"subscribePattern": "[a-z][0-9]?"}
MOST_TOPICS: Final = 4


class PatternGroup(FailingGroup):
    """Topics appear, on one broker or on all. They are read from their first message, whatever the start position is,
    unless no member has begun yet."""

    options: Mapping[str, str] = PATTERN

    @precondition(lambda self: self.group.cluster.is_whole and len(self.group.cluster.topics()) < MOST_TOPICS)
    @rule(number=NUMBERS, is_everywhere=st.booleans(), count=st.integers(0, 4))
    def create_topic(self, number: int, is_everywhere: bool, count: int) -> None:
        cluster = self.group.cluster
        self.event_counts["a topic appeared"] += 1
        topic = next(name for name in ("v0", "v1", "v2", "v3") if name not in cluster.topics())
        names = list(cluster.brokers) if is_everywhere else [_one_of(list(cluster.brokers), number)]
        cluster.create_topic(topic, dict.fromkeys(names, 1))
        self.group.checker.appeared(topic)
        for queue in cluster.queues():
            if queue.topic == topic and count:
                cluster.produce(queue, count)

    @rule(number=NUMBERS)
    def hide_name_server(self, number: int) -> None:
        """One name server responds or not; it is not the only one."""
        self.group.cluster.has_all_name_servers = bool(number)

    @precondition(lambda self: self.group.cluster.is_up)
    @rule(number=NUMBERS, reach=st.sampled_from((Reach.UNRESPONSIVE, Reach.UNAVAILABLE)))
    def lose_broker(self, number: int, reach: Reach) -> None:
        """Where no other broker shows that the group has begun, nobody can tell a new topic from one of its first."""
        brokers = self.group.cluster.brokers
        lost = _one_of(list(brokers), number)
        has_begun = all(broker.offsets for name, broker in brokers.items() if name != lost)
        super().lose_broker(number, reach if has_begun else Reach.UNRESPONSIVE)


class ChangingPatternGroup(PatternGroup, ChangingGroup):
    """The same, and topics are deleted, and created again with the same names."""

    options: Mapping[str, str] = {**ChangingGroup.options, **PATTERN}

    @precondition(lambda self: len(self.group.cluster.topics()) > 1)
    @rule(number=NUMBERS)
    def delete_topic(self, number: int) -> None:
        cluster = self.group.cluster
        self.event_counts["a topic was deleted"] += 1
        cluster.delete_topic(_one_of(cluster.topics(), number))
