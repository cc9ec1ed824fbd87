"""ProcessQueue: what of one queue is in flight, and up to where it may be committed.

Source: ``client/impl/consumer/ProcessQueue.java``, whose unit is a message. Here it is a half-open range of offsets, a
Spark split; a single message is a range of one. It differs in two points: Java's ``removeMessage`` answers -1 on an
empty tree, here finishing what is not in flight is an error of the caller; and Java's ``queueOffsetMax`` never moves
back, here a window that has run empty starts anew with what is taken next.
"""

from __future__ import annotations

from rocketmq_spark.consumer.sliding_window import SlidingWindow
from rocketmq_spark.model import MessageQueue


class ProcessQueue(SlidingWindow):
    """The window of a queue from when it is gained to when it is lost.

    ``dropped`` is a one-way latch: a queue that is lost and comes back gets a new ProcessQueue. ``life`` tells the two
    apart: of one member's ProcessQueues no two have the same.

    Not thread-safe.
    """

    __slots__ = ("_dropped", "life", "queue")

    def __init__(self, queue: MessageQueue, life: int) -> None:
        super().__init__()
        self.queue = queue
        self.life = life
        self._dropped = False

    @property
    def dropped(self) -> bool:
        return self._dropped

    def drop(self) -> None:
        self._dropped = True

    def put(self, begin_offset: int, end_offset: int) -> None:
        """As ``SlidingWindow.put``; ValueError also once it is dropped."""
        if self._dropped:
            raise ValueError(f"{self!r} is dropped and takes nothing")
        super().put(begin_offset, end_offset)

    def __repr__(self) -> str:
        state = "DROPPED" if self._dropped else "OWNED"
        return f"<ProcessQueue {self.queue} life {self.life} {state}, {self._ranges()}>"
