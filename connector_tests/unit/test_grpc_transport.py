"""Messages over gRPC, as a scripted proxy has them: what a real one states rarely."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from connector_tests.support.scripted_proxy import NOTHING, OK, ScriptedProxy, of_entries, received, status
from connector_tests.support.streams import eventually
from connector_tests.support.thread_starts import starting_no_thread
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.grpc_transport import GrpcTransport, _call_concurrently
from rocketmq_spark.pop.invisible_duration import longest_duration_ms
from rocketmq_spark.pop.proxied_handles import MAX_HANDLE_CHARACTERS, UNVERIFIED
from rocketmq_spark.pop.receipt_handles import MAX_INVISIBLE_MS, BrokerHandle, OpaqueHandle, ReceiptHandle
from rocketmq_spark.pop.receive_scheduler import (
    MAX_CONCURRENT_REQUESTS,
    REDELIVERY_WITHIN_MS,
    ReceiveRequest,
    ReceiveScheduler,
    Target,
)
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.transport import IncompleteResponse, ReceiveOutcome
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.proxy.session import TERMINATION_TIMEOUT_MS, Session
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.error_kinds import is_conversion_failure
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.responses import Addresses

pytestmark = pytest.mark.usefixtures("grpc_library")

INVISIBLE_MS = 300_000
HANDLE = BrokerHandle.parse("gone", "0 1795445135749 60000 3 0 broker-a 0 0")


@pytest.mark.parametrize("is_probed_after", [True, False])
def test_of_a_topic_that_is_deleted_the_proxy_reports_that_a_message_is_unknown(is_probed_after: bool) -> None:
    """A query that has left the topic out, and whose checkpoint has a batch of it, could not be started."""
    over = status(pb.Code.INVALID_RECEIPT_HANDLE, "handle has expired")

    def route(sent: Any) -> Any:
        if sent.topic.name == "gone":
            return pb.QueryRouteResponse(status=status(pb.Code.TOPIC_NOT_FOUND, "no such topic"))
        return pb.QueryRouteResponse(status=OK, message_queues=[proxy.queue()])

    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["QueryRoute"] = route
        proxy.handlers_by_method["ChangeInvisibleDuration"] = lambda _: pb.ChangeInvisibleDurationResponse(status=over)
        proxy.handlers_by_method["AckMessage"] = lambda sent: of_entries(sent, [over])
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        transport = transport_of(ReadOptions.parse(given))
        assert isinstance(transport, GrpcTransport)
        with closing(transport):
            if is_probed_after:
                transport.refresh_routes()
                transport.change_invisible_duration(
                    [HANDLE], 1, suspend=True
                )  # from here on its route is looked for too
                transport.refresh_routes()
            assert transport.change_invisible_duration([HANDLE], 1, suspend=True) == [None]
            assert transport.acknowledge([HANDLE]) == [False]


POP_TIME_MS = 1_795_445_135_749


def handles(called_ms: int) -> dict[str, ReceiptHandle]:
    """Of the message at offset 3 of queue 7, by what a proxy states that was asked with this invisible duration."""
    times = f"{POP_TIME_MS} {called_ms} 3"
    ours = f"0 {times} 1 broker-a 7 3"
    others = (
        f"0 {times} 1 broker-a 7 2 99",
        "a gateway's",
        f"0 {times} 0 broker-z 7 3 99",
        f"0 {times} 0 broker-a 8 3 99",
        f"0 {POP_TIME_MS} {INVISIBLE_MS} 3 0 broker-a 7 3 99",
        f"0 {POP_TIME_MS} {MAX_INVISIBLE_MS} 999 0 broker-a 7 3 99",
        "a b c d 1 99",
    )
    opaque: dict[str, ReceiptHandle] = {text: OpaqueHandle("T", "broker-a", text) for text in others}
    return {f"{ours} 99": BrokerHandle.parse("T", ours)} | opaque


def called_ms_of(sent: Any) -> int:
    return int(sent.invisible_duration.ToMilliseconds())


def test_no_request_is_made_by_a_handle_that_a_producer_wrote(caplog: pytest.LogCaptureFixture) -> None:
    """A proxy takes it for its broker's, and fails, or changes another message. It may number others wrongly."""
    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["ReceiveMessage"] = lambda sent: [
            received(text, queue_id=7, queue_offset=3) for text in handles(called_ms_of(sent))
        ]
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        with closing(transport_of(ReadOptions.parse(given))) as transport:
            transport.refresh_routes()
            responses: SimpleQueue[Any] = SimpleQueue()
            for _ in range(2):
                transport.receive(ReceiveRequest(Target("T", "broker-a"), 8, 1_000), responses.put)
                delivered = responses.get(timeout=WAIT_S)
            called_ms = [
                called_ms_of(one.request) for one in proxy.requests_received if one.method == "ReceiveMessage"
            ][-1]
            texts = handles(called_ms)
            ours = next(iter(texts))
            found = [one.handle for one in delivered]
            records = [pb.ReceiveMessageResponse.FromString(one.record).message for one in delivered]
            rows = [one.system_properties.receipt_handle for one in records]
            usable = [text in {ours, "a gateway's"} for text in texts]
            assert rows == [text if is_usable else "" for text, is_usable in zip(texts, usable, strict=True)]
            assert found == list(texts.values())
            assert transport.acknowledge(found) == usable
            assert [one is not None for one in transport.change_invisible_duration(found, 1, suspend=True)] == usable
        acks = [one.request for one in proxy.requests_received if one.method == "AckMessage"]
        assert [entry.receipt_handle for ack in acks for entry in ack.entries] == [texts[ours].text, "a gateway's"]
    (line,) = [one for one in caplog.messages if "acknowledged" in one]
    assert line.startswith("RECEIPT_HANDLE_UNTRUSTED: 6 messages of topic=T broker=broker-a cannot be acknowledged")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("h" * MAX_HANDLE_CHARACTERS, "h" * MAX_HANDLE_CHARACTERS),
        ("h" * (MAX_HANDLE_CHARACTERS + 1), UNVERIFIED),
        ("h" * (3 << 20), UNVERIFIED),
        (f"0 {POP_TIME_MS} 60000 {'9' * 4_000} 0 broker-a 7 3 99", UNVERIFIED),
    ],
    ids=["longest", "longer", "3 MiB", "a long number"],
)
def test_a_new_handle_has_as_many_characters_as_the_first_one_may(text: str, kept: str) -> None:
    """A checkpoint had several MiB of each message whose invisible duration was changed before its batch."""
    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["ChangeInvisibleDuration"] = lambda _: pb.ChangeInvisibleDurationResponse(
            status=OK, receipt_handle=text
        )
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        with closing(transport_of(ReadOptions.parse(given))) as transport:
            transport.refresh_routes()
            (changed,) = transport.change_invisible_duration([OpaqueHandle("T", "broker-a", "h")], 1, suspend=True)
    assert changed == OpaqueHandle("T", "broker-a", kept)


def test_a_topic_of_an_earlier_batch_that_is_no_longer_read_is_not_polled() -> None:
    with ScriptedProxy() as proxy:
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        with closing(transport_of(ReadOptions.parse(given))) as transport:
            assert transport.acknowledge([HANDLE]) == [True]
            assert transport.refresh_routes() == {}
            assert transport.targets() == [Target("T", "broker-a")]
        requested = [one.request.topic.name for one in proxy.requests_received if one.method == "QueryRoute"]
    assert requested == ["T", "gone"] * 2


@contextmanager
def proxies_of_one_route(count: int) -> Iterator[list[ScriptedProxy]]:
    """The first returns the route: a broker behind each of the others."""
    with ExitStack() as stack:
        entry, *others = (stack.enter_context(ScriptedProxy()) for _ in range(1 + count))
        queues = [other.queue(f"broker-{number}") for number, other in enumerate(others)]
        route = pb.QueryRouteResponse(status=OK, message_queues=queues)
        entry.handlers_by_method["QueryRoute"] = lambda _: route
        yield [entry, *others]


def test_proxies_of_a_route_are_contacted_together() -> None:
    """One after another, 40 that were unresponsive kept the first heartbeat of the others back for two minutes."""
    met = threading.Barrier(3)

    def respond_once_all_are_contacted(sent: Any) -> Any:
        met.wait(WAIT_S)
        return [pb.TelemetryCommand(status=OK, settings=sent.settings)]

    with proxies_of_one_route(3) as (entry, *others):
        for other in others:
            other.handlers_by_method["Telemetry"] = respond_once_all_are_contacted
        given = {"endpoints": entry.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        more = {"brokerTimeoutMs": "10000"}
        with closing(transport_of(ReadOptions.parse(given | more))) as transport:
            failures = transport.refresh_routes()
            met.abort()
            assert failures == {}
            assert len(transport.targets()) == 3


def test_a_poll_during_a_refresh_finds_the_proxy_of_each_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the new route and the new session it had an unexpected error, and its target was polled no more."""
    found: SimpleQueue[Any] = SimpleQueue()
    with ScriptedProxy() as before, ScriptedProxy() as after:
        route = [before.queue()]
        before.handlers_by_method["QueryRoute"] = lambda _: pb.QueryRouteResponse(status=OK, message_queues=route)
        given = {"endpoints": before.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        transport = transport_of(ReadOptions.parse(given))
        assert isinstance(transport, GrpcTransport)
        with closing(transport):
            transport.refresh_routes()
            new_session = transport._new_session

            def polled_first(addresses: Addresses) -> Session:
                transport.receive(ReceiveRequest(Target("T", "broker-a"), 1, 1_000), found.put)
                assert found.get(timeout=WAIT_S) == []
                return new_session(addresses)

            monkeypatch.setattr(transport, "_new_session", polled_first)
            route[:] = [after.queue()]
            assert transport.refresh_routes() == {}
            transport.receive(ReceiveRequest(Target("T", "broker-a"), 1, 1_000), found.put)
            assert found.get(timeout=WAIT_S) == []
    polls = [one.received_methods().count("ReceiveMessage") for one in (before, after)]
    assert polls == [1, 1]


def test_what_ends_the_thread_of_a_poll_is_raised_by_the_next_check(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The poll counted as in flight for ever: its target was polled no more, and the query waited."""

    def unexpected(_request: ReceiveRequest) -> ReceiveOutcome:
        raise LookupError("by the test")

    with ScriptedProxy() as proxy:
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        options = ReadOptions.parse(given)
        transport = transport_of(options)
        monkeypatch.setattr(transport, "_receive", unexpected)
        receiver = Receiver(options, transport)
        try:
            receiver.start()
            eventually(lambda: receiver._failures.has_fatal_error, "the error of the poll")
            with pytest.raises(LookupError, match="by the test"):
                receiver.check()
        finally:
            receiver.stop()
        assert not receiver._receive_scheduler.pending_requests
    assert "INTERNAL_ERROR: Unexpected error of a poll; the query fails. Report it." in caplog.text


def test_unresponsive_proxies_are_left_together() -> None:
    ended = threading.Event()

    def never_respond(_: object) -> Any:
        ended.wait(WAIT_S)
        return pb.NotifyClientTerminationResponse(status=OK)

    with proxies_of_one_route(6) as (entry, *others):
        for other in others:
            other.handlers_by_method["NotifyClientTermination"] = never_respond
        given = {"endpoints": entry.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        transport = transport_of(ReadOptions.parse(given))
        transport.refresh_routes()
        begin_s = time.monotonic()
        transport.close()
        seconds = time.monotonic() - begin_s
        ended.set()
        assert len(others) * TERMINATION_TIMEOUT_MS / 1000 > seconds


def test_error_of_a_concurrent_call_is_raised_once_all_have_ended() -> None:
    ended: SimpleQueue[int] = SimpleQueue()
    calls = threading.Barrier(2)

    def call(number: int) -> None:
        calls.wait(WAIT_S)
        if number == 0:
            raise ZeroDivisionError("unexpected")
        ended.put(number)

    with pytest.raises(ZeroDivisionError, match="unexpected"):
        _call_concurrently(call, (0, 1))
    assert ended.get_nowait() == 1


def test_calls_follow_each_other_where_no_thread_can_be_started() -> None:
    """At the exit of Python 3.12 no session was closed."""
    called: list[int] = []
    with starting_no_thread():
        _call_concurrently(called.append, (0, 1))
    assert called == [0, 1]


def test_no_two_polls_can_be_expected_to_request_one_invisible_duration() -> None:
    """Else a producer could write a handle with it."""
    with ScriptedProxy() as proxy:
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        with closing(transport_of(ReadOptions.parse(given))) as transport:
            transport.refresh_routes()
            responses: SimpleQueue[Any] = SimpleQueue()
            for _ in range(8):
                transport.receive(ReceiveRequest(Target("T", "broker-a"), 1, 1_000), responses.put)
                assert responses.get(timeout=WAIT_S) == []
        called_ms = [called_ms_of(one.request) for one in proxy.requests_received if one.method == "ReceiveMessage"]
    assert len(set(called_ms)) > 4
    assert min(called_ms) >= INVISIBLE_MS


def test_a_response_that_breaks_off_is_logged_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    """What a producer wrote may make a proxy fail in the middle of one: that was not to be seen."""

    def break_off(_: object) -> Iterator[object]:
        yield received(f"0 {POP_TIME_MS} 60000 3 0 broker-a 7 3 99", queue_id=7, queue_offset=3)
        yield pb.ReceiveMessageResponse(status=status(pb.Code.PROXY_TIMEOUT, "slow broker"))

    now_ms = [100_000]
    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["ReceiveMessage"] = break_off
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        options = ReadOptions.parse(given)
        with closing(GrpcTransport(options, (proxy.address,), lambda: now_ms[0])) as transport:
            transport.refresh_routes()
            for at_ms, lines in ((100_000, 1), (114_999, 1), (115_000, 2), (144_999, 2), (145_000, 3)):
                now_ms[0] = at_ms
                responses: SimpleQueue[Any] = SimpleQueue()
                transport.receive(ReceiveRequest(Target("T", "broker-a"), 6, 1_000), responses.put)
                assert len(responses.get(timeout=WAIT_S).received) == 1
                assert len([one for one in caplog.messages if "RESPONSE_INCOMPLETE" in one]) == lines
    line = next(one for one in caplog.messages if "RESPONSE_INCOMPLETE" in one)
    assert line.startswith(
        "RESPONSE_INCOMPLETE: Response for topic=T broker=broker-a ended after 1 messages: [ROCKETMQ_"
    )
    assert "slow broker" in line


def test_a_run_to_the_end_awaits_what_a_response_that_breaks_off_lacks() -> None:
    """It ended as successful without these messages, which were invisible."""
    advanced_ms = 0

    def clock() -> int:
        return monotonic_ms() + advanced_ms

    responses = [
        received(f"0 {POP_TIME_MS} 60000 3 0 broker-a 7 3 99", queue_id=7, queue_offset=3),
        pb.ReceiveMessageResponse(status=status(pb.Code.PROXY_TIMEOUT, "slow broker")),
    ]
    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["ReceiveMessage"] = lambda _: (
            [responses.pop(0), responses.pop(0)] if responses else [pb.ReceiveMessageResponse(status=NOTHING)]
        )
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        options = ReadOptions.parse(given)
        receiver = Receiver(options, transport_of(options), is_available_now=True, clock=clock)
        try:
            receiver.start()
            eventually(lambda: len(receiver.start_batch(1, 10)) == 1, "a message")
            eventually(
                lambda: proxy.received_methods().count("ReceiveMessage") > 1 + MAX_CONCURRENT_REQUESTS,
                "a poll of the empty broker",
            )
            assert not receiver.is_empty
            advanced_ms = longest_duration_ms(options.invisible_duration_ms) + REDELIVERY_WITHIN_MS
            eventually(lambda: receiver.is_empty, "the end")
        finally:
            receiver.stop()


@pytest.mark.parametrize("delivered", [0, 2])
@pytest.mark.parametrize(
    ("code", "remark", "is_conversion"),
    [
        (pb.Code.INTERNAL_SERVER_ERROR, "getRetry fail, extraInfoStrs length 2. IllegalArgumentException", True),
        (pb.Code.INTERNAL_SERVER_ERROR, 'For input string: "group not found". NumberFormatException', True),
        (
            pb.Code.INTERNAL_SERVER_ERROR,
            """For input string: "parse the consumer's subscription failed". NumberFormatException""",
            True,
        ),
        (pb.Code.INTERNAL_SERVER_ERROR, "connect to 10.0.0.1:10911 failed. RemotingConnectException", False),
        (pb.Code.INTERNAL_SERVER_ERROR, "subscription group no permission, g", False),
        (pb.Code.TOO_MANY_REQUESTS, "polling full", False),
        (pb.Code.PROXY_TIMEOUT, "slow broker", False),
    ],
)
def test_failed_conversion_is_distinguished_from_overload_and_outage(
    delivered: int, code: pb.Code, remark: str, is_conversion: bool
) -> None:
    def fail(sent: Any) -> Iterator[object]:
        for offset in range(delivered):
            yield received(
                f"0 {POP_TIME_MS} {called_ms_of(sent)} 3 0 broker-a 7 {offset} 99", queue_id=7, queue_offset=offset
            )
        yield pb.ReceiveMessageResponse(status=status(code, remark))

    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["ReceiveMessage"] = fail
        given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
        with closing(transport_of(ReadOptions.parse(given))) as transport:
            transport.refresh_routes()
            responses: SimpleQueue[ReceiveOutcome] = SimpleQueue()
            transport.receive(ReceiveRequest(Target("T", "broker-a"), 8, 1_000), responses.put)
            outcome = responses.get(timeout=WAIT_S)
    assert isinstance(outcome, IncompleteResponse) is (bool(delivered) or is_conversion)
    failure = outcome.failure if isinstance(outcome, IncompleteResponse) else outcome
    assert isinstance(failure, RocketMQError)
    assert (remark in str(failure), is_conversion_failure(failure)) == (True, is_conversion)
    assert not isinstance(outcome, IncompleteResponse) or len(outcome.received) == delivered


@pytest.mark.parametrize("failures", [1, 2])
def test_messages_of_an_earlier_start_are_released_though_routes_come_after_an_error(failures: int) -> None:
    """The first error ended it, and a run to the end ended without them."""
    failing = [pb.QueryRouteResponse(status=status(pb.Code.INTERNAL_ERROR, "starting"))] * failures

    def route(_: object) -> Any:
        return failing.pop() if failing else pb.QueryRouteResponse(status=OK, message_queues=[proxy.queue()])

    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["QueryRoute"] = route
        with receiving_to_the_end(proxy) as receiver:
            receiver.try_release([just_received()])
            eventually(lambda: receiver.counts.released == 1, "a released message")


@contextmanager
def receiving_to_the_end(proxy: ScriptedProxy) -> Iterator[Receiver]:
    """A receiver of an ``availableNow`` run, started."""
    given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
    options = ReadOptions.parse(given)
    receiver = Receiver(options, transport_of(options), is_available_now=True)
    try:
        receiver.start()
        yield receiver
    finally:
        receiver.stop()


def just_received() -> BrokerHandle:
    """The handle of a message that is invisible for a minute."""
    return BrokerHandle.parse("T", f"0 {int(time.time() * 1000)} 60000 3 0 broker-a 0 0")


def test_messages_of_an_earlier_start_are_released_though_routes_come_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a route of their broker nothing was sent, and a run to the end ended without them. Their redelivery was
    expected from the call on, and the run ended before it."""
    expected_ms: list[int] = []
    expect = ReceiveScheduler.expect_redelivery

    def note(scheduler: ReceiveScheduler, now_ms: int) -> None:
        expected_ms.append(now_ms)
        expect(scheduler, now_ms)

    monkeypatch.setattr(ReceiveScheduler, "expect_redelivery", note)
    is_routed = threading.Event()

    def route(_: object) -> Any:
        is_routed.wait(WAIT_S)
        return pb.QueryRouteResponse(status=OK, message_queues=[proxy.queue()])

    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["QueryRoute"] = route
        with receiving_to_the_end(proxy) as receiver, ExitStack() as ending:
            ending.callback(is_routed.set)
            eventually(lambda: "QueryRoute" in proxy.received_methods(), "a request for the route")
            receiver.try_release([just_received()])
            eventually(lambda: monotonic_ms() > expected_ms[-1], "a later millisecond")
            routed_ms = monotonic_ms()
            is_routed.set()
            eventually(lambda: receiver.counts.released == 1, "a released message")
            eventually(lambda: any(at_ms >= routed_ms for at_ms in expected_ms), "its redelivery, from its release on")
