"""Ahead: how many messages are received before a batch wants them. What cannot be renewed in time comes again and
again, each time as one more attempt: so no more are taken than could be kept."""

from __future__ import annotations

from rocketmq_spark.pop.polls import MOST_MESSAGES


class Ahead:
    """``most``: so many at any time. Not thread-safe."""

    def __init__(self, most: int) -> None:
        self._limit = most
        self.most = most

    def expired(self, kept: int) -> None:
        """Some were given up that waited, and so many still wait."""
        self.most = min(self.most, max(MOST_MESSAGES, kept))

    def frozen(self) -> None:
        """A batch has taken some: a few more are tried."""
        self.most = min(self._limit, self.most + MOST_MESSAGES)
