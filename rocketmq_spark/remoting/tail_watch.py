"""TailWatch: long polls at the ends of queues, so that an idle reader hears of new messages at once and asks nothing.

No thread of its own: the answers arrive on the connections' reader threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

SHORTEST_SUSPEND_MS: Final = 15_000
SUSPEND_MS_PER_QUEUE: Final = 1_000
"""Longer polls for more queues, so that all of them together cost about one request a second."""

PullCallback = Callable[[PullResult | RocketMQError], None]
"""Is told what a pull was answered, or what went wrong, once."""


class LongPoll(Protocol):
    """Pull one message of ``queue`` at ``offset``, held by the broker for ``suspend_ms``; never raises."""

    def __call__(self, queue: MessageQueue, offset: int, suspend_ms: int, on_answer: PullCallback) -> None: ...


class TailWatch:
    """One long poll per watched queue, armed while the owner is idle.

    ``on_news`` hears of everything but silence: new messages, an offset that is none any more, a watch that failed.
    Threads: ``watch`` from any thread, ``on_news`` and answers on reader threads; ``_lock`` covers the table and is
    never held while a request is sent.
    """

    def __init__(self, long_poll: LongPoll, on_news: Callable[[], None]) -> None:
        self._long_poll = long_poll
        self._on_news = on_news
        self._lock = threading.Lock()
        self._armed: set[MessageQueue] = set()

    def watch(self, positions: Mapping[MessageQueue, int]) -> None:
        """Arm a long poll for each queue that has none, at its position."""
        suspend_ms = max(SHORTEST_SUSPEND_MS, SUSPEND_MS_PER_QUEUE * len(positions))
        with self._lock:
            unarmed = [queue for queue in positions if queue not in self._armed]
            self._armed.update(unarmed)
        for queue in unarmed:
            self._long_poll(queue, positions[queue], suspend_ms, self._callback_for(queue))

    def _callback_for(self, queue: MessageQueue) -> PullCallback:
        def on_answer(answer: PullResult | RocketMQError) -> None:
            with self._lock:
                self._armed.discard(queue)
            if isinstance(answer, RocketMQError) or answer.status is not PullStatus.NO_NEW_MSG:
                self._on_news()

        return on_answer
