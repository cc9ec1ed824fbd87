"""Answers to pulls that bring nothing, of a queue that holds [MIN, MAX) unless they state otherwise."""

from __future__ import annotations

from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

MIN, MAX = 10, 10_000


def result(
    status: PullStatus, reason: str, next_begin: int, *, min_offset: int = MIN, max_offset: int = MAX
) -> PullResult:
    return PullResult(status, reason, next_begin, min_offset, max_offset, memoryview(b""))


def too_small(min_offset: int) -> PullResult:
    return result(PullStatus.OFFSET_ILLEGAL, "OFFSET_TOO_SMALL", min_offset, min_offset=min_offset)
