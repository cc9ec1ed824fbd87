"""The frames of pulls that are put together from pieces are the ones that the general codec writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.security import Credentials, Secret
from rocketmq_spark.wire.remoting.codes import PullSysFlag, RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, encode
from rocketmq_spark.wire.remoting.headers import PullMessageRequest
from rocketmq_spark.wire.remoting.pull_frames import PLACE, PullFrames, SignedPullFrames, pull_frames, pull_header
from rocketmq_spark.wire.remoting.signature import sign

TRICKY = ["%", "%d", "{}", str(PLACE), f'"opaque":{PLACE}', f'"queueOffset":"{PLACE}"', "\\", "\U0001f600", "\n"]
NAMES = st.lists(st.sampled_from(TRICKY) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)).map("".join)
NUMBERS = st.integers(0, 2**31 - 1) | st.just(PLACE)


@given(NAMES, NAMES, NAMES, NAMES, NUMBERS, NUMBERS, st.integers(0, 2**63 - 1), NUMBERS)
def test_a_frame_is_what_the_codec_writes(
    group: str, topic: str, broker: str, expression: str, queue_id: int, opaque: int, offset: int, max_messages: int
) -> None:
    header = PullMessageRequest(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_message_count=max_messages,
        sys_flag=PullSysFlag.SUBSCRIPTION,
        subscription=expression,
        broker_name=broker or None,
    )
    expected = encode(RemotingCommand(RequestCode.PULL_MESSAGE, opaque=opaque, fields=header.to_fields()))
    frames = PullFrames(group, MessageQueue(topic, broker, queue_id), expression)
    assert frames.frame(opaque, offset, max_messages) == expected


@given(NAMES, NAMES, NAMES, NAMES, NAMES, st.none() | NAMES, NUMBERS, st.integers(0, 2**63 - 1), NUMBERS)
def test_a_signed_frame_is_what_the_codec_writes_of_the_signed_request(
    group: str, topic: str, expression: str, access_key: str, key: str, token: str | None, opaque: int, offset: int,
    max_messages: int,
) -> None:  # fmt: skip
    credentials = Credentials(access_key, Secret(key), None if token is None else Secret(token))
    queue = MessageQueue(topic, "broker-a", 3)
    header = pull_header(group, queue, offset, max_messages, expression)
    request = RemotingCommand(RequestCode.PULL_MESSAGE, opaque=opaque, fields=header.to_fields())
    frames = SignedPullFrames(group, queue, expression, credentials)
    assert frames.frame(opaque, offset, max_messages) == encode(sign(request, credentials))


@pytest.mark.parametrize("suspend_ms", [0, 1, 15_000])
def test_a_pull_has_how_long_it_may_be_suspended_if_it_may(suspend_ms: int) -> None:
    header = pull_header("G", MessageQueue("T", "broker-a", 0), 2, 3, "*", suspend_ms)
    assert header.suspend_timeout_ms == suspend_ms
    assert bool(header.sys_flag & PullSysFlag.SUSPEND) is (suspend_ms > 0)


@pytest.mark.parametrize("credentials", [None, Credentials("me", Secret("k"))])
@pytest.mark.parametrize(("group", "topic"), [("\ud800", "T"), ("G", "\ud800")])
def test_what_is_no_unicode_cannot_be_sent(group: str, topic: str, credentials: Credentials | None) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        pull_frames(group, MessageQueue(topic, "broker-a", 0), "*", credentials)
    assert caught.value.condition == "INVALID_MESSAGE"


def test_pulls_are_signed_for_a_client_with_credentials() -> None:
    queue, me, other = MessageQueue("T", "broker-a", 0), Credentials("me", Secret("k")), Credentials("me", Secret("l"))
    plain, mine, others = (pull_frames("G", queue, "*", signer).frame(1, 2, 3) for signer in (None, me, other))
    assert b"Signature" not in plain
    assert mine != others
    assert b"Signature" in mine
