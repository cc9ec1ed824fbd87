"""The frames of pulls that are put together from pieces are the ones that the general codec writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.codes import PullSysFlag, RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, encode
from rocketmq_spark.wire.remoting.headers import PullMessageRequest
from rocketmq_spark.wire.remoting.pull_frames import PLACE, PullFrames

TRICKY = ["%", "%d", "{}", str(PLACE), f'"opaque":{PLACE}', f'"queueOffset":"{PLACE}"', "\\", "\U0001f600", "\n"]
NAMES = st.lists(st.sampled_from(TRICKY) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)).map("".join)
NUMBERS = st.integers(0, 2**31 - 1) | st.just(PLACE)


@given(NAMES, NAMES, NAMES, NUMBERS, NUMBERS, st.integers(0, 2**63 - 1), NUMBERS)
def test_a_frame_is_what_the_codec_writes(
    group: str, topic: str, expression: str, queue_id: int, opaque: int, offset: int, max_messages: int
) -> None:
    header = PullMessageRequest(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_message_count=max_messages,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        subscription=expression,
    )
    expected = encode(RemotingCommand(RequestCode.PULL_MESSAGE, opaque=opaque, fields=header.to_fields()))
    frames = PullFrames(group, MessageQueue(topic, "broker-a", queue_id), expression)
    assert frames.frame(opaque, offset, max_messages) == expected
