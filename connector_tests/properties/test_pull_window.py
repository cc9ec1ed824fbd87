"""A range is read exactly, whatever the broker answers, in whatever order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_queue import QUEUE, SimulatedNetwork, SimulatedQueue, offsets_of
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import MASTER_ID, QueueRange
from rocketmq_spark.pull.absent_offsets import ABSENT_LIMIT_MS
from rocketmq_spark.pull.pull_request import LOST_KINDS, PullAction, PulledRange, PullRequest, pull_action
from rocketmq_spark.pull.pull_window import FIRST_STRIDE, PullWindow
from rocketmq_spark.pull.range_puller import MAX_DEPTH, RangePuller
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult, PullStatus

MOST_PULLS = 20_000
LIMIT_MS = 600_000

TRANSIENT: tuple[RocketMQError, ...] = (
    TransportError("CONNECTION_LOST", address="a:1", reason="cut"),
    RouteError("TOPIC_NOT_FOUND", topic="orders", address="a:1"),
    BrokerError("BROKER_ERROR", address="a:1", request="PULL_MESSAGE", code=ResponseCode.SYSTEM_BUSY.value,
                code_name="SYSTEM_BUSY", remark="[OVERLOAD]"),
)  # fmt: skip


@dataclass
class MovingBroker:
    """Answers pulls of one queue, while retention deletes, the tail is away, an operator resets, and things fail."""

    queue: SimulatedQueue
    random: Random
    clock: ManualClock
    whole_max_offset: int
    tail_returns_at_ms: int
    mishaps_left: int
    is_filtering: bool
    omitted: set[int] = field(default_factory=set)
    """Deleted messages that an answer has passed over without a word, as brokers do."""
    pulls: int = 0
    bodies_responded: int = 0

    def response(self, offset: int, max_messages: int) -> PullOutcome:
        self.pulls += 1
        assert self.pulls < MOST_PULLS, "it pulls for ever"
        assert max_messages >= 1
        self._move()
        if self.mishaps_left and self.random.random() < 0.2:
            self.mishaps_left -= 1
            return self._mishap(offset)
        result = self.queue.pull(offset, max_messages)
        self.bodies_responded += result.status is PullStatus.FOUND
        if result.reason in ("FOUND", "NO_MATCHED_MESSAGE"):
            passed = range(offset, result.next_begin_offset)
            self.omitted.update(offset for offset in passed if offset < self.queue.removed_to)
        return result

    def _move(self) -> None:
        self.queue.message_limit = self.random.randint(1, 64)
        if self.clock() >= self.tail_returns_at_ms:
            self.queue.max_offset = self.whole_max_offset
        if self.random.random() < 0.05:
            self.queue.removed_to = self.random.randint(self.queue.removed_to, self.whole_max_offset)
        if self.random.random() < 0.05:
            self.queue.min_offset = min(max(self.queue.min_offset, self.queue.removed_to), self.queue.max_offset)

    def _mishap(self, offset: int) -> PullOutcome:
        held = (self.queue.min_offset, self.queue.max_offset, memoryview(b""))
        reset = PullResult(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", 0, *held)
        mishaps: tuple[PullOutcome, ...] = (
            *TRANSIENT,
            reset,
            PullResult(PullStatus.NO_NEW_MSG, "OFFSET_FOUND_NULL", offset, *held),
            PullResult(PullStatus.NO_MATCHED_MSG, "NO_MATCHED_MESSAGE", offset, *held),
        )
        return self.random.choice(mishaps)


@st.composite
def moving_brokers(draw: st.DrawFn) -> tuple[QueueRange, MovingBroker]:
    begin = draw(st.integers(0, 50))
    queue_range = QueueRange(QUEUE, begin, begin + draw(st.integers(0, 400)))
    whole_max = queue_range.end_offset + draw(st.integers(0, 20))
    gaps = draw(st.sampled_from([frozenset(), frozenset({1}), frozenset(range(1, 50)), frozenset(range(50))]))
    queue = SimulatedQueue(
        min_offset=draw(st.integers(0, whole_max)) if draw(st.booleans()) else 0,
        max_offset=draw(st.integers(0, whole_max)) if draw(st.booleans()) else whole_max,
        scan_limit=draw(st.sampled_from([1, 7, 100, 800])),
        is_matching=lambda offset: offset % 50 not in gaps,
    )
    queue.min_offset = min(queue.min_offset, queue.max_offset)
    queue.removed_to = draw(st.integers(queue.min_offset, whole_max)) if draw(st.booleans()) else 0
    broker = MovingBroker(
        queue,
        Random(draw(st.integers(0, 2**32))),
        ManualClock(),
        whole_max_offset=whole_max,
        tail_returns_at_ms=draw(st.sampled_from([0, ABSENT_LIMIT_MS // 2, 2 * ABSENT_LIMIT_MS, 10**9])),
        mishaps_left=draw(st.integers(0, 10)),
        is_filtering=bool(gaps),
    )
    return queue_range, broker


@settings(max_examples=300)
@given(moving_brokers())
def test_a_range_is_delivered_whole_in_order_and_once_or_reported_as_lost(
    setting: tuple[QueueRange, MovingBroker],
) -> None:
    queue_range, broker = setting
    network = SimulatedNetwork(
        broker.response,
        broker.clock,
        choose=lambda count: broker.random.randrange(count),
        is_slow=lambda: broker.random.random() < 0.2,
        brings_more=lambda: broker.random.random() < 0.5,
    )
    puller = RangePuller(queue_range, network, limit_ms=LIMIT_MS, missing_ms=LIMIT_MS, clock=broker.clock)
    delivered: list[PulledRange] = []
    for pulled in puller.pull():
        assert broker.bodies_responded - sum(len(before.body) > 0 for before in delivered) <= MAX_DEPTH + 1
        delivered.append(pulled)

    assert_touching(delivered, queue_range)
    rows = [offset for pulled in delivered for offset in offsets_of(pulled)]
    if not broker.is_filtering and not broker.omitted:
        assert sum(len(pulled.body) for pulled in delivered) == 8 * len(rows), "something was pulled twice"
    lost = {
        at for pulled in delivered if pulled.kind in LOST_KINDS for at in range(pulled.begin_offset, pulled.end_offset)
    }
    event(f"lost something: {bool(lost)}")
    assert rows == sorted(set(rows))
    assert not lost & set(rows)
    assert lost <= ever_deleted(broker, queue_range)
    matching = {at for at in range(queue_range.begin_offset, queue_range.end_offset) if broker.queue.is_matching(at)}
    assert matching - set(rows) - lost <= broker.omitted
    assert network.most_in_flight <= MAX_DEPTH


def assert_touching(delivered: list[PulledRange], queue_range: QueueRange) -> None:
    ends = [queue_range.begin_offset, *(pulled.end_offset for pulled in delivered)]
    assert [pulled.begin_offset for pulled in delivered] == ends[:-1]
    assert ends[-1] == queue_range.end_offset
    neighbours = pairwise(delivered)
    assert not any(before.kind in LOST_KINDS and after.kind in LOST_KINDS for before, after in neighbours), (
        "a loss was told in pieces"
    )


def ever_deleted(broker: MovingBroker, queue_range: QueueRange) -> set[int]:
    """Offsets of the range that retention had reached, or that lay in the tail that was away for too long."""
    deleted = range(max(broker.queue.min_offset, broker.queue.removed_to))
    unavailable = range(broker.queue.max_offset, broker.whole_max_offset)
    return {at for at in range(queue_range.begin_offset, queue_range.end_offset) if at in deleted or at in unavailable}


def filled(stride: int) -> tuple[PullWindow, list[PullRequest]]:
    """A window at full depth after a response that covered ``stride`` offsets, and its pulls in flight."""
    subject = PullWindow(0, 10_000, max_depth=4, max_bytes=2**20, completion_queue=deque())
    (first,) = subject.take_requests()
    found = PullResult(PullStatus.FOUND, "FOUND", stride, 0, 10_000, memoryview(b"messages"))
    subject.step(first, found, pull_action(found, 0))
    subject.deliver()
    return subject, subject.take_requests()


@st.composite
def responses(draw: st.DrawFn, request: PullRequest) -> PullResult:
    """Draw any response to ``request``; often one that covers all of it."""
    offsets = st.sampled_from([at + by for at in (request.next_offset, request.end_offset) for by in (-1, 0, 1)])
    return PullResult(
        draw(st.just(PullStatus.FOUND) | st.sampled_from(PullStatus)),
        draw(st.sampled_from(["FOUND", "OFFSET_RESET", "MESSAGE_WAS_REMOVING", "NO_MATCHED_MESSAGE"])),
        draw(st.just(request.end_offset) | offsets),
        draw(st.just(0) | offsets),
        draw(offsets),
        memoryview(draw(st.binary(max_size=8))),
    )


@given(st.integers(FIRST_STRIDE, 2 * FIRST_STRIDE), st.data())
def test_a_response_accepted_on_the_fast_path_is_one_to_deliver(stride: int, data: st.DataObject) -> None:
    """The window decides by hand what ``pull_action`` decides by table, and both must deliver the same."""
    fast, requests = filled(stride)
    results = [data.draw(responses(request)) for request in requests]
    accepted = fast.accept_fast_path((*pair, MASTER_ID) for pair in zip(requests, results, strict=True))
    event(f"accepted: {accepted}")
    by_table, requests = filled(stride)
    for request, result in list(zip(requests, results, strict=True))[:accepted]:
        action = pull_action(result, request.next_offset)
        assert action is PullAction.DELIVER
        by_table.step(request, result, action)
    assert fast.deliver() == by_table.deliver()
