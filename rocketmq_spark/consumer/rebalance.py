"""RebalanceImpl: the queues that this member owns, computed from the group's members and the routes.

Source: ``client/impl/consumer/RebalanceImpl.java#updateProcessQueueTableInRebalance``. Differs: ``decide`` only
computes, ``apply`` only changes the table, and ``membership`` sends the requests in between (commits of dropped
queues). There is no pull expiry: the member's heartbeats have CONSUME_ACTIVELY, for which Java has none.
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
    """Changes of a rebalance: first ``drop`` (commit, then remove), then ``add``. Each in Java's queue order."""

    drop: tuple[MessageQueue, ...] = ()
    add: tuple[MessageQueue, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.drop or self.add)


class RebalanceImpl:
    """The queues that one member owns, each with its ProcessQueue. Not thread-safe; the group lock protects it."""

    def __init__(self, group: str, client_id: str, strategy: Strategy) -> None:
        self._group = group
        self._client_id = client_id
        self._strategy = strategy
        self._table: dict[MessageQueue, ProcessQueue] = {}
        self._generations = count(1)

    @property
    def table(self) -> Mapping[MessageQueue, ProcessQueue]:
        """Process queues of owned queues; none is dropped."""
        return self._table

    def decide(
        self, queues: Mapping[str, Sequence[MessageQueue]], client_ids: Sequence[str] | None
    ) -> RebalancePlan | None:
        """Compare the owned queues with the queues that the strategy allocates to this member. Changes nothing. Raises
        what the strategy raises.

        Parameters
        ----------
        queues : the readable queues by subscribed topic
        client_ids : the group's members as brokers list them, in any order; None: no broker responded

        Returns
        -------
        The plan, or None without a basis to decide: no broker responded, or the list lacks this member, which must send
        another heartbeat.
        """
        members = set(client_ids or ())
        if self._client_id not in members:
            return None
        assigned = set(allocate_all(self._strategy, self._group, self._client_id, queues, tuple(members)))
        held = self._table.keys()
        return RebalancePlan(drop=_ordered(held - assigned), add=_ordered(assigned - held))

    def apply(self, plan: RebalancePlan) -> None:
        """Drop the process queues of ``plan.drop`` and remove them; add a new one, with a new generation, for each
        queue of ``plan.add``. Sends nothing. Raises KeyError if a queue to drop is not in the table."""
        for queue in plan.drop:
            self._table.pop(queue).drop()
        for queue in plan.add:
            self._table[queue] = ProcessQueue(queue, next(self._generations))


def _ordered(queues: set[MessageQueue]) -> tuple[MessageQueue, ...]:
    return tuple(sorted(queues, key=MessageQueue.sort_key))
