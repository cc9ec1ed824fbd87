"""Retention check: detects messages that a broker deleted before it delivered them to the group.

A pop response does not report them: the broker moves the group's offset to the first message that is left. This check
therefore precedes a pop, and compares the group's offset with each queue's min offset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.pop.receive_scheduler import Target
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.clock import Clock
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request

log = logging.getLogger(__name__)

INTERVAL_MS: Final = 30_000
"""Minimum time between two checks of a target."""

OFFSET_STABLE_MS: Final = 60_000
"""Time after a delivery from which on the group's offset at the broker includes it."""

CONFIRM_DELAY_S: Final = 12.0
"""Delay of the second check: a broker moves the group's offset up to 10 s after a delivery to another member.

Source: ``common/BrokerConfig.java`` (popCkStayBufferTime).
"""

ReportDeleted: TypeAlias = Callable[[Sequence[QueueRange]], None]
"""Called with deleted ranges, each once; raises if the query must fail."""


def ignore_deleted(_deleted: Sequence[QueueRange]) -> None:
    """Do nothing: the report of a transport that reads no messages."""


class RetentionCheck:
    """Check, before polls of one group, for messages that a broker deleted before it delivered them to the group.

    ``report``: called with deleted ranges. ``wait``: sleeps for a number of seconds; returns whether the query has
    ended meanwhile. Threads: any.
    """

    def __init__(self, group: str, report: ReportDeleted, wait: Callable[[float], bool], clock: Clock) -> None:
        self._group = group
        self._report = report
        self._wait = wait
        self._clock = clock
        self._checked_ms: dict[Target, int] = {}
        self._delivered_ms: dict[Target, int] = {}
        self._reported: set[tuple[MessageQueue, int]] = set()

    def record_delivery(self, target: Target) -> None:
        """Record that ``target`` has just delivered messages."""
        self._delivered_ms[target] = self._clock()

    def is_due(self, target: Target) -> bool:
        """Return whether to check the target now. It is due before its first check. Later it is due 30 s after the last
        check and 60 s after the last delivery, whichever is later."""
        if target not in self._checked_ms:
            return True
        checked_ms, delivered_ms = self._checked_ms[target], self._delivered_ms.get(target, -OFFSET_STABLE_MS)
        return self._clock() >= max(checked_ms + INTERVAL_MS, delivered_ms + OFFSET_STABLE_MS)

    def report_deleted(self, target: Target, broker: Broker) -> None:
        """Request min offsets and the group's offsets and wait, whether due or not. If the broker deleted undelivered
        messages, wait CONFIRM_DELAY_S (12 s), request again, and call ``report`` with the ranges found both times, once
        for each range. If the query ends meanwhile, return at once. A permanent RocketMQError of a request is logged
        and ends this check; any other is raised. Raises what ``report`` does."""
        try:
            lost = {
                _range_start(deleted_range) for deleted_range in self._query_deleted(target, broker)
            } - self._reported
            if lost and self._wait(CONFIRM_DELAY_S):
                return
            confirmed = (
                [
                    deleted_range
                    for deleted_range in self._query_deleted(target, broker)
                    if _range_start(deleted_range) in lost
                ]
                if lost
                else []
            )
        except RocketMQError as error:
            if retryability_of_request(error) is not Retryability.PERMANENT:
                raise
            log.info(
                "RETENTION_CHECK_SKIPPED: Cannot check whether broker=%s has deleted undelivered messages of "
                "topic=%s; next check in %d s: %s",
                *reversed(target),
                INTERVAL_MS // 1000,
                error,
            )
            confirmed = []
        if confirmed:
            self._report(confirmed)
        self._reported |= set(map(_range_start, confirmed))
        self._checked_ms[target] = self._clock()

    def _query_deleted(self, target: Target, broker: Broker) -> list[QueueRange]:
        """Request the bounds of the topic's queues on the broker and the group's offsets, and wait; return
        ``deleted_undelivered`` of them. Queues of other brokers in the response are ignored. Raises what the requests
        do."""
        held = broker.query_topic_stats(target.topic)
        bounds = {queue: one for queue, one in held.items() if queue.broker_name == target.broker_name}
        return deleted_undelivered(bounds, broker.query_offsets(self._group, bounds))


def deleted_undelivered(
    bounds: Mapping[MessageQueue, QueueBounds], offsets: Mapping[MessageQueue, int | None]
) -> list[QueueRange]:
    """Return, for each queue with a group's offset before its min offset, the half-open range from the group's offset
    to the min offset. A missing or negative group's offset gives no range."""
    return [
        QueueRange(queue, offset, queue_bounds.min_offset)
        for queue, queue_bounds in bounds.items()
        if (offset := offsets.get(queue)) is not None and 0 <= offset < queue_bounds.min_offset
    ]


def _range_start(deleted_range: QueueRange) -> tuple[MessageQueue, int]:
    """Return the queue and the begin of a deleted range, which identify it: its end moves while the broker deletes
    more."""
    return deleted_range.queue, deleted_range.begin_offset
