"""``TailWatch``: long polls at the ends of queues. An idle reader is notified of new messages at once, without polling.

It has no thread: responses arrive on the connections' reader threads.
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
"""More queues have longer polls, so that all of them together cost about one request per second."""

PullCallback = Callable[[PullResult | RocketMQError], None]
"""Receives the result or the error of a pull, once."""


class LongPoll(Protocol):
    """Pull one message of ``queue`` at ``offset``, held by the broker for ``suspend_ms``; never raises."""

    def __call__(self, queue: MessageQueue, offset: int, suspend_ms: int, on_response: PullCallback) -> None: ...


class _Pause(NamedTuple):
    """A pause until ``until_ms`` before the next long poll of a queue at ``offset``.

    Its last poll at this offset reported a change, and the position did not advance.
    """

    offset: int
    pause_ms: int
    until_ms: int


class TailWatch:
    """Long polls at the ends of queues, one per queue, while the owner is idle; reports new messages by ``on_change``.

    ``on_change`` is called after each response but NO_NEW_MSG: new messages, an invalid offset, a failed poll. If the
    queue is then watched at the same offset again, the next poll starts after a pause. Its broker refuses pulls, is
    busy, or has a message that is not planned for reading. Pauses double up to the time for which a poll is held, so
    that such a queue costs no more requests than an idle one.

    Threads: ``watch`` from any thread. ``on_change`` and responses run on reader threads, or on the thread of ``watch``
    if a poll cannot be sent. ``_lock`` covers the tables and is never held while a request is sent.
    """

    def __init__(self, long_poll: LongPoll, on_change: Callable[[], None], clock: Clock) -> None:
        """Send nothing before the first ``watch``."""
        self._long_poll = long_poll
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()
        self._armed: set[MessageQueue] = set()
        self._pauses: dict[MessageQueue, _Pause] = {}

    def watch(self, positions: Mapping[MessageQueue, int]) -> None:
        """Send a long poll for each queue without a poll in flight or a pause, at its position (the next offset to
        read), and return. A pause ends early if the queue's position has changed, or is missing in ``positions``. Polls
        in flight stay, even at an older position. The broker holds a poll for 1 s per queue, at least 15 s."""
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
        """Return a callback for the queue's long poll. The callback records that no poll of the queue is in flight, and
        removes its pause. Unless the response is NO_NEW_MSG, it then starts a new ``_pause`` at ``offset`` and calls
        ``on_change``."""

        def on_response(response: PullResult | RocketMQError) -> None:
            """Record that the poll ended. Unless it is NO_NEW_MSG, start a pause and call ``on_change``."""
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
        """Return a pause from now on, at most ``suspend_ms``. It is twice as long as ``before``, the queue's previous
        pause, or the shortest one (250 ms) without ``before``."""
        pause_ms = Pauses(REQUEST_PAUSES.shortest_ms, suspend_ms).after(None if before is None else before.pause_ms)
        return _Pause(offset, pause_ms, self._clock() + pause_ms)
