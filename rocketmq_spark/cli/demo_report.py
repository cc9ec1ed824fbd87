"""The demo's orders, output lines and final counts. Pure: a progress event is Spark's parsed JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Set
from typing import Any, Final

from rocketmq_spark.model import Message, MessageQueue, QueueBounds

PRODUCTS: Final = ("books", "games", "music")
COUNTS: Final = ("received", "prefetched", "acknowledged", "expired")
"""Message counts in the progress of a query with message-based load balancing."""

Progress = Mapping[str, Any]


def order_key(number: int) -> str:
    """Return the message key of an order; no two orders share one."""
    return f"order-{number}"


def order_message(topic: str, number: int) -> Message:
    """Return the order with this number, always the same: its body is JSON, its product the tag, ``order_key`` its
    key."""
    order = {"order": number, "customer": f"customer-{number * 7 % 40}", "amount_cents": 500 + number * 37 % 9500}
    return Message(topic, json.dumps(order).encode(), PRODUCTS[number % len(PRODUCTS)], order_key(number))


def line_of(progress: Progress) -> str:
    """Format one output line: query, batch, rows and rate. With message-based load balancing add COUNTS, otherwise the
    lag, ``?`` if it is unknown, and the IDs of the owned queues."""
    latest, rate = _latest(progress), progress.get("processedRowsPerSecond") or 0.0
    batch = (
        f"{progress['name']:<7} batch {progress['batchId']:>3} {progress['numInputRows']:>6} rows {rate:>8.0f} rows/s"
    )
    if "received" in latest:
        return "   ".join((batch, *(f"{name} {latest[name]:>4}" for name in COUNTS)))
    lag = latest.get("lag")
    return f"{batch}   lag {'?' if lag is None else lag:>4}   queues {','.join(queues_of(progress)) or 'none'}"


def queues_of(progress: Progress) -> tuple[str, ...]:
    """Return the IDs of the query's queues: none before its first refresh, or with message-based load balancing."""
    topics = _latest(progress).get("maxOffsets", {}).values()
    return tuple(queue for brokers in topics for queues in brokers.values() for queue in queues)


def is_divided(members: Collection[Progress], queue_count: int) -> bool:
    """Return whether ``members`` own exactly ``queue_count`` queue IDs together, and none of these twice."""
    owned = [queue for progress in members for queue in queues_of(progress)]
    return len(owned) == len(set(owned)) == queue_count


def _latest(progress: Progress) -> Mapping[str, Any]:
    """Return the ``latestOffset`` of the query's first source; {} if it is null."""
    return progress["sources"][0]["latestOffset"] or {}


def group_lag(held: Mapping[MessageQueue, QueueBounds], committed: Mapping[MessageQueue, int | None]) -> int:
    """Return the number of messages from the group's committed offsets to the queues' max offsets, summed over
    ``held``, the bounds of all queues. In a queue whose committed offset is None, all messages count."""
    starts = {queue: bounds.min_offset if (at := committed[queue]) is None else at for queue, bounds in held.items()}
    return sum(max(0, bounds.max_offset - starts[queue]) for queue, bounds in held.items())


def audit(
    produced: Set[str], read: Collection[str], group_lag: int, invoices: Collection[tuple[str, str]]
) -> dict[str, int]:
    """Return counts: ``produced`` orders, ``read`` rows, ``distinct`` orders in these rows, ``duplicates`` (all other
    rows), ``lost`` orders without a row, ``group_lag`` as given, ``written`` invoices, ``invoices`` with different IDs,
    and ``unbilled`` orders without an invoice. ``produced``: keys of the sent orders; ``read``: keys of the rows;
    ``invoices``: (ID, key) of each invoice message."""
    distinct = len(produced & set(read))
    return {
        "produced": len(produced),
        "read": len(read),
        "distinct": distinct,
        "duplicates": len(read) - distinct,
        "lost": len(produced) - distinct,
        "group_lag": group_lag,
        "written": len(invoices),
        "invoices": len({msg_id for msg_id, _ in invoices}),
        "unbilled": len(produced - {key for _, key in invoices}),
    }


def is_clean(counts: Mapping[str, int]) -> bool:
    """Return whether no order is lost, uncommitted or without an invoice. Duplicates are allowed."""
    return not any(counts[name] for name in ("lost", "group_lag", "unbilled"))


def cause_of(failure: str) -> str:
    """Return the connector's last error in the text of a Spark failure: its line, from "[ROCKETMQ_" on. Without one
    return the first line, "" for an empty text. A Python traceback has the causes of an error first, and the error
    itself last."""
    lines = failure.strip().splitlines() or [""]
    ours = [line[line.index("[ROCKETMQ_") :] for line in lines if "[ROCKETMQ_" in line]
    return ours[-1] if ours else lines[0]
