"""Where RocketMQ 4.9.7 answers otherwise than 5.x, and what is made of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from queue import Queue

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS, WAIT_S
from rocketmq_spark.consumer.member import Member
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.jars import VERSIONS
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.executor_pull_client import shared_pull_client
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.pop_broker import PopBroker, PopOutcome
from rocketmq_spark.remoting.retry import Retryability, retryability_of_pull
from rocketmq_spark.wire.body.task_report import ReportedLoss, TaskReport
from rocketmq_spark.wire.message.stored_message import decode_first
from rocketmq_spark.wire.remoting.headers import PopMessageRequest

pytestmark = [pytest.mark.broker, pytest.mark.full]

BURST = 100


@pytest.fixture(scope="module")
def oldest(clusters: ClusterPool) -> EmbeddedCluster:
    """RocketMQ 4."""
    return clusters.get(version=VERSIONS[0])


@pytest.fixture
def broker(oldest: EmbeddedCluster) -> Iterator[AdminBroker]:
    with closing(ConnectionPool(REQUEST_TIMEOUT_MS)) as pool:
        yield AdminBroker(BrokerAddress(oldest.broker_addr()), pool, REQUEST_TIMEOUT_MS)


@pytest.fixture
def bursts(oldest: EmbeddedCluster, broker: AdminBroker) -> MessageQueue:
    """Three times a hundred messages that were stored in one millisecond."""
    queue = MessageQueue(oldest.create_topic(unique_name("bursts"), queues=1), "broker-a", 0)
    for _ in range(3):
        broker.send_batch([Message(queue.topic, b"%d" % number) for number in range(BURST)], queue, "tests")
        time.sleep(0.01)
    deadline = time.monotonic() + WAIT_S
    while broker.max_offset(queue) < 3 * BURST:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return queue


def test_the_first_of_a_millisecond_is_found_and_the_end_after_the_last(
    broker: AdminBroker, bursts: MessageQueue
) -> None:
    for begin in (0, BURST, 2 * BURST):
        stored_ms = decode_first(broker.pull("tests", bursts, begin, 1).body).store_timestamp_ms
        assert broker.search_offset(bursts, stored_ms) == begin
        assert broker.search_offset(bursts, stored_ms + 1) == begin + BURST


def test_a_group_without_an_offset_has_none_and_one_that_stands_at_0_has(
    broker: AdminBroker, bursts: MessageQueue
) -> None:
    group = unique_name("group")
    assert broker.query_offset(group, bursts) is None
    broker.update_offset(group, bursts, 0)
    assert broker.query_offset(group, bursts) == 0
    broker.update_offset(group, bursts, 7)
    assert broker.query_offset(group, bursts) == 7


def test_what_a_task_reports_is_passed_on_to_the_member_that_planned_it(oldest: EmbeddedCluster) -> None:
    queue = MessageQueue(oldest.create_topic(unique_name("told")), "broker-a", 0)
    given = {"namesrvAddr": oldest.namesrv_addr, "consumerGroup": unique_name("told"), "subscribe": queue.topic}
    options = ReadOptions.parse(given)
    member = Member(options)
    member.start()
    try:
        deadline = time.monotonic() + WAIT_S
        lost = ReportedLoss(QueueRange(queue, 3, 9), "OFFSETS_OMITTED")
        reported: set[ReportedLoss] = set()
        while not reported:
            assert time.monotonic() < deadline
            shared_pull_client(options).report(member.report_to, queue, TaskReport((lost,)))
            with member.group_lock() as membership:
                reported = membership.task_reports.take_losses()
    finally:
        member.stop()
    assert reported == {lost}


def test_message_based_load_balancing_is_refused_with_the_version_it_needs(oldest: EmbeddedCluster) -> None:
    """The error told users to look into the server's log."""
    outcomes: Queue[PopOutcome] = Queue()
    request = PopMessageRequest(
        consumer_group=unique_name("pop"),
        topic=oldest.create_topic(unique_name("pop")),
        max_message_count=1,
        invisible_ms=60_000,
        poll_ms=1_000,
        born_timestamp_ms=int(time.time() * 1000),
        init_mode=0,
    )
    with closing(ConnectionPool(REQUEST_TIMEOUT_MS)) as pool:
        PopBroker(BrokerAddress(oldest.broker_addr()), pool, REQUEST_TIMEOUT_MS).pop(request, outcomes.put)
        outcome = outcomes.get(timeout=WAIT_S)
    assert isinstance(outcome, BrokerError)
    assert str(outcome) == (
        f"[ROCKETMQ_MESSAGE_MODE_UNSUPPORTED] Broker {oldest.broker_addr()} does not support 'loadBalance' 'message': "
        "it rejected POP_MESSAGE as an unknown request (3). Upgrade the brokers to RocketMQ 5, or set 'loadBalance' to "
        "'queue'."
    )
    assert retryability_of_pull(outcome) is Retryability.PERMANENT
