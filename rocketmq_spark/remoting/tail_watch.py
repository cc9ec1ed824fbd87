"""TailWatch: long polls at the ends of queues, so that an idle reader hears of new messages at once and asks nothing.

No thread of its own: the answers arrive on the connections' reader threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.clock import Clock
from rocketmq_spark.remoting.retry import REQUEST_PAUSES, Pauses
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

SHORTEST_SUSPEND_MS: Final = 15_000
SUSPEND_MS_PER_QUEUE: Final = 1_000
"""Longer polls for more queues, so that all of them together cost about one request a second."""

PullCallback = Callable[[PullResult | RocketMQError], None]
"""Is told what a pull was answered, or what went wrong, once."""


class LongPoll(Protocol):
    """Pull one message of ``queue`` at ``offset``, held by the broker for ``suspend_ms``; never raises."""

    def __call__(self, queue: MessageQueue, offset: int, suspend_ms: int, on_response: PullCallback) -> None: ...


class _Pause(NamedTuple):
    """Until when a queue is not watched at ``offset``: its last poll there was news, and nothing came of it."""

    offset: int
    pause_ms: int
    until_ms: int


class TailWatch:
    """One long poll per watched queue, armed while the owner is idle.

    ``on_change`` hears of everything but silence: new messages, an offset that is none any more, a watch that failed.
    A queue that was news and is to be watched at the same offset again (its broker refuses pulls, is busy, or has a
    message that nobody plans to read) is so after a pause, and after longer and longer ones, up to the time for which a
    poll is held: so it costs no more than silence.

    Threads: ``watch`` from any thread, ``on_change`` and answers on reader threads; ``_lock`` covers the tables and is
    never held while a request is sent.
    """

    def __init__(self, long_poll: LongPoll, on_change: Callable[[], None], clock: Clock) -> None:
        self._long_poll = long_poll
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()
        self._armed: set[MessageQueue] = set()
        self._pauses: dict[MessageQueue, _Pause] = {}

    def watch(self, positions: Mapping[MessageQueue, int]) -> None:
        """Arm a long poll for each queue that has none and no pause, at its position. Others' pauses are over."""
        suspend_ms = max(SHORTEST_SUSPEND_MS, SUSPEND_MS_PER_QUEUE * len(positions))
        now_ms = self._clock()
        with self._lock:
            self._pauses = {
                queue: pause for queue, pause in self._pauses.items() if positions.get(queue) == pause.offset
            }
            pausing = {queue for queue, pause in self._pauses.items() if now_ms < pause.until_ms}
            due = positions.keys() - self._armed - pausing
            self._armed |= due
        for queue in due:
            self._long_poll(
                queue, positions[queue], suspend_ms, self._callback_for(queue, positions[queue], suspend_ms)
            )

    def _callback_for(self, queue: MessageQueue, offset: int, suspend_ms: int) -> PullCallback:
        def on_response(response: PullResult | RocketMQError) -> None:
            is_change = isinstance(response, RocketMQError) or response.status is not PullStatus.NO_NEW_MSG
            with self._lock:
                self._armed.discard(queue)
                before = self._pauses.pop(queue, None)
                if is_change:
                    self._pauses[queue] = self._pause(offset, suspend_ms, before)
            if is_change:
                self._on_change()

        return on_response

    def _pause(self, offset: int, suspend_ms: int, before: _Pause | None) -> _Pause:
        pause_ms = Pauses(REQUEST_PAUSES.shortest_ms, suspend_ms).after(None if before is None else before.pause_ms)
        return _Pause(offset, pause_ms, self._clock() + pause_ms)
