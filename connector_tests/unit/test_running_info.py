from __future__ import annotations

import pytest

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.body.running_info import (
    PROP_CONSUME_TYPE,
    ConsumerRunningInfo,
    ProcessQueueInfo,
    decode_consumer_running_info,
    encode_consumer_running_info,
)
from rocketmq_spark.wire.body.subscription import SubscriptionData, build_subscription
from rocketmq_spark.wire.remoting.fastjson import parse_fastjson

# Fields of Java's class, in the order of their names.
PROCESS_QUEUE_FIELDS = {
    "cachedMsgCount": 3,
    "cachedMsgMaxOffset": 9,
    "cachedMsgMinOffset": 7,
    "cachedMsgSizeInMiB": 0,
    "commitOffset": 7,
    "droped": True,
    "lastConsumeTimestamp": 13,
    "lastLockTimestamp": 11,
    "lastPullTimestamp": 12,
    "locked": True,
    "transactionMsgCount": 0,
    "transactionMsgMaxOffset": 0,
    "transactionMsgMinOffset": 0,
    "tryUnlockTimes": 0,
}


def test_running_info_has_the_fields_of_javas_class() -> None:
    process_queue = ProcessQueueInfo(
        commit_offset=7,
        cached_min_offset=7,
        cached_max_offset=9,
        cached_count=3,
        is_locked=True,
        last_lock_timestamp_ms=11,
        is_dropped=True,
        last_pull_timestamp_ms=12,
        last_consume_timestamp_ms=13,
    )
    info = ConsumerRunningInfo(
        properties={PROP_CONSUME_TYPE: "CONSUME_ACTIVELY"},
        subscriptions=(build_subscription("T", "*", 5),),
        process_queues={MessageQueue("T", "b", 1): process_queue},
        jstack="main",
    )
    assert parse_fastjson(encode_consumer_running_info(info), "running info") == {
        "mqPopTable": {},
        "mqTable": {(("brokerName", "b"), ("queueId", 1), ("topic", "T")): PROCESS_QUEUE_FIELDS},
        "properties": {"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"},
        "statusTable": {},
        "subscriptionSet": [
            {
                "classFilterMode": False,
                "codeSet": [],
                "expressionType": "TAG",
                "subString": "*",
                "subVersion": 5,
                "tagsSet": [],
                "topic": "T",
            }
        ],
        "userConsumerInfo": {},
        "jstack": "main",
    }


def test_running_info_is_read_as_it_was_written() -> None:
    info = ConsumerRunningInfo(
        properties={PROP_CONSUME_TYPE: "CONSUME_PASSIVELY"},
        subscriptions=(build_subscription("T", "A || B", 5), build_subscription("U", "*", 6)),
        process_queues={
            MessageQueue("T", "b", 1): ProcessQueueInfo(7, 1, 2, 3, True, 4, False, 5, 6),
            MessageQueue("U", "b", 0): ProcessQueueInfo(commit_offset=9, is_dropped=True),
        },
    )
    assert decode_consumer_running_info(encode_consumer_running_info(info)) == info


def test_running_info_without_queues_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY.*running info.*mqTable"):
        decode_consumer_running_info(b'{"properties":{},"subscriptionSet":[]}')


def test_stacks_that_were_not_requested_are_omitted() -> None:
    assert b"jstack" not in encode_consumer_running_info(ConsumerRunningInfo(properties={}))


def test_a_subscription_by_sql_is_read_as_one_and_a_code_that_is_no_number_is_named() -> None:
    sql = SubscriptionData("T", "a > 1", frozenset(), frozenset({7}), 1, "SQL92")
    body = encode_consumer_running_info(ConsumerRunningInfo(properties={}, subscriptions=(sql,)))
    assert decode_consumer_running_info(body).subscriptions == (sql,)
    with pytest.raises(RemoteProtocolError, match="codeSet is 'x'"):
        decode_consumer_running_info(body.replace(b'"codeSet":[7]', b'"codeSet":["x"]'))
