"""Bodies as a 5.5.0 name server and broker send them, and the heartbeat that Java's encoder writes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import BrokerAddress, BrokerData, MessageQueue, QueueBounds, QueueData
from rocketmq_spark.wire.body.groups import (
    ConsumerData,
    GroupRetrySettings,
    Heartbeat,
    decode_consumer_ids,
    decode_group_retry_settings,
    decode_lock_ok,
    encode_heartbeat,
    encode_lock_batch,
)
from rocketmq_spark.wire.body.routes import ClusterInfo, decode_cluster_info, decode_topic_route
from rocketmq_spark.wire.body.running_info import decode_consumer_running_info, encode_consumer_status
from rocketmq_spark.wire.body.subscription import build_subscription, java_hash_code, subscription_fields
from rocketmq_spark.wire.body.topics import (
    ConsumeProgress,
    TopicSettings,
    decode_consume_stats,
    decode_topic_names,
    decode_topic_settings,
    decode_topic_stats,
)

ADDRESSES = {0: "127.0.0.1:34459", 1: "127.0.0.1:34460"}
ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{%s},"brokerName":"b","cluster":"c","enableActingMaster":false}],'
    b'"filterServerTable":{},"queueDatas":['
    b'{"brokerName":"b","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":8}]}'
)
CLUSTER = (
    b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"127.0.0.1:34459",1:"127.0.0.1:34460"},"brokerName":"b","cluster":"c",'
    b'"enableActingMaster":false}},"clusterAddrTable":{"c":["b"]}}'
)
KEY = b'{"brokerName":"b","queueId":1,"topic":"T"}'
QUEUE = MessageQueue("T", "b", 1)
STATS = b'{"offsetTable":{%s:{"lastUpdateTimestamp":%d,"maxOffset":7,"minOffset":2}},"topicPutTps":0.0}'
STATS_BUT = b'{"offsetTable":{%s:{"lastUpdateTimestamp":1,"maxOffset":7,"minOffset":%%s}}}' % KEY
PROGRESS = b'{"brokerOffset":9,"consumerOffset":4,"lastTimestamp":1700000000000,"pullOffset":5}'
CONSUME_STATS = b'{"consumeTps":0.0,"offsetTable":{%s:%s}}' % (KEY, PROGRESS)


@pytest.mark.parametrize(
    "addresses",
    [b'0:"127.0.0.1:34459",1:"127.0.0.1:34460"', b'"0":"127.0.0.1:34459","1":"127.0.0.1:34460"'],
    ids=["unquoted", "standard"],
)
def test_a_route_is_read_however_broker_ids_are_spelled(addresses: bytes) -> None:
    route = decode_topic_route("T", ROUTE % addresses)
    assert route.topic == "T"
    assert route.brokers == (BrokerData("c", "b", ADDRESSES),)
    assert route.queues == (QueueData("b", 4, 8, 6),)
    assert route.master_address("b") == BrokerAddress("127.0.0.1:34459")


ACTING_ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{%s},"brokerName":"b","cluster":"c","enableActingMaster":%s}],'
    b'"queueDatas":[{"brokerName":"b","perm":%d,"readQueueNums":4,"writeQueueNums":8}]}'
)


@pytest.mark.parametrize(
    ("addresses", "enabled", "permission", "is_acting"),
    [
        (b'0:"b:2"', b"true", 4, True),
        (b'0:"b:2",2:"b:3"', b"true", 4, True),
        (b'0:"b:1"', b"true", 6, False),
        (b'0:"b:1",1:"b:2"', b"true", 4, False),
        (b'1:"b:2"', b"true", 4, False),
        (b'0:"b:1"', b"false", 4, False),
    ],
)
def test_a_slave_acts_as_master_of_unwritable_topics(
    addresses: bytes, enabled: bytes, permission: int, *, is_acting: bool
) -> None:
    (broker,) = decode_topic_route("T", ACTING_ROUTE % (addresses, enabled, permission)).brokers
    assert broker.is_acting is is_acting
    assert (broker.master_address is None) is (is_acting or 0 not in broker.addresses)
    assert list(broker.slave_addresses) == [one for one in broker.addresses if one or is_acting]


def test_a_cluster_has_brokers_by_name() -> None:
    assert decode_cluster_info(CLUSTER) == ClusterInfo({"b": BrokerData("c", "b", ADDRESSES)}, {"c": ("b",)})


def test_topic_names_are_those_of_the_list() -> None:
    assert decode_topic_names(b'{"brokerAddr":null,"topicList":["orders","TBW102"]}') == ["orders", "TBW102"]
    assert decode_topic_names(b'{"topicList":[]}') == []


def test_topic_stats_give_the_bounds_of_all_queues() -> None:
    assert decode_topic_stats(STATS % (KEY, 1700000000000)) == {QUEUE: QueueBounds(2, 7, 1700000000000)}


def test_keys_that_are_queues_may_come_as_texts_too() -> None:
    """As a JSON library writes them that knows no other keys."""
    quoted = json.dumps(KEY.decode()).encode()
    assert decode_topic_stats(STATS % (quoted, 1700000000000)) == {QUEUE: QueueBounds(2, 7, 1700000000000)}
    with pytest.raises(
        RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY.*topic stats.*a key of offsetTable is 'T@b:1'"
    ):
        decode_topic_stats(STATS % (b'"T@b:1"', 1))


def test_a_last_message_that_is_deleted_has_no_store_time() -> None:
    assert decode_topic_stats(STATS % (KEY, -1))[QUEUE].last_store_timestamp_ms == 0


def test_consume_stats_give_a_groups_progress() -> None:
    assert decode_consume_stats(CONSUME_STATS) == {QUEUE: ConsumeProgress(9, 4, 5, 1700000000000)}
    # RocketMQ 4 knows no pull offset.
    of_rocketmq_4 = CONSUME_STATS.replace(b',"pullOffset":5', b"")
    assert of_rocketmq_4 != CONSUME_STATS
    assert decode_consume_stats(of_rocketmq_4) == {QUEUE: ConsumeProgress(9, 4, None, 1700000000000)}


def test_a_client_with_two_connections_stays_twice_in_the_list() -> None:
    assert decode_consumer_ids(b'{"consumerIdList":["a@1","b@2","a@1"]}') == ["a@1", "b@2", "a@1"]


def test_the_locked_queues_are_read() -> None:
    assert decode_lock_ok(b'{"lockOKMQSet":[%s]}' % KEY) == {QUEUE}
    assert decode_lock_ok(b'{"lockOKMQSet":[]}') == set()


@pytest.mark.parametrize(
    ("decode", "body", "problem"),
    [
        (lambda body: decode_topic_route("T", body), b"[]", "it is"),
        (lambda body: decode_topic_route("T", body), b"{}", "queueDatas is None"),
        (lambda body: decode_topic_route("T", body), ROUTE % b'"x":"y"', "invalid literal"),
        (lambda body: decode_topic_route("T", body), ROUTE % b'"0":9', "a broker's address is 9"),
        (decode_cluster_info, b'{"brokerAddrTable":{"b":1},"clusterAddrTable":{}}', "brokerAddrTable is 1"),
        (decode_cluster_info, b'{"brokerAddrTable":{},"clusterAddrTable":{"c":[1]}}', "c is 1"),
        (decode_cluster_info, b'{"brokerAddrTable":{},"clusterAddrTable":{1:[]}}', "a cluster's name is 1"),
        (decode_topic_stats, b'{"offsetTable":null}', "offsetTable is None"),
        (decode_topic_stats, b'{"offsetTable":{"T":{}}}', "a key of offsetTable is 'T'"),
        (decode_topic_stats, b'{"offsetTable":{{"topic":"T"}:{}}}', "brokerName is None"),
        (decode_topic_stats, b'{"offsetTable":{%s:{"minOffset":"0"}}}' % KEY, "minOffset is '0'|lastUpdate"),
        (decode_topic_stats, STATS_BUT % b"9223372036854775808", "minOffset has more than 64 bits"),
        (decode_topic_stats, STATS_BUT % b"-9223372036854775809", "minOffset has more than 64 bits"),
        (decode_topic_stats, STATS_BUT % b"true", "minOffset is True"),
        (decode_topic_names, b"{}", "topicList is None"),
        (decode_topic_names, b'{"topicList":[1]}', "topicList is 1"),
        (decode_topic_names, b'{"topicList":{"a":1}}', "topicList is"),
        (decode_consumer_ids, b"{}", "consumerIdList is None"),
        (decode_topic_settings, b'{"attributes":{"message.type":7}}', "message.type is 7"),
        (decode_topic_settings, b'{"attributes":{"cleanup.policy":7}}', "cleanup.policy is 7"),
        (decode_topic_settings, b'{"attributes":{"queue.type":7}}', "queue.type is 7"),
        (decode_topic_settings, b'{"attributes":7}', "attributes is 7"),
        (decode_group_retry_settings, b'{"retryMaxTimes":16}', "retryQueueNums is None"),
        (decode_group_retry_settings, b'{"retryMaxTimes":"16","retryQueueNums":1}', "retryMaxTimes is '16'"),
        (decode_consumer_ids, b'{"consumerIdList":[null]}', "consumerIdList is None"),
        (decode_lock_ok, b'{"lockOKMQSet":["q"]}', "lockOKMQSet is 'q'"),
    ],
)
def test_a_body_of_another_shape_is_the_remote_ends_error(
    decode: Callable[[bytes], object], body: bytes, problem: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=problem) as caught:
        decode(body)
    assert caught.value.condition == "MALFORMED_RESPONSE.BODY"


def test_a_heartbeat_is_the_one_that_java_writes() -> None:
    subscription = build_subscription("T", "TagA||TagB", 123)
    consumer = ConsumerData("g1", "CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", (subscription,))
    assert encode_heartbeat(Heartbeat("10.0.0.1@1#2", (consumer,), ("pg",))) == (
        b'{"clientID":"10.0.0.1@1#2","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        b'"consumeType":"CONSUME_ACTIVELY","groupName":"g1","messageModel":"CLUSTERING","subscriptionDataSet":['
        b'{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA||TagB",'
        b'"subVersion":123,"tagsSet":["TagA","TagB"],"topic":"T"}],"unitMode":false}],"heartbeatFingerprint":0,'
        b'"producerDataSet":[{"groupName":"pg"}],"withoutSub":false}'
    )


def test_the_sets_of_a_subscription_have_one_spelling() -> None:
    tags = [f"Tag{number}" for number in range(10, 60)]
    subscription = build_subscription("T", "||".join(reversed(tags)), 123)
    fields = subscription_fields(subscription)
    assert fields["tagsSet"] == tags
    assert fields["codeSet"] == sorted(map(java_hash_code, tags))


def test_queues_to_lock_are_listed_in_order() -> None:
    queues = {MessageQueue("T", "b", number) for number in (2, 0, 1)}
    listed = b",".join(b'{"brokerName":"b","queueId":%d,"topic":"T"}' % number for number in range(3))
    assert encode_lock_batch("g", "c", queues) == (
        b'{"clientId":"c","consumerGroup":"g","mqSet":[%s],"onlyThisBroker":false}' % listed
    )


def test_a_consumers_status_has_queues_as_keys() -> None:
    assert encode_consumer_status({QUEUE: 7}) == b'{"consumerTable":{},"messageQueueTable":{%s:7}}' % KEY


@pytest.mark.parametrize(
    ("decode", "body", "subject"),
    [
        (lambda body: decode_topic_route("T", body), b"{}", "topic route"),
        (decode_cluster_info, b"{}", "cluster info"),
        (decode_topic_stats, b"{}", "topic stats"),
        (decode_consume_stats, b"{}", "consume stats"),
        (decode_consumer_ids, b"{}", "consumer list"),
        (decode_lock_ok, b"{}", "lock response"),
        (decode_consumer_running_info, b"{}", "running info"),
    ],
)
def test_an_undecodable_body_is_named_by_what_it_should_have_been(
    decode: Callable[[bytes], object], body: bytes, subject: str
) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(body)
    assert caught.value.context["subject"] == subject


@pytest.mark.parametrize(
    ("decode", "body", "problem"),
    [
        (decode_topic_stats, b'{"offsetTable":{%s:7}}' % KEY, "offsetTable is 7"),
        (decode_consume_stats, b'{"offsetTable":{%s:7}}' % KEY, "offsetTable is 7"),
        (
            decode_consumer_running_info,
            b'{"properties":{},"subscriptionSet":[],"mqTable":{%s:7}}' % KEY,
            "mqTable is 7",
        ),
    ],
)
def test_a_row_that_is_no_object_is_named_by_its_table(
    decode: Callable[[bytes], object], body: bytes, problem: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=problem):
        decode(body)


@pytest.mark.parametrize(("mapping", "is_static"), [(b"{}", False), (b'{"b":{"epoch":1}}', True), (b"null", False)])
def test_a_topic_whose_queues_are_mapped_is_static(mapping: bytes, is_static: bool) -> None:
    """Its queues are not what the brokers count: to read it as others would read the wrong messages."""
    route = b'{"brokerDatas":[],"queueDatas":[],"topicQueueMappingByBroker":%s}' % mapping
    assert decode_topic_route("T", route).is_static is is_static
    assert decode_topic_route("T", ROUTE % b'0:"a:1"').is_static is False


def test_queues_to_lock_are_in_javas_order_of_names() -> None:
    """By UTF-16: a character beyond the first 65,536 is a pair of surrogates, and those come before U+E000 and on."""
    body = encode_lock_batch("g", "c", [MessageQueue("T", name, 0) for name in ("\ue000", "\U00010000")]).decode()
    assert 0 < body.index("\U00010000") < body.index("\ue000")


def test_the_tags_of_a_subscription_are_in_javas_order() -> None:
    fields = subscription_fields(build_subscription("T", "\ue000||\U00010000", 123))
    assert fields["tagsSet"] == ["\U00010000", "\ue000"]


def test_a_groups_settings_define_how_its_messages_are_redelivered() -> None:
    body = b'{"brokerId":0,"consumeEnable":true,"groupName":"g","retryMaxTimes":16,"retryQueueNums":1}'
    assert decode_group_retry_settings(body) == GroupRetrySettings(max_times=16, queue_count=1)


@pytest.mark.parametrize(
    ("settings", "type_", "keeps_last_of_key"),
    [
        (b'{"attributes":{"message.type":"FIFO"},"topicName":"T"}', "FIFO", False),
        (b'{"attributes":{"cleanup.policy":"DELETE"}}', "NORMAL", False),
        (b'{"attributes":{"cleanup.policy":"COMPACTION"}}', "NORMAL", True),
        (b'{"attributes":null}', "NORMAL", False),
        (b"{}", "NORMAL", False),
    ],
)
def test_a_topics_settings_define_of_which_type_its_messages_are_and_whether_it_is_compacted(
    settings: bytes, type_: str, keeps_last_of_key: bool
) -> None:
    assert decode_topic_settings(settings) == TopicSettings(type_, keeps_last_of_key)


def test_topic_settings_have_the_type_of_queues() -> None:
    assert decode_topic_settings(b'{"attributes":{"queue.type":"BatchCQ"}}') == TopicSettings("NORMAL", False, True)
    assert decode_topic_settings(b'{"attributes":{"queue.type":"SimpleCQ"}}') == TopicSettings("NORMAL", False, False)
