"""However the network cuts the stream, and in whatever order answers come: each request gets its own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector_tests.support.scripted_broker import build_response
from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.connection import Connection
from rocketmq_spark.remoting.memory import MemoryStream, memory_pair
from rocketmq_spark.wire.remoting.command import FLAG_ONEWAY, FLAG_RESPONSE, RemotingCommand, decode, encode
from rocketmq_spark.wire.remoting.frame import FrameBuffer

LONG_MS = 60_000


def commands_from(stream: MemoryStream, count: int) -> list[RemotingCommand]:
    frames = FrameBuffer("the client")
    commands: list[RemotingCommand] = []
    while len(commands) < count:
        frames.feed(stream.recv(1 << 20, LONG_MS) or b"")
        while (frame := frames.next_frame()) is not None:
            commands.append(decode(frame))
    return commands


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[bytes], list[int], list[int]]:
    """(body of each answer, order in which they are sent, cuts in the stream of answers)"""
    bodies = draw(st.lists(st.binary(max_size=300), min_size=1, max_size=6))
    order = draw(st.permutations(range(len(bodies))))
    cuts = draw(st.lists(st.integers(0, 3_000), max_size=40))
    return bodies, order, sorted(set(cuts))


@settings(deadline=None)
@given(conversations(), st.booleans())
def test_responses_reach_their_requests_whatever_the_chunks_and_the_order(
    conversation: tuple[list[bytes], list[int], list[int]], has_notices: bool
) -> None:
    bodies, order, cuts = conversation
    ours, theirs = memory_pair()
    received: list[int] = []
    connection = Connection("memory", ours, lambda request: received.append(request.opaque))
    pendings = [connection.submit(RemotingCommand(11), LONG_MS) for _ in bodies]
    opaques = [request.opaque for request in commands_from(theirs, len(bodies))]
    stream = b""
    for index in order:
        if has_notices:
            stream += encode(RemotingCommand(40, opaque=opaques[index], flag=FLAG_ONEWAY))
        reply = build_response(body=bodies[index])
        stream += encode(RemotingCommand(reply.code, opaque=opaques[index], flag=FLAG_RESPONSE, body=reply.body))
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        theirs.sendall(stream[begin:end], LONG_MS)
    assert [bytes(pending.result().body) for pending in pendings] == bodies
    assert received == ([opaques[index] for index in order] if has_notices else [])
    connection.close()


@settings(deadline=None, max_examples=30)
@given(st.binary(max_size=300), st.binary(max_size=300), st.data())
def test_a_request_that_times_out_in_the_middle_of_its_response_loses_no_byte_of_the_stream(
    early: bytes, late: bytes, data: st.DataObject
) -> None:
    ours, theirs = memory_pair()
    connection = Connection("memory", ours)
    hasty, patient = connection.submit(RemotingCommand(11), 1), connection.submit(RemotingCommand(11), LONG_MS)
    first, second = (
        encode(RemotingCommand(0, opaque=request.opaque, flag=FLAG_RESPONSE, body=body))
        for request, body in zip(commands_from(theirs, 2), (early, late), strict=True)
    )
    cut = data.draw(st.integers(1, len(first) - 1))
    theirs.sendall(first[:cut], LONG_MS)
    with pytest.raises(TransportError, match="RESPONSE_TIMED_OUT"):
        hasty.result()
    theirs.sendall(first[cut:] + second, LONG_MS)
    assert bytes(patient.result().body) == late
    connection.close()
