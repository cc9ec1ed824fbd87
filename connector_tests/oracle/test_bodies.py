"""Bodies: what one side writes, the other reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.body.groups import (
    ConsumerData,
    Heartbeat,
    decode_consumer_ids,
    decode_lock_ok,
    encode_heartbeat,
    encode_lock_batch,
)
from rocketmq_spark.wire.body.routes import decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.body.running_info import (
    PROP_CONSUME_TYPE,
    PROP_CONSUMER_START_TIMESTAMP,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    encode_consumer_running_info,
    encode_consumer_status,
)
from rocketmq_spark.wire.body.subscription import build_subscription
from rocketmq_spark.wire.body.topics import ConsumeProgress, decode_consume_stats, decode_topic_stats

QUEUE = MessageQueue("T", "broker-a", 3)


@pytest.fixture
def protocol(java: Any) -> Any:
    return java.org.apache.rocketmq.remoting.protocol


@pytest.fixture
def java_queue(java: Any) -> Any:
    return java.org.apache.rocketmq.common.message.MessageQueue(QUEUE.topic, QUEUE.broker_name, QUEUE.queue_id)


def from_json(java: Any, body: bytes, name: str) -> Any:
    kind = java.java.lang.Class.forName(f"org.apache.rocketmq.remoting.protocol.{name}")
    return java.org.apache.rocketmq.remoting.protocol.RemotingSerializable.decode(body, kind)


def test_java_reads_our_heartbeat(java: Any) -> None:
    subscriptions = (build_subscription("T", "TagA||订单", 123), build_subscription("U", "*", 124))
    consumer = ConsumerData("g", "CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", subscriptions)
    body = encode_heartbeat(Heartbeat("10.0.0.1@x", (consumer,), ("p",)))
    theirs = from_json(java, body, "heartbeat.HeartbeatData")
    assert theirs.getClientID() == "10.0.0.1@x"
    assert [producer.getGroupName() for producer in theirs.getProducerDataSet()] == ["p"]
    (group,) = theirs.getConsumerDataSet()
    assert group.getGroupName() == "g"
    assert group.getConsumeType().name() == "CONSUME_ACTIVELY"
    assert group.getMessageModel().name() == "CLUSTERING"
    assert group.getConsumeFromWhere().name() == "CONSUME_FROM_FIRST_OFFSET"
    read = {entry.getTopic(): entry for entry in group.getSubscriptionDataSet()}
    assert set(read["T"].getTagsSet()) == {"TagA", "订单"}
    assert set(read["T"].getCodeSet()) == {2598919, 1129459}
    assert read["T"].getSubVersion() == 123
    assert read["U"].getSubString() == "*"


def test_our_heartbeat_is_spelled_as_java_spells_it(java: Any) -> None:
    consumer = ConsumerData("g", "CONSUME_PASSIVELY", "BROADCASTING", "CONSUME_FROM_TIMESTAMP", ())
    body = encode_heartbeat(Heartbeat("c", (consumer,), ("p",)))
    assert from_json(java, body, "heartbeat.HeartbeatData").encode() == body


def test_java_reads_our_running_info(java: Any, java_queue: Any) -> None:
    process_queue = ProcessQueueInfo(
        commit_offset=5, cached_min_offset=5, cached_max_offset=8, cached_count=4, is_locked=True,
        last_lock_timestamp_ms=11, is_dropped=True, last_pull_timestamp_ms=12, last_consume_timestamp_ms=13,
    )  # fmt: skip
    info = ConsumerRunningInfo(
        properties={PROP_CONSUME_TYPE: "CONSUME_ACTIVELY", PROP_CONSUMER_START_TIMESTAMP: "1700000000000"},
        subscriptions=(build_subscription("T", "TagA", 5), build_subscription("U", "*", 5)),
        process_queues={QUEUE: process_queue},
        jstack="main\n",
    )
    theirs = from_json(java, encode_consumer_running_info(info), "body.ConsumerRunningInfo")
    assert theirs.getJstack() == "main\n"
    assert dict(theirs.getProperties()) == info.properties
    assert [entry.getTopic() for entry in theirs.getSubscriptionSet()] == ["T", "U"]
    assert "commitOffset=5" in theirs.formatString()
    read = theirs.getMqTable().get(java_queue)
    assert (read.getCommitOffset(), read.getCachedMsgMinOffset(), read.getCachedMsgMaxOffset()) == (5, 5, 8)
    assert (read.getCachedMsgCount(), read.isLocked(), read.isDroped()) == (4, True, True)
    assert (read.getLastLockTimestamp(), read.getLastPullTimestamp(), read.getLastConsumeTimestamp()) == (11, 12, 13)


def test_java_reads_our_consumer_status(java: Any, java_queue: Any) -> None:
    theirs = from_json(java, encode_consumer_status({QUEUE: 7}), "body.GetConsumerStatusBody")
    assert theirs.getMessageQueueTable().get(java_queue) == 7


def test_java_reads_our_lock_request(java: Any, java_queue: Any) -> None:
    theirs = from_json(java, encode_lock_batch("g", "c", [QUEUE]), "body.LockBatchRequestBody")
    assert (theirs.getConsumerGroup(), theirs.getClientId()) == ("g", "c")
    assert theirs.getMqSet().contains(java_queue)


def test_we_read_javas_lock_response(protocol: Any, java_queue: Any) -> None:
    response = protocol.body.LockBatchResponseBody()
    response.getLockOKMQSet().add(java_queue)
    assert decode_lock_ok(response.encode()) == {QUEUE}


def test_we_read_javas_topic_stats(protocol: Any, java_queue: Any) -> None:
    stats, bounds = protocol.admin.TopicStatsTable(), protocol.admin.TopicOffset()
    bounds.setMinOffset(1)
    bounds.setMaxOffset(2**40)
    bounds.setLastUpdateTimestamp(1700000000000)
    stats.getOffsetTable().put(java_queue, bounds)
    assert decode_topic_stats(stats.encode()) == {QUEUE: QueueBounds(1, 2**40, 1700000000000)}


def test_we_read_javas_consume_stats(protocol: Any, java_queue: Any) -> None:
    stats, progress = protocol.admin.ConsumeStats(), protocol.admin.OffsetWrapper()
    progress.setBrokerOffset(9)
    progress.setConsumerOffset(4)
    progress.setPullOffset(5)
    progress.setLastTimestamp(1700000000000)
    stats.getOffsetTable().put(java_queue, progress)
    assert decode_consume_stats(stats.encode()) == {QUEUE: ConsumeProgress(9, 4, 5, 1700000000000)}


def test_we_read_javas_consumer_list(protocol: Any) -> None:
    body = protocol.header.GetConsumerListByGroupResponseBody()
    body.setConsumerIdList(["10.0.0.1@a", "10.0.0.1@b"])
    assert decode_consumer_ids(body.encode()) == ["10.0.0.1@a", "10.0.0.1@b"]


def route_of_java(java: Any, protocol: Any) -> Any:
    addresses = java.java.util.HashMap()
    for broker_id in (0, 1):
        addresses.put(java.java.lang.Long.valueOf(broker_id), f"10.0.0.{broker_id}:10911")
    broker = protocol.route.BrokerData("cluster", "broker-a", addresses)
    queues = protocol.route.QueueData()
    queues.setBrokerName("broker-a")
    queues.setReadQueueNums(4)
    queues.setPerm(6)
    route = protocol.route.TopicRouteData()
    route.setBrokerDatas([broker])
    route.setQueueDatas([queues])
    return route


def test_we_read_javas_route_and_cluster(java: Any, protocol: Any) -> None:
    body = route_of_java(java, protocol).encode()
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)
    route = decode_topic_route("T", body)
    assert dict(route.brokers[0].addresses) == {0: "10.0.0.0:10911", 1: "10.0.0.1:10911"}
    assert route.queues[0].read_queue_count == 4
    info = protocol.body.ClusterInfo()
    info.setBrokerAddrTable({"broker-a": route_of_java(java, protocol).getBrokerDatas()[0]})
    info.setClusterAddrTable({"cluster": {"broker-a"}})
    cluster = decode_cluster_info(info.encode())
    assert cluster.clusters == {"cluster": ("broker-a",)}
    assert cluster.brokers == {"broker-a": route.brokers[0]}
