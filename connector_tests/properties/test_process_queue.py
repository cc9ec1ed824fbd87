"""ProcessQueue against the plainest model: a set of the offsets in flight, and the highest one taken."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.model import MessageQueue

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30))


class ProcessQueueLikeASet(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.subject = ProcessQueue(MessageQueue("t", "b", 0), generation=1)
        self.in_flight: set[int] = set()
        self.assigned_to: int | None = None

    @rule(accepted=RANGES)
    def put(self, accepted: tuple[int, int]) -> None:
        offsets = set(range(*accepted))
        if not offsets or offsets & self.in_flight:
            with pytest.raises(ValueError, match="does not fit"):
                self.subject.put(*accepted)
            return
        self.subject.put(*accepted)
        assigned_before = self.assigned_to if self.in_flight and self.assigned_to is not None else 0
        self.assigned_to = max(assigned_before, accepted[1])
        self.in_flight |= offsets

    @rule(finished=RANGES)
    def remove(self, finished: tuple[int, int]) -> None:
        offsets = set(range(*finished))
        if not offsets or not offsets <= self.in_flight:
            with pytest.raises(ValueError, match="not in flight"):
                self.subject.remove(*finished)
            return
        committable = self.subject.remove(*finished)
        self.in_flight -= offsets
        assert committable == self.expected_committable()

    @rule()
    def remove_the_first_range(self) -> None:
        if self.subject.in_flight:
            begin, end = self.subject.in_flight[0]
            self.subject.remove(begin, end)
            self.in_flight -= set(range(begin, end))

    def expected_committable(self) -> int | None:
        return min(self.in_flight) if self.in_flight else self.assigned_to

    @invariant()
    def committable_is_the_lowest_in_flight_or_one_past_the_highest_assigned(self) -> None:
        assert self.subject.committable == self.expected_committable()

    @invariant()
    def in_flight_are_disjoint_ascending_ranges_of_exactly_the_offsets(self) -> None:
        listed = [offset for begin, end in self.subject.in_flight for offset in range(begin, end)]
        assert listed == sorted(self.in_flight)
        assert all(begin < end for begin, end in self.subject.in_flight)


TestProcessQueueLikeASet = ProcessQueueLikeASet.TestCase
