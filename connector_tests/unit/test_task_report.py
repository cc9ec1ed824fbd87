"""What a task reports, as bytes and back."""

from __future__ import annotations

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import QueueRange
from rocketmq_spark.wire.body.task_report import (
    ReadSize,
    Recipient,
    ReportedLoss,
    TaskReport,
    decode_task_report,
    encode_task_report,
)

A, B = queues(2)
LOST = ReportedLoss(QueueRange(A, 0, 5), "OFFSETS_OMITTED"), ReportedLoss(QueueRange(B, 7, 9), "QUEUE_TRUNCATED")
READ = ReadSize(A, 3, 0), ReadSize(B, 1, 2**63 - 1)
TOKEN = "0f" * 16


def test_reports_arrive_as_they_were() -> None:
    for report in (TaskReport(), TaskReport(LOST), TaskReport(read=READ), TaskReport(LOST, READ)):
        assert decode_task_report(encode_task_report(report, TOKEN), TOKEN) == report
    queue = b'{"brokerName":"broker-a","queueId":0,"topic":"orders"}'
    assert encode_task_report(TaskReport(LOST[:1], READ[:1]), TOKEN) == TOKEN.encode() + (
        b'{"lost":[{"begin":0,"condition":"OFFSETS_OMITTED","end":5,"queue":%s}],'
        b'"read":[{"bytes":0,"offsets":3,"queue":%s}]}' % (queue, queue)
    )


def test_an_operators_request_reports_nothing() -> None:
    assert decode_task_report(b"", TOKEN) == TaskReport()


@pytest.mark.parametrize("token", ["", "0", TOKEN[:-1], "1" + TOKEN[1:], TOKEN[:-1] + "0", TOKEN.upper(), "\xe9"])
def test_report_of_another_client_is_not_parsed(token: str) -> None:
    for body in (encode_task_report(TaskReport(LOST, READ), token), token.encode() + b"x"):
        assert decode_task_report(body, TOKEN) == TaskReport()


def test_a_recipients_token_is_not_shown() -> None:
    recipient = Recipient("me", TOKEN)
    assert repr(recipient) == str(recipient) == "Recipient(client_id='me', token=...)"


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"{}",
        b'{"lost":[1],"read":[]}',
        b'{"lost":[]}',
        encode_task_report(TaskReport((ReportedLoss(QueueRange(A, 1, 2), "c"),)), "").replace(b"2", b"0"),
        encode_task_report(TaskReport((ReportedLoss(QueueRange(A, 1, 2), "c"),)), "").replace(b'"c"', b"7"),
    ],
)
def test_what_is_no_report_is_the_senders_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY.*\btask report\b"):
        decode_task_report(TOKEN.encode() + body, TOKEN)


@pytest.mark.parametrize("size", [ReadSize(A, 0, 1), ReadSize(A, -1, 1), ReadSize(A, 1, -1)])
def test_sizes_of_nothing_are_the_senders_error(size: ReadSize) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_task_report(encode_task_report(TaskReport(read=(size,)), TOKEN), TOKEN)
    assert str(caught.value.context["problem"]).startswith("not a size: ")


def test_a_range_without_its_queue_is_named() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_task_report(b'{"lost":[{"begin":0,"condition":"c","end":5,"queue":7}],"read":[]}', "")
    assert str(caught.value.context["problem"]).startswith("queue is ")
