"""What states that popped messages are done, and the handles that it is made of, as Java reads and writes them."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_spark.pop.pop_responses import batch_acks_of
from rocketmq_spark.pop.receipt_handles import BrokerHandle, PopCheckPoint
from rocketmq_spark.wire.body.batch_ack import encode_batch_ack

CHECK_POINT = PopCheckPoint("T", 100, 1_795_445_135_749, 60_000, 3, "0", "broker-a", 7)
GROUP = "g"


def handle(offset: int, retry: str = "0") -> BrokerHandle:
    return BrokerHandle(CHECK_POINT._replace(retry=retry), offset)


def test_java_reads_our_acknowledgement(java: Any) -> None:
    handles = [handle(offset) for offset in (100, 101, 117, 164)] + [handle(100, "2")]
    body = encode_batch_ack("broker-a", batch_acks_of(GROUP, handles))
    kind = java.java.lang.Class.forName("org.apache.rocketmq.remoting.protocol.body.BatchAckMessageRequestBody")
    theirs = java.org.apache.rocketmq.remoting.protocol.RemotingSerializable.decode(body, kind)
    assert theirs.getBrokerName() == "broker-a"
    ordinary, again = theirs.getAcks()
    assert ordinary.getBitSet().toString() == "{0, 1, 17, 64}"
    assert again.getBitSet().toString() == "{0}"
    assert (ordinary.getRetry(), again.getRetry()) == ("0", "2")
    for ack in (ordinary, again):
        assert (ack.getConsumerGroup(), ack.getTopic(), ack.getStartOffset()) == (GROUP, "T", 100)
        assert (ack.getQueueId(), ack.getReviveQueueId()) == (7, 3)
        assert (ack.getPopTime(), ack.getInvisibleTime()) == (1_795_445_135_749, 60_000)


@pytest.mark.parametrize("retry", ["0", "1", "2"])
def test_a_handle_is_as_java_writes_and_reads_it(java: Any, retry: str) -> None:
    ours = handle(117, retry)
    extra_info = java.org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil
    parts = extra_info.split(ours.text)
    topic = extra_info.getRealTopic(parts, "T", GROUP)
    assert topic == ours.real_topic(GROUP)
    theirs = extra_info.buildExtraInfo(100, 1_795_445_135_749, 60_000, 3, topic, "broker-a", 7, 117)
    assert theirs == ours.text
    assert BrokerHandle.parse("T", str(theirs)) == ours
