"""Whatever a proxy returns: errors are ours, and memory and time stay within what it has sent.

The responses go over gRPC to a session and a transport, and what these return is used as a query uses it: its messages
are spooled, cut into tasks and decoded to columns, and its receipt handles go into a checkpoint. Memory is the resident
size, as protobuf, gRPC and Arrow allocate by themselves.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector_tests.support.address_space import MIB
from connector_tests.support.protobuf_strategies import HANDLE, INVISIBLE, responses
from connector_tests.support.response_costs import ROWS_BYTES, bounded, check_error
from connector_tests.support.scripted_proxy import OK, ScriptedProxy, received, status
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.grpc_transport import GrpcTransport
from rocketmq_spark.pop.proxied_handles import MAX_HANDLE_CHARACTERS
from rocketmq_spark.pop.receipt_handles import (
    BrokerHandle,
    OpaqueHandle,
    ReceiptHandle,
    ReceivedMessage,
    handles_from_json,
    handles_to_json,
)
from rocketmq_spark.pop.receive_scheduler import ReceiveRequest, Target
from rocketmq_spark.pop.spooled_batch import decode_spooled_batch, encode_spooled_batch
from rocketmq_spark.pop.transport import IncompleteResponse, ReceiveOutcome
from rocketmq_spark.proxy.session import Session
from rocketmq_spark.security import UNSECURED
from rocketmq_spark.source.pop.message_reader import read_parts
from rocketmq_spark.source.pop.message_tasks import tasks_of
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.bounds import CONTROL_RESPONSE_BYTES, MESSAGE_BYTES_BESIDE_BODY
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Subscription

pytestmark = pytest.mark.usefixtures("grpc_library")

TIMEOUT_MS: Final = 60_000
MAX_MESSAGES: Final = 8
FORGOTTEN: Final = pb.HeartbeatResponse(status=status(pb.Code.UNRECOGNIZED_CLIENT_TYPE)).SerializeToString()
HANDLES: Final[Sequence[ReceiptHandle]] = (
    BrokerHandle.parse("T", HANDLE),
    BrokerHandle.parse("T", f"{HANDLE[:-1]}1"),
    OpaqueHandle("T", "broker-a", "a b c 1"),
)


class Place(NamedTuple):
    """A proxy, and clients of it that have its route and are registered."""

    proxy: ScriptedProxy
    options: ReadOptions
    session: Session
    transport: GrpcTransport

    def respond(self, method: str, *sent: bytes) -> None:
        """Answer requests with ``sent``, whose handles have the request's invisible duration."""

        def handler(request: Any) -> Any:
            if method != "ReceiveMessage":
                return list(sent) if method == "Telemetry" else sent[0]
            invisible = str(request.invisible_duration.ToMilliseconds()).encode()
            return [data.replace(INVISIBLE.encode(), invisible) for data in sent]

        self.proxy.handlers_by_method[method] = handler


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with ScriptedProxy() as proxy:
        given = {
            "endpoints": proxy.address,
            "consumerGroup": "g",
            "subscribe": "T",
            "loadBalance": "message",
            "badMessages": "null",
            "invisibleDurationMs": "300000",
            "brokerTimeoutMs": str(TIMEOUT_MS),
        }
        options = ReadOptions.parse(given)
        with closing(GrpcTransport(options, (proxy.address,))) as transport, closing(session_of(proxy)) as session:
            assert transport.refresh_routes() == {}
            session.keep_alive()
            yield Place(proxy, options, session, transport)


def session_of(proxy: ScriptedProxy) -> Session:
    return Session((proxy.address,), Subscription("g", ("T",), "*"), "me@1", UNSECURED, TIMEOUT_MS)


# ---------------------------------------------------------------------------------------------------- to our values


def use_telemetry(place: Place, sent: Sequence[bytes]) -> None:
    """A client that the proxy has forgotten. The last one is the answer to its next heartbeat."""
    *commands, heartbeat = sent
    place.respond("Telemetry", *commands)
    for response in (FORGOTTEN, heartbeat):
        place.respond("Heartbeat", response)
        with bounded(sum(map(len, sent)), is_traced=False):
            place.session.keep_alive()


def use_route(place: Place, sent: Sequence[bytes]) -> None:
    place.respond("QueryRoute", *sent)
    with bounded(sum(map(len, sent)), is_traced=False):
        assert place.session.find_brokers("T")


def use_messages(place: Place, sent: Sequence[bytes]) -> None:
    place.respond("ReceiveMessage", *sent)
    sent_bytes = sum(map(len, sent))
    outcomes: SimpleQueue[ReceiveOutcome] = SimpleQueue()
    messages: Sequence[ReceivedMessage] = ()
    with bounded(sent_bytes, is_traced=False):
        place.transport.receive(ReceiveRequest(Target("T", "broker-a"), MAX_MESSAGES, 1), outcomes.put)
        outcome = outcomes.get(timeout=WAIT_S)
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, IncompleteResponse):
            check_error(outcome.failure)
            outcome = outcome.received
        messages = outcome
    with bounded(sent_bytes, is_traced=False, more_bytes=ROWS_BYTES):
        use_received(messages, place.options)


def use_received(messages: Sequence[ReceivedMessage], options: ReadOptions) -> None:
    """As a query does: a batch in a spool and a checkpoint, tasks, rows."""
    assert len(messages) <= MAX_MESSAGES
    handles = [one.handle for one in messages]
    check_handles(handles)
    kept = handles_from_json(json.loads(json.dumps(handles_to_json(handles))))
    assert sorted(one.text for one in kept) == sorted(one.text for one in handles)
    spooled = decode_spooled_batch(encode_spooled_batch(messages))
    assert [one.record for one in spooled] == [one.record for one in messages]
    assert [type(one.handle) for one in spooled] == list(map(type, handles))
    tasks = tasks_of(messages, None)
    rows = sum(len(batch) for parts in tasks for batch in read_parts(parts, options, default_schema()))
    assert rows == len(messages)


def check_handles(handles: Sequence[ReceiptHandle]) -> None:
    """A checkpoint lists all of a batch."""
    assert all(len(one.text) <= MAX_HANDLE_CHARACTERS for one in handles)


def use_acknowledgements(place: Place, sent: Sequence[bytes]) -> None:
    acknowledgement, change = sent
    place.respond("AckMessage", acknowledgement)
    place.respond("ChangeInvisibleDuration", change)
    with bounded(len(acknowledgement), is_traced=False):
        for outcome in place.transport.acknowledge(HANDLES):
            if isinstance(outcome, RocketMQError):
                check_error(outcome)
    with bounded(len(change), is_traced=False):
        changed = place.transport.change_invisible_duration(HANDLES, 1, suspend=False)
        for one in changed:
            if isinstance(one, RocketMQError):
                check_error(one)
        check_handles([one for one in changed if isinstance(one, BrokerHandle | OpaqueHandle)])


# ---------------------------------------------------------------------------------------------------- any answer


class Kind(NamedTuple):
    """``use`` what ``sent`` gives."""

    sent: st.SearchStrategy[Sequence[bytes]]
    use: Callable[[Place, Sequence[bytes]], None]


HOSTILE: Final = {
    "telemetry": Kind(
        st.builds(
            lambda commands, other: [*commands, other],
            st.lists(responses(pb.TelemetryCommand), min_size=1, max_size=4),
            responses(pb.HeartbeatResponse),
        ),
        use_telemetry,
    ),
    "route": Kind(responses(pb.QueryRouteResponse).map(lambda one: [one]), use_route),
    "messages": Kind(st.lists(responses(pb.ReceiveMessageResponse), max_size=MAX_MESSAGES + 1), use_messages),
    "acknowledgements": Kind(
        st.tuples(responses(pb.AckMessageResponse), responses(pb.ChangeInvisibleDurationResponse)), use_acknowledgements
    ),
}
EXAMPLES: Final = [
    pytest.param(40, id="short"),
    pytest.param(5_000, id="long", marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
]


@pytest.mark.parametrize("count", EXAMPLES)
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.usefixtures("printed")
def test_any_response_takes_bounded_memory_and_gives_our_errors(place: Place, kind: str, count: int) -> None:
    one = HOSTILE[kind]

    @settings(max_examples=count)
    @given(sent=one.sent)
    def hostile(sent: Sequence[bytes]) -> None:
        one.use(place, sent)

    hostile()


# ---------------------------------------------------------------------------------------------------- large ones


def nested(number: int, data: bytes) -> bytes:
    """Field ``number`` with a message of these bytes."""
    holder = pb.ReceivedBody(message=pb.ReceivedBody.Fields(body=data))
    tag_and_length = holder.message.SerializeToString()[: -len(data)]
    return bytes([number << 3 | 2]) + tag_and_length[1:] + data


FINE: Final = pb.HeartbeatResponse(status=OK).SerializeToString()
SETTINGS: Final = pb.TelemetryCommand(status=OK).SerializeToString()
CONTROL: Final = CONTROL_RESPONSE_BYTES.maximum - 64
BESIDE: Final = MESSAGE_BYTES_BESIDE_BODY.maximum - 64


def empty(size_bytes: int) -> bytes:
    """Entries of two bytes."""
    return b"\x12\x00" * (size_bytes // 2)


def of_properties() -> bytes:
    """A message of as many as there may be."""
    return nested(2, b"".join(b"\x12\x07\x0a\x05%05x" % number for number in range(BESIDE // 9)))


def compressed(members: int = 1) -> bytes:
    """A message of so many times 32 MiB, which is the most that a body may have."""
    body = gzip.compress(bytes(32 * MIB)) * members
    return received("h", body, body_encoding=pb.Encoding.GZIP).SerializeToString()


def new_handle() -> bytes:
    return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle="h" * CONTROL).SerializeToString()


def remarks() -> bytes:
    return pb.ReceiveMessageResponse(status=status(pb.Code.OK, "x" * BESIDE)).SerializeToString()


LARGEST: Final[dict[str, tuple[str, Callable[[], Sequence[bytes]]]]] = {
    "empty queues": ("route", lambda: [empty(CONTROL)]),
    "results of acknowledgements": ("acknowledgements", lambda: [empty(CONTROL // 4), FINE]),
    "a new handle": ("acknowledgements", lambda: [FINE, new_handle()]),
    "settings": ("telemetry", lambda: [SETTINGS + nested(2, nested(6, empty(CONTROL - 64))), FINE]),
    "unknown commands": ("telemetry", lambda: [SETTINGS + b"\x42\x00" * (CONTROL // 2 - 32), FINE]),
    "remarks": ("messages", lambda: [remarks()] * MAX_MESSAGES),
    "keys": ("messages", lambda: [nested(2, nested(3, empty(BESIDE)))] * 2),
    "properties": ("messages", lambda: [of_properties()] * 2),
    "parts of a message": ("messages", lambda: [empty(BESIDE)] * 2),
    "compressed bodies": ("messages", lambda: [compressed(32), *[compressed()] * 2]),
    "bodies": ("messages", lambda: [received("h", bytes(4 * MIB)).SerializeToString()] * MAX_MESSAGES),
}
LARGEST_LONG: Final[dict[str, tuple[str, Callable[[], Sequence[bytes]]]]] = {
    "most results of acknowledgements": ("acknowledgements", lambda: [empty(CONTROL), FINE]),
    "most keys": ("messages", lambda: [nested(2, nested(3, empty(BESIDE)))] * MAX_MESSAGES),
    "most properties": ("messages", lambda: [of_properties()] * MAX_MESSAGES),
    "most compressed bodies": ("messages", lambda: [compressed()] * MAX_MESSAGES),
    "most bodies": ("messages", lambda: [received("h", bytes(16 * MIB - 64)).SerializeToString()] * MAX_MESSAGES),
}
ALL_LARGEST: Final = [
    *(pytest.param(*one, id=name) for name, one in LARGEST.items()),
    *(pytest.param(*one, id=name, marks=pytest.mark.long) for name, one in LARGEST_LONG.items()),
]


@pytest.mark.parametrize(("kind", "sent"), ALL_LARGEST)
@pytest.mark.usefixtures("printed")
def test_the_largest_responses_take_bounded_memory_and_time(
    place: Place, kind: str, sent: Callable[[], Sequence[bytes]]
) -> None:
    HOSTILE[kind].use(place, sent())


def test_a_hostile_proxy_keeps_its_later_responses(place: Place) -> None:
    """Nothing that it states keeps the connection, or another call, from continuing."""
    assert isinstance(polled(place, b"\xff"), RocketMQError)
    (message,) = polled(place, received("h", b"x").SerializeToString())
    assert message.handle == OpaqueHandle("T", "broker-a", "h")


def polled(place: Place, response: bytes) -> Any:
    """The outcome of a poll for which the proxy sends ``response``."""
    place.respond("ReceiveMessage", response)
    outcomes: SimpleQueue[ReceiveOutcome] = SimpleQueue()
    place.transport.receive(ReceiveRequest(Target("T", "broker-a"), MAX_MESSAGES, 1), outcomes.put)
    return outcomes.get(timeout=WAIT_S)
