from __future__ import annotations

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import QueueRange
from rocketmq_spark.wire.body.told_losses import decode_told_losses, encode_told_losses

A, B = queues(2)


def test_ranges_arrive_as_they_were() -> None:
    ranges = (QueueRange(A, 0, 5), QueueRange(B, 7, 9))
    assert decode_told_losses(encode_told_losses(ranges)) == ranges
    assert encode_told_losses(ranges[:1]) == (
        b'{"lost":[{"begin":0,"end":5,"queue":{"brokerName":"broker-a","queueId":0,"topic":"orders"}}]}'
    )


def test_an_operator_who_asks_tells_nothing() -> None:
    assert decode_told_losses(b"") == ()


@pytest.mark.parametrize(
    "body", [b"x", b"{}", b'{"lost":[1]}', encode_told_losses([QueueRange(A, 1, 2)]).replace(b"2", b"0")]
)
def test_what_is_no_told_loss_is_the_senders_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=r"BAD_BODY.*\btold loss\b"):
        decode_told_losses(body)


def test_a_range_without_its_queue_is_named() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_told_losses(b'{"lost":[{"begin":0,"end":5,"queue":7}]}')
    assert str(caught.value.context["problem"]).startswith("queue is ")
