"""The state machine of a group whose offsets a client sets beyond the ends of queues, as brokers let any client do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis.stateful import precondition, rule

from connector_tests.support.join_machine import NUMBERS, ChangingGroup, FailingGroup

BEYOND: Final = 2**63 - 1


class MisledGroup(FailingGroup):
    """The group's true offset is gone then, so what other members have read is read again: this holds for a query
    alone."""

    options: Mapping[str, str] = {"failOnDataLoss": "false"}
    starts: tuple[str, ...] = ("earliest",)
    fewest_queries = 1

    @precondition(lambda self: len(self.group.queries) == 1)
    @rule(number=NUMBERS)
    def commit_beyond_end(self, number: int) -> None:
        """An offset that the queue reaches before anybody looks is one more that an operator may set. A query that has
        nothing to read does not look, so there is something."""
        queues = [queue for queue in self.group.cluster.queues() if self.group.cluster.group_offset(queue) is not None]
        for queue in queues[number : number + 1]:
            self.group.cluster.produce(queue, 1)
            self.group.cluster.brokers[queue.broker_name].offsets[queue] = BEYOND
            self.event_counts["a commit beyond the end"] += 1

    @rule(number=NUMBERS)
    def retain(self, number: int) -> None:
        """It deletes by the group's offsets here, so nothing that no member has read may be below."""
        broker = list(self.group.cluster.brokers.values())[number % len(self.group.cluster.brokers)]
        if all(at <= self.group.cluster.max_offset(queue) for queue, at in broker.offsets.items()):
            super().retain(number)


class ChangingMisledGroup(MisledGroup, ChangingGroup):
    """The same, and topics are re-created and tails lost: of these only losses count."""
