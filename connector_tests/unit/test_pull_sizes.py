"""What sizes of messages cost a range: pulls, round trips and memory, at a broker that answers with 256 KiB at most, or
with one message."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

import pytest

from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.pull.pull_request import PullRequest, pull_action
from rocketmq_spark.pull.pull_window import PullWindow
from rocketmq_spark.pull.range_puller import MAX_BYTES, MAX_DEPTH
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus

KIB = 1024
RESPONSE_BYTES = 256 * KIB
RESPONSE_MESSAGES = 32
LARGEST_BYTES = 4 * KIB * KIB
NOTHING = memoryview(bytes(LARGEST_BYTES))

SizeOf = Callable[[int], int]


class Reading:
    """A range of ``count`` messages, read in rounds: all that is in flight is responded, in the order of a ``seed``.

    ``most_bytes``: what was in flight, with the answers that it will get, and what waited, once an answer as large as
    any had come, and what had been asked for before that was delivered. Until then nobody can know.
    """

    def __init__(self, count: int, size_of: SizeOf, seed: int | None = None) -> None:
        self._count = count
        self._size_of = size_of
        self._random = None if seed is None else Random(seed)
        self._window = PullWindow(0, count, max_depth=MAX_DEPTH, max_bytes=MAX_BYTES, completion_queue=deque())
        self._in_flight: list[PullRequest] = []
        self._buffered_bytes = self._delivered_to = 0
        self._largest = max(map(size_of, range(count)))
        self._called: set[PullRequest] = set()
        self._called_before: set[PullRequest] | None = None
        self.pulls = self.rounds = self.most_bytes = 0
        while not self._window.is_finished:
            self._round()

    def _round(self) -> None:
        self.rounds += 1
        self._send()
        responded = self._in_flight
        if self._random is not None:
            self._random.shuffle(responded)
        for _ in range(len(responded)):
            request = responded.pop()
            result = self._response(request)
            self._buffered_bytes += len(result.body)
            self._called.add(request)
            if self._called_before is None and len(result.body) >= self._largest:
                self._called_before = self._called | set(responded)
            if not self._window.accept_fast_path([(request, result, MASTER_ID)]):
                self._window.step(request, result, pull_action(result, request.next_offset))
            for pulled in self._window.deliver():
                self._buffered_bytes -= len(pulled.body)
                self._delivered_to = pulled.end_offset
            self._send()

    def _send(self) -> None:
        sent = self._window.take_requests()
        self.pulls += len(sent)
        self._in_flight[:0] = sent
        if self._called_before is not None:
            self._called_before = {
                request for request in self._called_before if request.end_offset > self._delivered_to
            }
        if sent and self._called_before == set():
            coming = sum(len(self._response(request).body) for request in self._in_flight)
            self.most_bytes = max(self.most_bytes, self._buffered_bytes + coming)

    def _response(self, request: PullRequest) -> PullResult:
        at, total = request.next_offset, 0
        last = min(at + min(request.max_messages, RESPONSE_MESSAGES), self._count)
        while at < last and (total == 0 or total + self._size_of(at) <= RESPONSE_BYTES):
            total += self._size_of(at)
            at += 1
        return PullResult(PullStatus.FOUND, "FOUND", at, 0, self._count, NOTHING[:total])


def all_of(size_bytes: int) -> SizeOf:
    return lambda _offset: size_bytes


def but_one(size_bytes: int, every: int, large_bytes: int) -> SizeOf:
    return lambda offset: large_bytes if offset % every == every // 2 else size_bytes


COUNT = 100_000


def test_a_range_with_one_message_of_4_mib_takes_hardly_more_than_one_without() -> None:
    """It used to pull two at once for all the rest."""
    without, with_one = Reading(COUNT, all_of(KIB)), Reading(COUNT, but_one(KIB, COUNT, LARGEST_BYTES))
    assert with_one.pulls <= 1.3 * without.pulls
    assert with_one.rounds <= 1.3 * without.rounds


def test_one_large_message_in_a_thousand_costs_a_pull_each_and_no_more() -> None:
    """It used to quarter the stride."""
    without, with_some = Reading(COUNT, all_of(KIB)), Reading(COUNT, but_one(KIB, 1_000, 300 * KIB))
    assert with_some.pulls <= without.pulls + 3 * COUNT // 1_000


def test_messages_that_grow_lower_the_stride() -> None:
    """Else each request would be pulled piece by piece, one round trip after another."""
    grown = Reading(COUNT, lambda offset: KIB if offset < 1_000 else 20 * KIB)
    assert grown.pulls <= 1.1 * COUNT / (RESPONSE_BYTES // (20 * KIB))


@pytest.mark.parametrize("size_bytes", [8 * KIB, 64 * KIB, 256 * KIB, LARGEST_BYTES])
def test_what_is_in_flight_and_what_waits_are_within_the_bound_and_one_more(size_bytes: int) -> None:
    response_bytes = max(size_bytes, min(RESPONSE_MESSAGES, RESPONSE_BYTES // size_bytes) * size_bytes)
    for seed in range(5):
        assert Reading(5_000, all_of(size_bytes), seed).most_bytes <= MAX_BYTES + response_bytes


@pytest.mark.parametrize("every", [50, 200, 1_000])
def test_a_mixture_stays_within_twice_the_bound(every: int) -> None:
    """What a pull in flight brings is not known, only what the last ones brought."""
    for seed in range(3):
        mixture = Reading(20_000, but_one(4 * KIB, every, LARGEST_BYTES), seed)
        assert mixture.most_bytes <= 2 * MAX_BYTES + LARGEST_BYTES
