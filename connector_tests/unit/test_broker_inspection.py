"""What is requested of one broker to inspect it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.group_bodies import connections, consume_stats, topic_stats
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.inspection.inspector import MAX_CONCURRENT_TOPICS, query_bounds, query_group_rows, query_group_state
from rocketmq_spark.inspection.rows import GroupState
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.mq_version import V5_0_0_SNAPSHOT

ORDERS = [MessageQueue("orders", "a", queue_id) for queue_id in range(3)]
PAYMENTS = MessageQueue("payments", "a", 0)
HELD = QueueBounds(2, 9, 77)
OFFLINE = build_response(ResponseCode.CONSUMER_NOT_ONLINE)
DENIED = build_response(
    ResponseCode.NO_PERMISSION, remark="User:me has no permission to access Group:TOOLS_CONSUMER from 1.2.3.4"
)


@pytest.fixture
def broker(server: ScriptedBroker) -> Iterator[Broker]:
    pool = ConnectionPool(1000, connect=server.connect)
    yield Broker(BrokerAddress("a:10911"), pool, 60_000)
    pool.close()


@pytest.fixture(autouse=True)
def group(server: ScriptedBroker) -> None:
    """At 7 and nowhere in two queues of a topic; the third queue of the broker is not read."""
    server.on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(dict.fromkeys([*ORDERS, PAYMENTS], HELD)))
    server.on(RequestCode.GET_CONSUME_STATS, consume_stats({ORDERS[0]: 7, ORDERS[1]: 0}))
    server.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, OFFLINE)
    server.on(RequestCode.QUERY_CONSUMER_OFFSET, no_offset)


def no_offset(_request: RemotingCommand) -> RemotingCommand:
    return build_response(ResponseCode.QUERY_NOT_FOUND)


def test_queue_without_an_offset_differs_from_offset_zero(server: ScriptedBroker, broker: Broker) -> None:
    state = query_group_state("a", broker, "g")
    assert state == GroupState(dict.fromkeys(ORDERS, HELD), {ORDERS[0]: 7, ORDERS[1]: None})
    at_zero = RemotingCommand(ResponseCode.SUCCESS, version=V5_0_0_SNAPSHOT, fields={"offset": "0"})
    server.on(RequestCode.QUERY_CONSUMER_OFFSET, at_zero)
    assert query_group_state("a", broker, "g").committed == {ORDERS[0]: 7, ORDERS[1]: 0}


def test_topic_that_a_member_subscribes_to_counts_without_offsets(server: ScriptedBroker, broker: Broker) -> None:
    subscribed = {"payments": "*", "orders": "*", "not-at-this-broker": "*"}
    server.on(RequestCode.GET_CONSUMER_CONNECTION_LIST, connections(("me",), subscribed))
    state = query_group_state("a", broker, "g")
    assert state.committed == {ORDERS[0]: 7, ORDERS[1]: None, PAYMENTS: None}
    assert query_group_state("a", broker, "g", ["payments"]).committed == {PAYMENTS: None}
    assert query_group_state("a", broker, "g", ["other"]) == GroupState({}, {})


def test_unread_messages_that_may_not_be_pulled_have_no_age(server: ScriptedBroker, broker: Broker) -> None:
    server.on(RequestCode.PULL_MESSAGE, DENIED)
    rows = query_group_rows("a", broker, "g")
    assert [(row.queue, row.lag, row.lag_ms) for row in rows] == [(ORDERS[0], 2, None), (ORDERS[1], 7, None)]


def test_failed_pull_is_an_error_and_none_is_sent_without_ages(server: ScriptedBroker, broker: Broker) -> None:
    server.on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.SYSTEM_ERROR, remark="broken"))
    with pytest.raises(BrokerError, match="broken"):
        query_group_rows("a", broker, "g")
    assert [row.lag_ms for row in query_group_rows("a", broker, "g", with_ages=False)] == [None, None]


def test_bounds_of_many_topics_are_requested_in_rounds(server: ScriptedBroker, broker: Broker) -> None:
    queues = [MessageQueue(f"t{number}", "a", 0) for number in range(2 * MAX_CONCURRENT_TOPICS + 1)]
    server.on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(dict.fromkeys(queues, HELD)))
    assert query_bounds("a", broker, [queue.topic for queue in queues]) == dict.fromkeys(queues, HELD)


def test_bounds_raise_other_refusals(server: ScriptedBroker, broker: Broker) -> None:
    server.on(RequestCode.GET_TOPIC_STATS_INFO, build_response(ResponseCode.SYSTEM_ERROR, remark="broken"))
    with pytest.raises(BrokerError, match="broken"):
        query_bounds("a", broker, ["orders"])
