"""What a broker deleted before it delivered it: when it is looked for, and what counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import pytest

from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.pop.receive_scheduler import Target
from rocketmq_spark.pop.retention_check import INTERVAL_MS, OFFSET_STABLE_MS, RetentionCheck, deleted_undelivered
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

TARGET = Target("T", "a")
QUEUE = MessageQueue("T", "a", 0)
LOST = QueueRange(QUEUE, 30, 40)


class Subject:
    """``check`` against a broker whose group and queue a test moves; ``reported`` is what it found."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.group_offset, self.min_offset = 30, 40
        self.broker_name = "a"
        self.after_wait: Callable[[], bool] = lambda: False
        self.reported: list[QueueRange] = []
        self.broker = ScriptedBroker()
        self.broker.on(RequestCode.QUERY_CONSUMER_OFFSET, self._offset)
        self.broker.on(RequestCode.GET_TOPIC_STATS_INFO, self._stats)
        self.pool = ConnectionPool(1_000, connect=self.broker.connect)
        self._check = RetentionCheck("g", self._report, lambda _seconds: self.after_wait(), lambda: self.now_ms)

    def _offset(self, _request: RemotingCommand) -> RemotingCommand:
        return build_response(fields={"offset": str(self.group_offset)})

    def _stats(self, _request: RemotingCommand) -> RemotingCommand:
        bounds = f'{{"lastUpdateTimestamp":1,"maxOffset":100,"minOffset":{self.min_offset}}}'
        queue = f'{{"brokerName":"{self.broker_name}","queueId":0,"topic":"T"}}'
        return build_response(body=f'{{"offsetTable":{{{queue}:{bounds}}}}}'.encode())

    def _report(self, deleted: Sequence[QueueRange]) -> None:
        self.reported += deleted

    def check(self) -> None:
        with self.broker, closing(self.pool):
            self._check.report_deleted(TARGET, Broker(BrokerAddress("a:1"), self.pool, PATIENT_MS))

    def check_twice(self) -> None:
        with self.broker, closing(self.pool):
            for _ in range(2):
                self._check.report_deleted(TARGET, Broker(BrokerAddress("a:1"), self.pool, PATIENT_MS))

    def is_due(self, now_ms: int) -> bool:
        self.now_ms = now_ms
        return self._check.is_due(TARGET)

    def record_delivery(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._check.record_delivery(TARGET)


def test_messages_below_the_min_offset_are_reported_once() -> None:
    subject = Subject()
    subject.check_twice()
    assert subject.reported == [LOST]


def test_broker_reports_no_loss_of_another_broker() -> None:
    subject = Subject()
    subject.broker_name = "b"
    subject.check()
    assert subject.reported == []


def test_a_group_that_moves_meanwhile_was_delivered_its_messages() -> None:
    """Another member's pop is behind it."""
    subject = Subject()

    def moves() -> bool:
        subject.group_offset = 41
        return False

    subject.after_wait = moves
    subject.check()
    assert subject.reported == []


def test_a_query_that_ends_meanwhile_reports_nothing() -> None:
    subject = Subject()
    subject.after_wait = lambda: True
    subject.check()
    assert (subject.reported, subject.is_due(0)) == ([], True)


def test_a_broker_that_refuses_a_probe_is_not_waited_for() -> None:
    subject = Subject()
    subject.broker.on(RequestCode.GET_TOPIC_STATS_INFO, build_response(ResponseCode.NO_PERMISSION, remark="no"))
    subject.check()
    assert (subject.reported, subject.is_due(0)) == ([], False)


def test_an_unresponsive_broker_is_called_again_before_any_poll() -> None:
    subject = Subject()
    subject.broker.stop()
    with closing(subject.pool), pytest.raises(TransportError):
        subject._check.report_deleted(
            TARGET, Broker(BrokerAddress("127.0.0.1:1"), ConnectionPool(PATIENT_MS), PATIENT_MS)
        )
    assert subject.is_due(0)


def test_a_check_is_due_first_and_where_nothing_is_under_way() -> None:
    subject = Subject()
    assert subject.is_due(0)
    subject.check()
    assert not subject.is_due(INTERVAL_MS - 1)
    assert subject.is_due(INTERVAL_MS)
    subject.record_delivery(10_000)
    assert not subject.is_due(10_000 + OFFSET_STABLE_MS - 1)
    assert subject.is_due(10_000 + OFFSET_STABLE_MS)


@pytest.mark.parametrize(
    ("offset", "lost"),
    [(None, []), (0, [QueueRange(QUEUE, 0, 40)]), (39, [QueueRange(QUEUE, 39, 40)]), (40, []), (41, []), (-1, [])],
)
def test_what_was_deleted_undelivered_lies_between_two_offsets(offset: int | None, lost: list[QueueRange]) -> None:
    assert deleted_undelivered({QUEUE: QueueBounds(40, 100, 1)}, {QUEUE: offset}) == lost
