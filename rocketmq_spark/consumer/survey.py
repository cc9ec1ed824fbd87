"""Survey: what a member has learnt by asking, for whoever plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocketmq_spark.consumer.ports import Link
from rocketmq_spark.model import MessageQueue, QueueBounds


@dataclass(frozen=True, slots=True)
class Survey:
    """What a member knows after asking: its queues, and the bounds of every readable queue whose broker answered.

    ``is_complete``: every name server, topic and broker answered, and the group's members are known. ``away``: queues
    that were asked for and that nobody serves, with the last address of their broker; see ``Outages.away``. ``links``:
    by which each broker of ``bounds`` was reached, or has been since. ``leaving``: queues that are being given up, and
    that nobody else has yet. ``telling``: brokers that tell of a deleted topic, because they delete the group's offsets
    with it.
    """

    owned: frozenset[MessageQueue]
    bounds: Mapping[MessageQueue, QueueBounds]
    is_complete: bool
    away: Mapping[MessageQueue, str] = field(default_factory=dict)
    links: Mapping[str, Link | None] = field(default_factory=dict)
    leaving: frozenset[MessageQueue] = frozenset()
    telling: frozenset[str] = frozenset()
