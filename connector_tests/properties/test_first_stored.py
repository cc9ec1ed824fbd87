"""Whatever a broker's search states, the first message of a time is found, and a right answer costs two pulls."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connector_tests.support.message_bytes import Record
from rocketmq_spark.remoting.first_stored import first_stored
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus


@dataclass
class Queue:
    """A queue's messages as a broker pulls them: offset → store time. ``gone``: removed, and not by retention.

    ``moved_by``: those from ``moved_from`` on are stored with larger offsets, because the broker could not put others
    into the queue.
    """

    stored_ms: dict[int, int]
    min_offset: int
    max_offset: int
    moved_from: int = 0
    moved_by: int = 0
    pulls: list[int] = field(default_factory=list)

    def first(self, timestamp_ms: int) -> int:
        """Where a reader has to begin; the offsets below that hold nothing do not matter."""
        return min(
            (offset for offset, at_ms in self.stored_ms.items() if at_ms >= timestamp_ms), default=self.max_offset
        )

    def pull(self, offset: int) -> PullResult:
        """As ``DefaultMessageStore#getMessage`` answers."""
        self.pulls.append(offset)
        if offset < self.min_offset:
            return self._result(PullStatus.OFFSET_ILLEGAL, self.min_offset)
        if offset > self.max_offset:
            return self._result(PullStatus.OFFSET_ILLEGAL, self.max_offset)
        if offset == self.max_offset:
            return self._result(PullStatus.NO_NEW_MSG, offset)
        if offset not in self.stored_ms:
            return self._result(PullStatus.NO_MATCHED_MSG, offset + 1)
        stored_offset = offset + (self.moved_by if offset >= self.moved_from else 0)
        record = Record(queue_offset=stored_offset, store_timestamp_ms=self.stored_ms[offset])
        return self._result(PullStatus.FOUND, offset + 1, record.encode())

    def _result(self, status: PullStatus, next_offset: int, body: bytes = b"") -> PullResult:
        return PullResult(status, "", next_offset, self.min_offset, self.max_offset, memoryview(body))

    def found(self, responded_offset: int, timestamp_ms: int) -> int:
        """What ``first_stored`` makes of the broker's answer."""
        search = first_stored(responded_offset, timestamp_ms)
        try:
            at = next(search)
            while True:
                at = search.send(self.pull(at))
        except StopIteration as end:
            return int(end.value)


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    """Bursts of messages of one millisecond, pauses, and here and there a message that is gone."""
    steps_ms = draw(st.lists(st.sampled_from([0, 0, 0, 1, 7]), max_size=60))
    min_offset = draw(st.integers(0, 50))
    missing = draw(st.sets(st.integers(0, 60), max_size=5))
    at_ms, stored_ms = 100, {}
    for index, step_ms in enumerate(steps_ms):
        at_ms += step_ms
        if index not in missing:
            stored_ms[min_offset + index] = at_ms
    moved_from, moved_by = draw(st.integers(0, 110)), draw(st.sampled_from([0, 0, 1, 3]))
    return Queue(stored_ms, min_offset, min_offset + len(steps_ms), moved_from, moved_by)


TIMES_MS = st.integers(95, 320)


def as_read(queue: Queue, offset: int) -> int:
    """The message that a reader gets first at ``offset``."""
    return min((there for there in queue.stored_ms if there >= offset), default=queue.max_offset)


@given(queue=queues(), timestamp_ms=TIMES_MS, responded_offset=st.integers(-1, 200))
def test_any_response_leads_to_the_first_message_of_the_time(
    queue: Queue, timestamp_ms: int, responded_offset: int
) -> None:
    found = queue.found(responded_offset, timestamp_ms)
    assert queue.min_offset <= found <= queue.max_offset
    assert as_read(queue, found) == queue.first(timestamp_ms)


@given(queue=queues(), timestamp_ms=TIMES_MS)
def test_a_right_response_costs_two_pulls(queue: Queue, timestamp_ms: int) -> None:
    queue.stored_ms |= {
        offset: 99 for offset in range(queue.min_offset, queue.max_offset) if offset not in queue.stored_ms
    }
    times_ms = sorted(queue.stored_ms.values())
    queue.stored_ms = dict(zip(range(queue.min_offset, queue.max_offset), times_ms, strict=True))
    right = queue.min_offset + bisect_left(times_ms, timestamp_ms)
    assert queue.found(right, timestamp_ms) == right
    assert len(queue.pulls) <= 2


@given(timestamp_ms=st.integers(0, 10**6), responded_offset=st.integers(-1, 2 * 10**6))
def test_a_wrong_response_in_a_million_messages_costs_steps_that_double_and_halves(
    timestamp_ms: int, responded_offset: int
) -> None:
    queue = Queue({}, 0, 10**6)

    class EachMillisecond(dict[int, int]):
        def __contains__(self, offset: object) -> bool:
            return True

        def __getitem__(self, offset: int) -> int:
            return offset

    queue.stored_ms = EachMillisecond()
    assert queue.found(responded_offset, timestamp_ms) == timestamp_ms
    assert len(queue.pulls) <= 44


def test_the_end_as_rocketmq_4_rocketmq_5_and_a_tiered_store_name_it() -> None:
    for responded_offset in (299, 300, -1):
        assert Queue(dict.fromkeys(range(300), 100), 0, 300).found(responded_offset, 101) == 300


def test_among_messages_of_one_millisecond_the_first_is_found_though_the_broker_names_another() -> None:
    stored_ms = dict.fromkeys(range(100), 100) | dict.fromkeys(range(100, 200), 200)
    assert Queue(stored_ms, 0, 200).found(74, 100) == 0
    assert Queue(stored_ms, 0, 200).found(174, 200) == 100


def test_a_maximum_that_lags_behind_what_can_be_pulled_hides_nothing() -> None:
    """Tiered stores: the answer to a pull names a smaller one."""

    class Lagging(Queue):
        def _result(self, status: PullStatus, next_offset: int, body: bytes = b"") -> PullResult:
            return super()._result(status, next_offset, body)._replace(max_offset=4)

    queue = Lagging({offset: offset for offset in range(10)}, 0, 10)
    for responded_offset in (-1, 0, 4, 9, 10):
        assert queue.found(responded_offset, 8) == 8


def test_a_clock_that_was_set_back_ends_at_a_place_where_the_times_pass() -> None:
    times_ms = [10, 20, 30, 5, 15, 25]
    queue = Queue(dict(enumerate(times_ms)), 0, 6)
    for responded_offset in range(-1, 8):
        found = queue.found(responded_offset, 18)
        assert (found == 6 or times_ms[found] >= 18) and (found == 0 or times_ms[found - 1] < 18)


def test_a_wrong_response_costs_as_many_pulls_as_there_are_doublings_and_halves() -> None:
    """Up from 0 to 100: 1, 3, 7, 15, 31, 63, 127, then halves; down the same way."""
    upwards = Queue({offset: offset for offset in range(1_000)}, 0, 1_000)
    assert upwards.found(0, 100) == 100
    assert upwards.pulls[:8] == [0, 1, 3, 7, 15, 31, 63, 127]
    downwards = Queue({offset: offset for offset in range(1_000)}, 0, 1_000)
    assert downwards.found(200, 100) == 100
    assert downwards.pulls[:8] == [200, 199, 197, 193, 185, 169, 137, 73]


def test_a_queue_of_which_nothing_is_left_is_read_from_its_end() -> None:
    """Answers that point nowhere but to where they were asked end the search, whatever they are called."""

    class Pointing(Queue):
        def pull(self, offset: int) -> PullResult:
            self.pulls.append(offset)
            return self._result(PullStatus.OFFSET_ILLEGAL, offset)

    queue = Pointing({}, 5, 5)
    assert queue.found(5, 100) == 5
    assert queue.pulls == [5]


def test_nothing_new_is_trusted_though_it_points_further() -> None:
    class Beyond(Queue):
        def pull(self, offset: int) -> PullResult:
            return super().pull(offset)._replace(next_begin_offset=offset + 1)

    queue = Beyond({}, 5, 5)
    assert queue.found(5, 100) == 5
    assert queue.pulls == [5]


def test_a_response_within_the_queue_is_probed_before_its_end_is() -> None:
    queue = Queue({offset: offset for offset in range(4)}, 0, 10)
    assert queue.found(2, 2) == 2
    assert queue.pulls == [2, 1]


def test_a_response_beyond_the_queue_costs_no_search_from_there() -> None:
    """Tiered stores state -1 for a time after the last message; 2**48 steps down would take a while."""
    for responded_offset in (-1, 2**40):
        queue = Queue({offset: offset for offset in range(1_000)}, 0, 1_000)
        assert queue.found(responded_offset, 5_000) == 1_000
        assert len(queue.pulls) == 3


def test_where_the_next_messages_are_deleted_those_behind_them_are_probed() -> None:
    """What is gone is neither early nor late: an answer that only points further does not end a look."""
    queue = Queue({0: 100, 3: 100, 4: 200}, 0, 5)
    assert queue.found(0, 150) == 4


def test_a_time_is_found_behind_messages_that_moved() -> None:
    queue = Queue({offset: offset for offset in range(10)}, 0, 10, moved_from=2, moved_by=3)
    for responded_offset in range(11):
        assert queue.found(responded_offset, 5) == 5


class Batches(Queue):
    """Each message is an inner batch of ``size`` offsets, all of which a broker responds to with the whole batch."""

    size = 10

    def pull(self, offset: int) -> PullResult:
        assert len(self.pulls) < 100
        result = super().pull(offset)
        if result.status is not PullStatus.FOUND:
            return result
        begin = self.min_offset + (offset - self.min_offset) // self.size * self.size
        record = Record(queue_offset=begin, store_timestamp_ms=self.stored_ms[offset])
        return self._result(PullStatus.FOUND, begin + self.size, record.encode())


@given(
    st.integers(0, 30),
    st.lists(st.integers(0, 9), min_size=1, max_size=20).map(sorted),
    st.integers(-1, 12),
    st.integers(-1, 250),
)
@example(0, [1, 5], 3, 10)
def test_a_time_is_found_between_inner_batches(
    min_offset: int, times_ms: list[int], timestamp_ms: int, responded_offset: int
) -> None:
    """A message of each batch was taken for its first one, and probed again without an end."""
    offsets = range(min_offset, min_offset + Batches.size * len(times_ms))
    stored_ms = {offset: times_ms[index // Batches.size] for index, offset in enumerate(offsets)}
    right = min_offset + Batches.size * bisect_left(times_ms, timestamp_ms)
    assert Batches(stored_ms, offsets.start, offsets.stop).found(responded_offset, timestamp_ms) == right


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 1), st.integers(-(2**63), 2**63 - 1))),
    st.integers(-1, 2**63 - 1),
)
@example([], 5)
def test_a_search_ends_whatever_messages_a_broker_finds(
    responses: list[tuple[int, int, int]], responded_offset: int
) -> None:
    """The last response again and again: by default an early message at 0."""
    search, rest = first_stored(responded_offset, 1), iter(responses)
    offset, stored_ms, next_offset = 0, 0, 1
    with pytest.raises(StopIteration):
        for count in range(1_000):
            if count == 0:
                next(search)
            offset, stored_ms, next_offset = next(rest, (offset, stored_ms, next_offset))
            record = Record(queue_offset=offset, store_timestamp_ms=stored_ms)
            search.send(PullResult(PullStatus.FOUND, "", next_offset, 0, offset, memoryview(record.encode())))
