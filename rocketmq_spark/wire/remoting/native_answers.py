"""Ordinary answers read by the Rust twin (``native/``). Importing this fails where that is not built."""

from __future__ import annotations

from rocketmq_spark.wire import _native
from rocketmq_spark.wire.remoting.ordinary_answer import WANTED, AnswerTemplate, Ordinary, Place
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus


class NativeAnswerTemplate(AnswerTemplate):
    """As ``AnswerTemplate``, and faster."""

    def __init__(self, places: list[Place], rest: bytes, reason: str) -> None:
        numbered = [(before, None if name is None else WANTED.index(name)) for before, name in places]
        self._twin = _native.AnswerTemplate(numbered, rest, PullResult, PullStatus.FOUND, reason)

    def read(self, received: memoryview, begin: int, end: int) -> tuple[list[Ordinary], int]:
        """See ``AnswerTemplate``."""
        return self._twin.read(received, begin, end)
