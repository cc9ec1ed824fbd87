"""Admission: how many offsets of each queue one micro-batch takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocketmq_spark.model import MessageQueue


def fair_shares(
    waiting: Mapping[MessageQueue, int], limit: int | None, served: Sequence[MessageQueue] = ()
) -> dict[MessageQueue, int]:
    """Split ``limit`` offsets among queues in proportion to what waits in each.

    Parameters
    ----------
    waiting : offsets that wait, > 0 for each queue
    limit : offsets in all, >= 1; None: no limit
    served : queues in the order in which they had their last turn, the latest one last

    Returns
    -------
    Shares > 0, none above what waits, ``min(limit, all that waits)`` in all. While the limit allows it every queue gets
    at least one. Below that some get one each: those that never had a turn, then those that had it longest ago, so that
    none starves; the fuller one where that is equal.
    """
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return dict(waiting)
    fullest_first = sorted(waiting, key=lambda queue: (-waiting[queue], queue.sort_key()))
    if limit < len(waiting):
        turns = {queue: turn for turn, queue in enumerate(served)}
        return dict.fromkeys(sorted(fullest_first, key=lambda queue: turns.get(queue, -1))[:limit], 1)
    spare, beyond_one = limit - len(waiting), total - len(waiting)
    shares = {queue: 1 + spare * (waiting[queue] - 1) // beyond_one for queue in fullest_first}
    # What rounding leaves is less than one for each queue that was rounded; those have more, and are the fullest.
    for queue in fullest_first[: limit - sum(shares.values())]:
        shares[queue] += 1
    return shares
