"""What brokers are answered that ask for a member on behalf of an operator's tools."""

from __future__ import annotations

import pytest

from connector_tests.support.queues import queue
from rocketmq_spark.consumer.process_queue import ProcessQueue
from rocketmq_spark.consumer.request_handlers import MemberView, handle_request, process_queue_info
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.body.groups import ConsumerData
from rocketmq_spark.wire.body.running_info import (
    PROP_CLIENT_VERSION,
    PROP_CONSUME_TYPE,
    PROP_CONSUMER_START_TIMESTAMP,
    PROP_NAMESERVER_ADDR,
    ProcessQueueInfo,
    decode_consumer_running_info,
)
from rocketmq_spark.wire.body.subscription import build_subscription
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION, RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.fastjson import parse_fastjson

CONSUMER = ConsumerData(
    "g", "CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", (build_subscription("orders", "*", 5),)
)
OF_ANOTHER_TOPIC = queue(0, "payments")
VIEW = MemberView(
    CONSUMER,
    name_servers=("n:1", "n:2"),
    started_ms=7,
    process_queues={queue(1): ProcessQueueInfo(commit_offset=3)},
    positions={queue(1): 5, OF_ANOTHER_TOPIC: 6},
    consumer_settings={"PROP_CONSUMEORDERLY": "true"},
)


def response_to(code: int, **fields: str) -> RemotingCommand | None:
    return handle_request(RemotingCommand(code, fields=fields), VIEW)


def test_running_info_contains_how_and_what_the_member_consumes() -> None:
    response = response_to(RequestCode.GET_CONSUMER_RUNNING_INFO)
    assert response is not None
    assert response.code == ResponseCode.SUCCESS
    info = decode_consumer_running_info(response.body)
    assert info.properties == {
        PROP_NAMESERVER_ADDR: "n:1;n:2",
        PROP_CONSUME_TYPE: CONSUMER.consume_type,
        "PROP_CONSUMEORDERLY": "true",
        PROP_CLIENT_VERSION: str(CLIENT_VERSION),
        PROP_CONSUMER_START_TIMESTAMP: "7",
    }
    assert info.subscriptions == CONSUMER.subscriptions
    assert info.process_queues == VIEW.process_queues


def test_status_is_of_the_topic_that_is_requested() -> None:
    response = response_to(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, topic="orders", group="g")
    assert response is not None
    assert response.code == ResponseCode.SUCCESS
    status = parse_fastjson(response.body, "status")
    assert isinstance(status, dict)
    assert list(status["messageQueueTable"].values()) == [5]


def test_a_request_without_its_header_is_the_brokers_error() -> None:
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.HEADER"):
        response_to(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)


def test_what_no_member_supports_is_not_supported() -> None:
    assert response_to(RequestCode.GET_MAX_OFFSET) is None


def test_a_queue_of_which_nothing_is_in_flight_would_commit_where_it_reads_next() -> None:
    info = process_queue_info(ProcessQueue(queue(0), 1), position=9, locked_ms=None)
    assert info == ProcessQueueInfo(commit_offset=9)


def test_a_queue_that_was_skipped_reports_it() -> None:
    process_queue = ProcessQueue(queue(0), 1)
    process_queue.drop()
    assert process_queue_info(process_queue, position=9, locked_ms=None).is_dropped


def test_what_is_in_flight_is_counted_and_committed_up_to_its_begin() -> None:
    process_queue = ProcessQueue(queue(0), 1)
    process_queue.put(3, 7)
    process_queue.put(7, 9)
    info = process_queue_info(process_queue, position=9, locked_ms=11)
    assert (info.commit_offset, info.cached_min_offset, info.cached_max_offset, info.cached_count) == (3, 3, 8, 6)
    assert (info.is_locked, info.last_lock_timestamp_ms, info.is_dropped) == (True, 11, False)
