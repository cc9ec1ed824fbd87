"""However the network cuts the stream, and in whatever order answers come: each pull gets its own, once."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from connector_tests.support.decoders import IMPLEMENTATIONS, template_class
from connector_tests.support.scripted_broker import build_response
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.pull.pull_exchange import PullExchange
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.correlation import MAX_OPAQUE
from rocketmq_spark.remoting.correlation import opaques as numbers_from
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    RemotingCommand,
    Serialization,
    decode,
    encode,
)
from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.frame_arena import Arenas
from rocketmq_spark.wire.remoting.pull import PullOutcome, read_pull
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

FRAMES = pull_frames("G", MessageQueue("T", "broker-a", 0), "*")
NOTICE = RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, flag=FLAG_ONEWAY)
REQUEST = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO)
TIMEOUT_MS = 1_000

OUTCOMES = st.sampled_from(
    [ResponseCode.SUCCESS] * 6 + [ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED, ResponseCode.SYSTEM_BUSY]
)


@pytest.fixture(params=IMPLEMENTATIONS, scope="module")
def kind(request: pytest.FixtureRequest) -> type[ResponseTemplate]:
    """Of the template of ordinary answers: each test is one of both."""
    return template_class(request.param)


@st.composite
def responses(draw: st.DrawFn) -> RemotingCommand:
    code = draw(OUTCOMES)
    numbers = {name: str(draw(st.integers(0, 2**40))) for name in ("nextBeginOffset", "minOffset", "maxOffset")}
    remark = "FOUND" if code == ResponseCode.SUCCESS else "WHY"
    return build_response(code, numbers, draw(st.binary(max_size=300)), draw(st.sampled_from([remark] * 5 + ["other"])))


def opaques_of(data: bytes) -> list[int]:
    buffer = FrameBuffer("the client")
    buffer.feed(data)
    return [decode(frame).opaque for frame in iter(buffer.next_frame, None)]


def received(exchange: PullExchange, data: bytes) -> list[Completion]:
    writable_buffer = exchange.writable_buffer()
    writable_buffer[: len(data)] = data
    return exchange.received(len(data), 0)


def reported(outcome: PullOutcome) -> object:
    return (outcome.condition, outcome.code) if isinstance(outcome, BrokerError) else outcome


def expected(command: RemotingCommand) -> object:
    return ("BROKER_ERROR", command.code) if command.code == ResponseCode.SYSTEM_BUSY else read_pull(command)


@given(
    st.lists(responses(), min_size=1, max_size=12),
    st.sampled_from([1, MAX_OPAQUE - 2]),
    st.booleans(),
    st.sampled_from(Serialization),
    st.data(),
)
def test_responses_reach_their_pulls_whatever_the_chunks_and_the_order(
    kind: type[ResponseTemplate],
    replies: list[RemotingCommand],
    first: int,
    is_chatty: bool,
    serialization: Serialization,
    data: st.DataObject,
) -> None:
    exchange = PullExchange("a:1", Arenas(), TIMEOUT_MS, 0, kind)
    exchange._opaques = numbers_from(first)
    requests = [PullRequest(offset, offset + 1, 1, deque()) for offset in range(len(replies))]
    opaques = opaques_of(exchange.encode_requests(requests, FRAMES, 0))
    assert len(set(opaques)) == len(replies)
    order = data.draw(st.permutations(range(len(replies))))
    stream = b""
    for index in order:
        if is_chatty:  # the server numbers its own on its own; and what nobody waits for comes too
            stream += encode(replace(NOTICE, opaque=opaques[index])) + encode(replace(REQUEST, opaque=opaques[index]))
            stream += encode(replace(replies[index], opaque=7_000_000, flag=FLAG_RESPONSE), serialization)
        stream += encode(replace(replies[index], opaque=opaques[index], flag=FLAG_RESPONSE), serialization)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=30)) | {0, len(stream)})
    completions = [completion for begin, end in pairwise(cuts) for completion in received(exchange, stream[begin:end])]
    event(f"ordinary answers are known: {exchange._template is not None}")
    assert [request for request, _, _ in completions] == [requests[index] for index in order]
    assert [reported(outcome) for _, outcome, _ in completions] == [expected(replies[index]) for index in order]
    assert opaques_of(exchange.take_replies()) == ([opaques[index] for index in order] if is_chatty else [])
    assert (exchange.in_flight_count, exchange.expire_overdue(TIMEOUT_MS)) == (0, [])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.integers(0, 4))
def test_each_pull_is_completed_once_by_a_response_its_deadline_or_the_loss(
    kind: type[ResponseTemplate], rounds: list[int], lost_at: int
) -> None:
    """``turns``: how many of those in flight are answered, in each turn of half a time limit."""
    exchange = PullExchange("a:1", Arenas(), TIMEOUT_MS, 0, kind)
    sent: list[PullRequest] = []
    in_flight: dict[PullRequest, int] = {}
    completed: list[PullRequest] = []

    def note(completions: list[Completion]) -> None:
        for request, _, _ in completions:
            completed.append(request)
            in_flight.pop(request)

    for round_number, responded_count in enumerate(rounds):
        now_ms = round_number * TIMEOUT_MS // 2
        new = [PullRequest(offset, offset + 1, 1, deque()) for offset in range(2)]
        in_flight.update(zip(new, opaques_of(exchange.encode_requests(new, FRAMES, now_ms)), strict=True))
        sent += new
        replies = [
            encode(replace(build_response(ResponseCode.SYSTEM_BUSY), opaque=opaque, flag=FLAG_RESPONSE))
            for opaque in list(in_flight.values())[:responded_count]
        ]
        note(received(exchange, b"".join(replies)))
        note(exchange.expire_overdue(now_ms))
    if lost_at:
        note(received(exchange, bytes(4)))
        assert exchange.loss is not None
    note(exchange.expire_overdue(10**9))
    assert sorted(map(id, completed)) == sorted(map(id, sent))
    assert exchange.in_flight_count == 0


@given(st.lists(responses(), min_size=2, max_size=6), st.data())
def test_a_pull_that_times_out_in_the_middle_of_its_response_loses_no_byte_of_the_stream(
    kind: type[ResponseTemplate], replies: list[RemotingCommand], data: st.DataObject
) -> None:
    """The rest of its frame is passed over, and the answers behind it are whole. ``cut``: what has come by then."""
    exchange = PullExchange("a:1", Arenas(), TIMEOUT_MS, 0, kind)
    early, late = PullRequest(0, 1, 1, deque()), [PullRequest(at, at + 1, 1, deque()) for at in range(1, len(replies))]
    opaques = opaques_of(exchange.encode_requests([early], FRAMES, 0)) + opaques_of(
        exchange.encode_requests(late, FRAMES, TIMEOUT_MS)
    )
    frames = [
        encode(replace(reply, opaque=opaque, flag=FLAG_RESPONSE))
        for reply, opaque in zip(replies, opaques, strict=True)
    ]
    cut = data.draw(st.integers(1, len(frames[0]) - 1))
    assert received(exchange, frames[0][:cut]) == []
    assert [request for request, _, _ in exchange.expire_overdue(TIMEOUT_MS)] == [early]
    completions = received(exchange, frames[0][cut:] + b"".join(frames[1:]))
    assert [request for request, _, _ in completions] == late
    assert [reported(outcome) for _, outcome, _ in completions] == [expected(reply) for reply in replies[1:]]
