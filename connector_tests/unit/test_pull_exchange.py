"""What one connection's pulls come to: by their answers, their deadlines, and the loss of the connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import pytest

from connector_tests.support.decoders import IMPLEMENTATIONS, template_class
from connector_tests.support.scripted_broker import build_response
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.model import MASTER_ID, MessageQueue
from rocketmq_spark.pull.pull_exchange import PullExchange
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.correlation import UNRESPONSIVE_LIMIT_MS
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, RemotingCommand, decode, encode
from rocketmq_spark.wire.remoting.frame_arena import Arenas
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

ADDRESS = "a:1"
TIMEOUT_MS = 1_000
FRAMES = pull_frames("G", MessageQueue("T", "broker-a", 0), "*")
NUMBERS = {"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "9"}
FOUND = build_response(ResponseCode.SUCCESS, NUMBERS, b"messages", "FOUND")
EMPTY = build_response(ResponseCode.PULL_NOT_FOUND, NUMBERS)
BUSY = build_response(ResponseCode.SYSTEM_BUSY, remark="later")
GO_AWAY = build_response(ResponseCode.GO_AWAY)
REQUEST = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, opaque=5)
NO_FRAME = bytes(4)
NO_HEADER = (8).to_bytes(4) + (4).to_bytes(4) + b"{no}"


NewExchange = Callable[..., PullExchange]


@pytest.fixture(params=IMPLEMENTATIONS)
def exchange(request: pytest.FixtureRequest) -> NewExchange:
    """With either kind of template: each test is one of both."""
    kind = template_class(request.param)
    return lambda now_ms=0: PullExchange(ADDRESS, Arenas(), TIMEOUT_MS, now_ms, kind)


def sent(subject: PullExchange, count: int = 1, now_ms: int = 0) -> list[PullRequest]:
    """Pulls in flight; the first exchange of a test numbers them from 1 on."""
    requests = [PullRequest(offset, offset + 1, 1, deque()) for offset in range(count)]
    subject.encode_requests(requests, FRAMES, now_ms)
    return requests


def received(subject: PullExchange, data: bytes, now_ms: int = 0) -> list[Completion]:
    subject.writable_buffer()[: len(data)] = data
    return subject.received(len(data), now_ms)


def responded(subject: PullExchange, opaque: int, reply: RemotingCommand, now_ms: int = 0) -> list[Completion]:
    return received(subject, encode(replace(reply, opaque=opaque, flag=FLAG_RESPONSE)), now_ms)


def only(completions: list[Completion]) -> object:
    ((_, outcome, _),) = completions
    return outcome


# ---------------------------------------------------------------------------------------------------- answers


def test_what_is_found_is_the_messages_and_where_the_queue_continues(exchange: NewExchange) -> None:
    subject = exchange()
    (request,) = sent(subject)
    assert responded(subject, 1, FOUND) == [
        (request, PullResult(PullStatus.FOUND, "FOUND", 1, 0, 9, memoryview(b"messages")), MASTER_ID)
    ]


def test_the_first_response_with_messages_is_the_template_of_those_that_follow(exchange: NewExchange) -> None:
    """An answer without them looks otherwise, and would be the template of nothing."""
    subject = exchange()
    sent(subject, 3)
    other = replace(FOUND, fields={**NUMBERS, "suggestWhichBrokerId": "0"})
    templates = []
    for opaque, reply in enumerate((EMPTY, FOUND, other), 1):
        responded(subject, opaque, reply)
        templates.append(subject._template)
    nothing, template, same = templates
    assert nothing is None
    assert template is not None
    frame = encode(replace(FOUND, opaque=3, flag=FLAG_RESPONSE))
    assert template.read(memoryview(frame), 0, len(frame))[1] == len(frame)
    assert same is template, "it is learnt once"


def test_a_response_with_another_suggestion_is_the_next_template(exchange: NewExchange) -> None:
    """Each response, by the template or not, is completed with its suggestion."""
    subject = exchange()
    sent(subject, 7)
    for opaque, broker_id in enumerate([0, 0, 1, 1, 1, 0, 0], 1):
        found = replace(FOUND, fields={**NUMBERS, "suggestWhichBrokerId": str(broker_id)})
        assert [suggested_id for _, _, suggested_id in responded(subject, opaque, found)] == [broker_id]


@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("", 0), ("-1", 0), ("x", 0), ("1" * 40, 0), ("²", 0)])
def test_an_invalid_suggestion_is_the_master(exchange: NewExchange, text: str, expected: int) -> None:
    subject = exchange()
    sent(subject)
    ((_, _, suggested_id),) = responded(subject, 1, replace(FOUND, fields={**NUMBERS, "suggestWhichBrokerId": text}))
    assert suggested_id == expected


def test_an_ordinary_response_that_comes_after_its_deadline_belongs_to_no_caller(exchange: NewExchange) -> None:
    subject = exchange()
    sent(subject, 2)
    responded(subject, 1, FOUND)
    subject.expire_overdue(TIMEOUT_MS)
    assert responded(subject, 2, FOUND) == []


def test_a_refusal_names_server_and_request(exchange: NewExchange) -> None:
    subject = exchange()
    sent(subject)
    error = only(responded(subject, 1, BUSY))
    assert isinstance(error, BrokerError)
    assert error.context == {
        "address": ADDRESS,
        "request": "PULL_MESSAGE",
        "code": ResponseCode.SYSTEM_BUSY,
        "code_name": "SYSTEM_BUSY",
        "remark": "later",
    }
    assert subject.loss is None


def test_a_response_that_cannot_be_understood_is_its_pulls_error_and_no_others(exchange: NewExchange) -> None:
    subject = exchange()
    first, _ = sent(subject, 2)
    ((request, error, _),) = responded(
        subject, 1, build_response(ResponseCode.SUCCESS, {"nextBeginOffset": "x"}, remark="FOUND")
    )
    assert request is first
    assert isinstance(error, RemoteProtocolError)
    assert (subject.in_flight_count, subject.loss) == (1, None)


def test_a_server_that_sends_goaway_is_leaving_from_then_on(exchange: NewExchange) -> None:
    subject = exchange()
    sent(subject, 3)
    is_draining = []
    for opaque, reply in enumerate((BUSY, GO_AWAY, BUSY), 1):
        responded(subject, opaque, reply)
        is_draining.append(subject.is_draining)
    assert is_draining == [False, True, True]


def test_a_servers_own_request_gets_the_error_not_supported(exchange: NewExchange) -> None:
    subject = exchange()
    received(subject, encode(replace(REQUEST, flag=FLAG_ONEWAY)))
    assert subject.take_replies() == b""
    received(subject, encode(REQUEST))
    reply = decode(memoryview(subject.take_replies())[4:])
    assert subject.take_replies() == b"", "each once"
    assert (reply.code, reply.opaque, reply.is_response) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 5, True)


# ---------------------------------------------------------------------------------------------------- deadlines


def test_a_pull_is_late_when_its_time_is_over_and_not_before(exchange: NewExchange) -> None:
    subject = exchange(now_ms=70)
    (request,) = sent(subject, now_ms=100)
    assert subject.expire_overdue(100 + TIMEOUT_MS - 1) == []
    ((late, error, _),) = subject.expire_overdue(100 + TIMEOUT_MS)
    assert late is request
    assert isinstance(error, TransportError)
    assert (error.condition, error.context) == (
        "RESPONSE_TIMED_OUT",
        {"address": ADDRESS, "request": "PULL_MESSAGE", "timeout_ms": TIMEOUT_MS},
    )
    assert subject.loss is None, "it may only be slow"


def test_a_server_that_is_late_and_unresponsive_times_out_with_all_that_is_in_flight(exchange: NewExchange) -> None:
    subject = exchange(now_ms=7)
    sent(subject, now_ms=7)
    later = PullRequest(5, 6, 1, deque())
    subject.encode_requests([later], FRAMES, 7 + UNRESPONSIVE_LIMIT_MS - 1)
    first, second = subject.expire_overdue(7 + UNRESPONSIVE_LIMIT_MS)
    assert isinstance(first[1], TransportError)
    assert first[1].condition == "RESPONSE_TIMED_OUT"
    assert second == (later, subject.loss, MASTER_ID)
    assert subject.loss is not None
    assert (subject.loss.condition, subject.loss.context["address"]) == ("CONNECTION_LOST", ADDRESS)


def test_a_timeout_counts_from_when_the_server_was_last_responsive(exchange: NewExchange) -> None:
    subject = exchange()
    sent(subject)
    received(subject, NO_HEADER[:2], now_ms=10)
    assert len(subject.expire_overdue(9 + UNRESPONSIVE_LIMIT_MS)) == 1
    assert subject.loss is None
    sent(subject, now_ms=0)
    subject.expire_overdue(10 + UNRESPONSIVE_LIMIT_MS)
    assert subject.loss is not None


def test_a_server_without_a_request_does_not_time_out(exchange: NewExchange) -> None:
    subject = exchange()
    assert subject.expire_overdue(10 * UNRESPONSIVE_LIMIT_MS) == []
    assert subject.loss is None


# ---------------------------------------------------------------------------------------------------- the loss


@pytest.mark.parametrize("garbage", [NO_FRAME, NO_HEADER])
def test_bytes_that_are_no_frame_are_the_loss_of_all_that_is_in_flight_and_what_came_before_counts(
    exchange: NewExchange,
    garbage: bytes,
) -> None:
    subject = exchange()
    first, second = sent(subject, 2)
    found = encode(replace(FOUND, opaque=1, flag=FLAG_RESPONSE))
    completions = received(subject, found + garbage)
    assert [request for request, _, _ in completions] == [first, second]
    assert isinstance(completions[0][1], PullResult)
    assert completions[1][1] is subject.loss
    assert isinstance(subject.loss, RemoteProtocolError)
    assert subject.loss.context["peer"] == ADDRESS


def test_the_first_cause_of_a_loss_stays(exchange: NewExchange) -> None:
    subject = exchange()
    (first,) = sent(subject)
    assert subject.loss is None
    causes: list[RocketMQError] = [
        TransportError("CONNECTION_LOST", address=ADDRESS, reason=reason) for reason in ("cut", "later")
    ]
    assert subject.mark_lost(causes[0]) == [(first, causes[0], MASTER_ID)]
    assert subject.mark_lost(causes[1]) == []
    assert subject.loss is causes[0]
