"""Rendezvous hashing with equal loads: who owns which of ``n`` queues among ``m`` members, from their names alone.

Each pair of a queue and a member has a cost, its hash. Of all ways to give every member ``n // m`` queues or one more,
the one with the least sum of costs is taken. Nobody needs to know what was before, and all find the same answer.

**What moves** when a member with ``L`` queues leaves (a join is the same, read backwards)? Its own ``L`` must. Beside
them:

* Proven: at most ``L * (m - 2)`` others. Nobody who stays ends with fewer queues than before, and those who stay do not
  exchange queues with each other, neither two of them nor several in a ring.

  Draw an arrow from the old to the new owner of each queue that moves. Could a ring of arrows occur? The old assignment
  could have turned it, the new one could turn it back; both are cheapest, so turning costs nothing, and there were two
  cheapest assignments. With costs of 64 random bits there is one. Could a load fall? Only from ``n // m + 1`` to
  ``n // m``, while the new average rounds down to the same; then a chain of arrows leads from there to a load that rose
  from ``n // m`` to ``n // m + 1``, and a chain between such two can be turned like a ring. So only the one who leaves
  gives more than it takes: the arrows are ``L`` chains that begin there. Each visits nobody twice, so at most ``m - 2``
  arrows follow its first.
* So "what must move, and one more for each who stays", ``L + m - 1``, is certain for ``L = 1`` (thus wherever there are
  no more queues than members), for ``m = 2``, and for ``m = 3`` with ``L = 2``, such as three members with six queues.
* No function of the names alone keeps ``L + m - 1`` for all names, once three members share 15 queues.

  By Ramsey's theorem there are three names such that, among them, the owner depends on the rank of the names only. A
  queue of the second of the three goes to the first or to the second of two. If the first of the three leaves, it stays
  with its owner only in the former case; if the third leaves, only in the latter. The second of three owns ``n // 3``
  queues or more, so one of these two leavings moves at least half of them, five of 15 making three.
* With names as they come, it holds nearly always where ``n <= m * m``, and less often beyond. Queues moved beside the
  ``L``, and for comparison by sorted blocks over all topics (``AVG``)::

         n    m   mean   95 % have at most   ``L + m - 1`` holds   mean of sorted blocks
        24    4    1.1          3                  99   %                  4
        48    8    3.1          6                  99   %                 11
        96    3    1.2          3                  86   %                 11
       200   10    6.9         11                  89   %                 55
      1000   10   14           20                  10   %                268
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

from rocketmq_spark.model import MessageQueue, java_string_order

Step = tuple[int, int]
"""What it costs to hand a queue on (negative: it saves), and which queue."""


def balance(queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> dict[str, tuple[MessageQueue, ...]]:
    """The queues of each member, sorted. Neither the order of the arguments nor repetitions in them matter.

    Invariants: each queue has one owner; loads differ by at most one. Cost: ``len(queues) * len(client_ids)`` hashes,
    and for each of about ``sqrt(n * m)`` chains of moves a search over pairs of members; the last answers are kept.
    """
    ordered = tuple(sorted(set(queues), key=MessageQueue.sort_key))
    members = tuple(sorted(set(client_ids), key=java_string_order))
    return dict(zip(members, _balance(ordered, members), strict=True))


@lru_cache(maxsize=8)
def _balance(queues: tuple[MessageQueue, ...], members: tuple[str, ...]) -> tuple[tuple[MessageQueue, ...], ...]:
    assignment = _Assignment([[pair_cost(queue, member) for member in members] for queue in queues], len(members))
    least, rest = divmod(len(queues), len(members))
    most = least + 1 if rest else least
    assignment.level(lambda load: load > most, lambda load: load < most)
    assignment.level(lambda load: load > least, lambda load: load < least)
    return tuple(tuple(queues[index] for index in sorted(held)) for held in assignment.held)


def pair_cost(queue: MessageQueue, member: str) -> int:
    """64 bits that all members must agree on: a member that computed them otherwise would own others' queues."""
    key = f"{queue.topic}\0{queue.broker_name}\0{queue.queue_id}\0{member}"
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class _Assignment:
    """Queues and members by number; always the cheapest assignment among those with the same loads.

    It begins with each queue at its cheapest member. Moving queues along a cheapest chain of members keeps the sum the
    least for the new loads (successive shortest paths of minimum cost flow).
    """

    def __init__(self, costs: list[list[int]], member_count: int) -> None:
        self._costs = costs
        self.held: list[list[int]] = [[] for _ in range(member_count)]
        for queue, row in enumerate(costs):
            self.held[row.index(min(row))].append(queue)
        self._steps = [self._cheapest_steps(member) for member in range(member_count)]

    def level(self, gives: Callable[[int], bool], takes: Callable[[int], bool]) -> None:
        """Move queues, one chain at a time, from members whose load ``gives`` to members whose load ``takes``."""
        while True:
            givers = [member for member, held in enumerate(self.held) if gives(len(held))]
            takers = [member for member, held in enumerate(self.held) if takes(len(held))]
            if not givers or not takers:
                return
            self._move_along(self._cheapest_chain(givers, takers))

    def _cheapest_steps(self, giver: int) -> list[Step]:
        """For each member the cheapest queue of ``giver`` to hand on to it; nothing if ``giver`` has none."""
        if not self.held[giver]:
            return []
        rows = [(queue, self._costs[queue]) for queue in self.held[giver]]
        return [min((row[taker] - row[giver], queue) for queue, row in rows) for taker in range(len(self.held))]

    def _cheapest_chain(self, givers: list[int], takers: list[int]) -> list[int]:
        """Members from one of ``givers`` to one of ``takers``, each to hand a queue to the next (Bellman and Ford)."""
        distance: dict[int, int] = dict.fromkeys(givers, 0)
        before: dict[int, int] = {}
        changed = list(givers)
        while changed:
            changed = [taker for giver in changed for taker in self._relax(giver, distance, before)]
        chain = [min(takers, key=lambda taker: (distance[taker], taker))]
        while chain[-1] in before:
            chain.append(before[chain[-1]])
        return chain[::-1]

    def _relax(self, giver: int, distance: dict[int, int], before: dict[int, int]) -> list[int]:
        """Members that ``giver`` is a cheaper way to than was known; ``distance`` and ``before`` now say so."""
        nearer = []
        for taker, (cost, _) in enumerate(self._steps[giver]):
            reached = distance[giver] + cost
            if taker != giver and (taker not in distance or reached < distance[taker]):
                distance[taker], before[taker] = reached, giver
                nearer.append(taker)
        return nearer

    def _move_along(self, chain: list[int]) -> None:
        handed = [(self._steps[giver][taker][1], giver, taker) for giver, taker in pairwise(chain)]
        for queue, giver, taker in handed:
            self.held[giver].remove(queue)
            self.held[taker].append(queue)
        for member in chain:
            self._steps[member] = self._cheapest_steps(member)
