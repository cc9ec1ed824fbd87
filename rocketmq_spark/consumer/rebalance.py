"""RebalanceImpl: which queues are this member's, decided from what the group and the routes say.

Source: ``client/impl/consumer/RebalanceImpl.java#updateProcessQueueTableInRebalance``. Differs in shape: ``decide``
only computes, ``apply`` only changes the table, and the requests between the two (persist what a dropped queue has
proven) are ``membership``'s. It also has no pull expiry: the member heartbeats as CONSUME_ACTIVELY, for which Java
knows none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from rocketmq_spark.consumer.allocation import Strategy, allocate_all
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.model import MessageQueue


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """What a rebalance changes: ``drop`` first (persist, then remove), then ``add``. Each in Java's queue order."""

    drop: tuple[MessageQueue, ...] = ()
    add: tuple[MessageQueue, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.drop or self.add)


class RebalanceImpl:
    """The process queue table of one member. Not thread-safe; the member's turn protects it."""

    def __init__(self, group: str, client_id: str, strategy: Strategy) -> None:
        self._group = group
        self._client_id = client_id
        self._strategy = strategy
        self._table: dict[MessageQueue, ProcessQueue] = {}
        self._generations = count(1)

    @property
    def table(self) -> Mapping[MessageQueue, ProcessQueue]:
        """The queues that are ours; none of them is dropped."""
        return self._table

    def decide(
        self, queues: Mapping[str, Sequence[MessageQueue]], client_ids: Sequence[str] | None
    ) -> RebalancePlan | None:
        """Compare the table with what the strategy gives this member.

        Parameters
        ----------
        queues : the readable queues by subscribed topic
        client_ids : the group's members as a broker listed them, in any order; None: no broker answered

        Returns
        -------
        The plan, or None when the knowledge is not good enough to decide on: nobody answered, or the list does not hold
        this member yet (it must heartbeat again).
        """
        members = set(client_ids or ())
        if self._client_id not in members:
            return None
        assigned = set(allocate_all(self._strategy, self._group, self._client_id, queues, tuple(members)))
        held = self._table.keys()
        return RebalancePlan(drop=_ordered(held - assigned), add=_ordered(assigned - held))

    def apply(self, plan: RebalancePlan) -> None:
        """Carry the plan out on the table. A dropped ProcessQueue never revives, and no life begins twice."""
        for queue in plan.drop:
            self._table.pop(queue).drop()
        for queue in plan.add:
            self._table[queue] = ProcessQueue(queue, next(self._generations))


def _ordered(queues: set[MessageQueue]) -> tuple[MessageQueue, ...]:
    return tuple(sorted(queues, key=MessageQueue.sort_key))
