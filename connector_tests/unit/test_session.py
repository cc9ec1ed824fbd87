"""A session with a proxy: being known there, what it is asked, and what is made of what goes wrong."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc
import pytest

from connector_tests.support.scripted_broker import ScriptedBroker
from connector_tests.support.scripted_proxy import (
    CERTIFICATE,
    NOTHING,
    OK,
    Ended,
    ScriptedProxy,
    of_entries,
    received,
    status,
)
from connector_tests.support.streams import eventually
from connector_tests.support.tcp_server import Serve
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS, WAIT_S
from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, RouteError, TransportError
from rocketmq_spark.proxy import session as session_module
from rocketmq_spark.proxy.connection import Connection
from rocketmq_spark.proxy.failures import probe_cause
from rocketmq_spark.proxy.session import ProxiedMessage, Response, Session
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.security import UNSECURED, Credentials, Secret, Security, Tls
from rocketmq_spark.wire.grpc import messaging_pb2 as pb
from rocketmq_spark.wire.grpc.requests import Identity, Subscription

pytestmark = pytest.mark.usefixtures("grpc_library")

GROUP = Subscription("g", ("T", "U"), "TagA || TagB")
TRUSTING = Tls(str(CERTIFICATE))
SessionOf = Callable[..., Session]


@pytest.fixture
def proxy() -> Iterator[ScriptedProxy]:
    with ScriptedProxy() as proxy:
        yield proxy


@pytest.fixture
def session() -> Iterator[SessionOf]:
    """Makes sessions with the proxies at some addresses."""
    with ExitStack() as made:

        def make(*addresses: str, security: Security = UNSECURED, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Session:
            one = Session(addresses, GROUP, "me@1", security, timeout_ms)
            made.callback(one.close)
            return one

        yield make


@pytest.fixture
def known(proxy: ScriptedProxy, session: SessionOf) -> Session:
    """Who is known to the proxy already."""
    one = session(proxy.address)
    one.keep_alive()
    return one


def failure(of: Callable[[], object]) -> RocketMQError:
    with pytest.raises(RocketMQError) as raised:
        of()
    return raised.value


def receive(one: Session) -> list[ProxiedMessage]:
    return response(one).received


def response(one: Session) -> Response:
    return one.receive("T", "broker-a", max_messages=32, invisible_ms=60_000, poll_ms=1_500)


# ---------------------------------------------------------------------------------------------------------- being known


def test_it_identifies_itself_and_then_sends_heartbeats(proxy: ScriptedProxy, session: SessionOf) -> None:
    one = session(proxy.address)
    one.keep_alive()
    one.keep_alive()
    assert proxy.received_methods() == ["Telemetry", "Heartbeat"]
    settings = proxy.requests_received[0].request.settings
    assert (settings.client_type, settings.subscription.group.name) == (pb.ClientType.SIMPLE_CONSUMER, "g")
    expected = {entry.topic.name: entry.expression.expression for entry in settings.subscription.subscriptions}
    assert expected == {"T": "TagA || TagB", "U": "TagA || TagB"}
    assert settings.request_timeout.ToMilliseconds() == REQUEST_TIMEOUT_MS
    assert (settings.user_agent.language, settings.user_agent.hostname) == (pb.Language.PYTHON, socket.gethostname())
    assert {one.metadata["x-mq-client-id"] for one in proxy.requests_received} == {"me@1"}


def test_it_sends_its_termination(proxy: ScriptedProxy, known: Session) -> None:
    known.close()
    known.close()
    eventually(lambda: proxy.received_methods() == ["Telemetry", "NotifyClientTermination"], "both")


def test_a_client_that_was_forgotten_identifies_itself_again(proxy: ScriptedProxy, known: Session) -> None:
    forgotten = status(pb.Code.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
    proxy.handlers_by_method["Heartbeat"] = lambda _: pb.HeartbeatResponse(status=forgotten)
    known.keep_alive()
    assert proxy.received_methods() == ["Telemetry", "Heartbeat", "Telemetry"]


def test_so_does_a_server_reported_by_a_failure(proxy: ScriptedProxy, known: Session) -> None:
    no_settings = status(pb.Code.INTERNAL_SERVER_ERROR, 'because "settings" is null. NullPointerException.')
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [pb.ReceiveMessageResponse(status=no_settings)]
    assert str(failure(lambda: receive(known))) == (
        f"[ROCKETMQ_PROXY_UNAVAILABLE] Proxy {proxy.address} is temporarily unable to process ReceiveMessage: "
        'INTERNAL_SERVER_ERROR (50001): because "settings" is null. NullPointerException. Check the proxy\'s log, '
        "and the brokers behind it."
    )
    known.keep_alive()
    assert proxy.received_methods() == ["Telemetry", "ReceiveMessage", "Telemetry"]


def test_a_lost_registration_that_another_call_finds_at_the_same_time_is_kept(
    proxy: ScriptedProxy, known: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one call classifies its own failure, another one finds that the proxy has lost the registration."""
    codes = iter([pb.Code.ILLEGAL_TOPIC, pb.Code.INTERNAL_SERVER_ERROR])
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [pb.ReceiveMessageResponse(status=status(next(codes), "x"))]

    def classify(error: RocketMQError) -> Retryability:
        monkeypatch.setattr(session_module, "retryability_of_request", retryability_of_request)
        failure(lambda: receive(known))
        return retryability_of_request(error)

    monkeypatch.setattr(session_module, "retryability_of_request", classify)
    failure(lambda: receive(known))
    known.keep_alive()
    assert proxy.received_methods() == ["Telemetry", "ReceiveMessage", "ReceiveMessage", "Telemetry"]


def test_a_lost_registration_that_a_call_finds_while_another_one_registers_is_kept(
    proxy: ScriptedProxy, known: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = pb.Code.INTERNAL_SERVER_ERROR
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [pb.ReceiveMessageResponse(status=status(code, "x"))]
    failure(lambda: receive(known))
    check = session_module._check

    def check_after_a_call(connection: Connection, method: str, response: pb.TelemetryCommand) -> None:
        monkeypatch.setattr(session_module, "_check", check)
        failure(lambda: receive(known))
        check(connection, method, response)

    monkeypatch.setattr(session_module, "_check", check_after_a_call)
    known.keep_alive()
    known.keep_alive()
    assert proxy.received_methods() == ["Telemetry", "ReceiveMessage", "Telemetry", "ReceiveMessage", "Telemetry"]


def test_a_lost_registration_is_kept_until_a_later_one_succeeds(
    proxy: ScriptedProxy, known: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_settings = status(pb.Code.INTERNAL_SERVER_ERROR, "x")
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [pb.ReceiveMessageResponse(status=no_settings)]
    lost = failure(lambda: receive(known))
    check = session_module._check

    def refuse_once(connection: Connection, method: str, response: pb.TelemetryCommand) -> None:
        monkeypatch.setattr(session_module, "_check", check)
        raise lost

    monkeypatch.setattr(session_module, "_check", refuse_once)
    failure(known.keep_alive)
    known.keep_alive()
    assert proxy.received_methods() == ["Telemetry", "ReceiveMessage", "Telemetry", "Telemetry"]


def test_a_group_that_is_not_there_is_reported_with_what_to_do(proxy: ScriptedProxy, session: SessionOf) -> None:
    def refuse(_: object) -> object:
        details = "process client telemetryCommand failed. group not found"
        raise Ended(grpc.StatusCode.INVALID_ARGUMENT, details)

    proxy.handlers_by_method["Telemetry"] = refuse
    error = failure(session(proxy.address).keep_alive)
    assert isinstance(error, BrokerError)
    assert str(error) == (
        f"[ROCKETMQ_GROUP_NOT_FOUND.PROXY] Proxy {proxy.address} rejected Telemetry: no broker has the consumer "
        "group. process client telemetryCommand failed. group not found. Create it on every broker of the "
        "topics, 'mqadmin updateSubGroup -g <group> -c <cluster>', or start these brokers, within "
        "'missingTopicTimeoutMs'."
    )


def test_a_group_that_is_to_be_read_in_order_is_refused(proxy: ScriptedProxy, session: SessionOf) -> None:
    in_order = pb.Settings(subscription=pb.Subscription(fifo=True))
    proxy.handlers_by_method["Telemetry"] = lambda _: [pb.TelemetryCommand(status=OK, settings=in_order)]
    error = failure(session(proxy.address).keep_alive)
    assert str(error) == (
        "[ROCKETMQ_FIFO_NOT_SUPPORTED] Group 'g' is FIFO, but loadBalance=message does not preserve the order of "
        "messages. Set 'loadBalance' to 'queue'."
    )


def test_a_proxy_that_returns_no_telemetry_has_not_responded_in_time(proxy: ScriptedProxy, session: SessionOf) -> None:
    proxy.handlers_by_method["Telemetry"] = lambda _: []
    error = failure(session(proxy.address, timeout_ms=2_000).keep_alive)
    assert (error.condition, error.context["request"]) == ("RESPONSE_TIMED_OUT", "Telemetry")


# --------------------------------------------------------------------------------------------------------- where topics


def test_brokers_with_readable_queues_are_called_where_the_route_lists(
    proxy: ScriptedProxy, session: SessionOf
) -> None:
    elsewhere = pb.Endpoints(addresses=[pb.Address(host="::1", port=8081), pb.Address(host="b.example", port=80)])
    queues = [
        proxy.queue(),
        proxy.queue(id=1),
        proxy.queue(broker=pb.Broker(name="broker-b", endpoints=elsewhere), permission=pb.Permission.READ),
        proxy.queue("write-only", permission=pb.Permission.WRITE),
        proxy.queue(broker=pb.Broker(name="slave", id=1, endpoints=elsewhere)),
    ]
    proxy.handlers_by_method["QueryRoute"] = lambda _: pb.QueryRouteResponse(status=OK, message_queues=queues)
    one = session(proxy.address)
    assert one.find_brokers("T") == {"broker-a": (proxy.address,), "broker-b": ("[::1]:8081", "b.example:80")}
    (requests_received,) = proxy.requests_received
    assert requests_received.request.topic.name == "T"
    assert [(one.host, str(one.port)) for one in requests_received.request.endpoints.addresses] == [
        tuple(proxy.address.split(":")),
    ]


def test_a_topic_that_is_missing_or_not_readable_is_one_of_those_errors(
    proxy: ScriptedProxy, session: SessionOf
) -> None:
    one = session(proxy.address)
    unknown = pb.QueryRouteResponse(status=status(pb.Code.TOPIC_NOT_FOUND, "CODE: 17"))
    for returned, condition in (
        (unknown, "TOPIC_NOT_FOUND"),
        (pb.QueryRouteResponse(status=OK), "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE"),
    ):
        proxy.handlers_by_method["QueryRoute"] = partial(return_route, returned)
        error = failure(lambda: one.find_brokers("T"))
        assert isinstance(error, RouteError)
        assert (error.condition, error.context["topic"]) == (condition, "T")


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [
        ([], "broker 'broker-a' has no address"),
        ([pb.Address(host="", port=8081)], "an address has the port 8081 and the host ''"),
        ([pb.Address(host="h", port=65_536)], "an address has the port 65536 and the host 'h'"),
        ([pb.Address(host="h", port=-1)], "an address has the port -1 and the host 'h'"),
        ([pb.Address(host="h" * 256, port=1)], f"an address has the port 1 and the host '{'h' * 255}'"),
    ],
    ids=["none", "no host", "large port", "negative port", "long host"],
)
def test_a_route_to_nowhere_is_an_error(
    proxy: ScriptedProxy, session: SessionOf, addresses: list[pb.Address], problem: str
) -> None:
    """Without an address the thread that refreshes routes ended with a ZeroDivisionError; ports were taken modulo
    65536."""
    broker = pb.Broker(name="broker-a", endpoints=pb.Endpoints(addresses=addresses))
    returned = pb.QueryRouteResponse(status=OK, message_queues=[proxy.queue(), proxy.queue(broker=broker)])
    proxy.handlers_by_method["QueryRoute"] = partial(return_route, returned)
    assert str(failure(lambda: session(proxy.address).find_brokers("T"))) == (
        f"[ROCKETMQ_MALFORMED_RESPONSE.BODY] Cannot decode the body of a route of topic 'T': {problem}. Report this "
        "error with the version of the server."
    )


def return_route(returned: pb.QueryRouteResponse, _request: object) -> pb.QueryRouteResponse:
    return returned


def test_a_topic_whose_messages_are_in_order_is_refused(proxy: ScriptedProxy, session: SessionOf) -> None:
    in_order = proxy.queue(accept_message_types=[pb.MessageType.FIFO])
    proxy.handlers_by_method["QueryRoute"] = lambda _: pb.QueryRouteResponse(status=OK, message_queues=[in_order])
    assert "Topic 'T' is FIFO" in str(failure(lambda: session(proxy.address).find_brokers("T")))
    both = proxy.queue(accept_message_types=[pb.MessageType.NORMAL, pb.MessageType.FIFO])
    proxy.handlers_by_method["QueryRoute"] = lambda _: pb.QueryRouteResponse(status=OK, message_queues=[both])
    assert session(proxy.address).find_brokers("T") == {"broker-a": (proxy.address,)}


# ------------------------------------------------------------------------------------------------------------- messages


def test_messages_come_with_what_the_proxy_names_them_by(proxy: ScriptedProxy, known: Session) -> None:
    messages = [received("h1", b"one"), received("h2", b"two")]
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [pb.ReceiveMessageResponse(status=OK), *messages]
    assert receive(known) == [
        ProxiedMessage(one.message.system_properties.receipt_handle, one.SerializeToString(), 0, 0) for one in messages
    ]
    request = proxy.requests_received[-1].request
    assert (request.group.name, request.message_queue.topic.name, request.message_queue.broker.name) == (
        "g",
        "T",
        "broker-a",
    )
    assert (request.message_queue.id, request.batch_size, request.filter_expression.expression) == (
        -1,
        32,
        "TagA || TagB",
    )
    assert request.invisible_duration.ToMilliseconds() == 60_000
    assert request.long_polling_timeout.ToMilliseconds() == 1_500


def test_that_there_is_nothing_is_no_error(known: Session) -> None:
    assert receive(known) == []


def test_what_came_before_a_failure_is_ours(proxy: ScriptedProxy, known: Session) -> None:
    def break_off(_: object) -> Iterator[object]:
        yield pb.ReceiveMessageResponse(status=OK)
        yield received("h1")
        raise Ended(grpc.StatusCode.UNAVAILABLE, "going down")

    proxy.handlers_by_method["ReceiveMessage"] = break_off
    (one,), broken_off = response(known)
    assert one.handle == "h1"
    assert broken_off is not None
    assert "going down" in str(broken_off)
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [received("h2"), pb.ReceiveMessageResponse(status=NOTHING)]
    (one,), whole = response(known)
    assert (one.handle, whole) == ("h2", None)


@pytest.mark.parametrize(
    "responses",
    [
        pytest.param([received("h")] * 33, id="more messages than were asked for"),
        pytest.param([received("h", bytes(30 << 20))] * 5, id="more bytes than a task carries"),
        pytest.param([bytes((128 << 20) + 1)], id="one message of gRPC with as many"),
    ],
)
def test_responses_beyond_the_limit_are_an_error(
    proxy: ScriptedProxy, known: Session, responses: list[pb.ReceiveMessageResponse | bytes]
) -> None:
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: responses
    assert str(failure(lambda: receive(known))) == (
        f"[ROCKETMQ_RESPONSE_TOO_LARGE] {proxy.address} returned more messages for ReceiveMessage than requested, "
        "or more than 134217728 bytes. Check that the address is that of a RocketMQ 5 proxy."
    )


def test_responses_without_messages_are_small(proxy: ScriptedProxy, session: SessionOf) -> None:
    """Of entries of two bytes, 128 MiB took 4 GB of memory."""
    entries = b"\x12\x00" * (2 << 20) + b"\x12\x00"
    one = session(proxy.address, timeout_ms=10_000)
    proxy.handlers_by_method["QueryRoute"] = lambda _: entries
    proxy.handlers_by_method["Telemetry"] = lambda _: [entries]
    for request, call in (("QueryRoute", lambda: one.find_brokers("T")), ("Telemetry", one.keep_alive)):
        error = failure(call)
        assert error.condition == "RESPONSE_TOO_LARGE"
        assert (error.context["request"], error.context["limit_bytes"]) == (request, 4 << 20)


def test_a_message_has_few_bytes_beside_its_body(proxy: ScriptedProxy, known: Session) -> None:
    """Of empty keys, of two bytes each, 126 MiB took 1,780 MiB of the driver's memory."""
    of_keys = received("h", bytes(2 << 20))
    of_keys.message.system_properties.keys.extend([""] * (1 << 20))
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [received("h1", bytes(5 << 20)), of_keys]
    (one,), broken_off = response(known)
    assert one.handle == "h1"
    assert str(broken_off) == (
        f"[ROCKETMQ_MALFORMED_RESPONSE.BODY] Cannot decode the body of a response of {proxy.address} to "
        "ReceiveMessage: bytes of a received message beside its body: 2097170, at most 1048576 are accepted. Report "
        "this error with the version of the server."
    )


@pytest.mark.parametrize(
    "parts",
    [
        (b"\x12\x00", b"\x12\x00"),
        (received("h0").SerializeToString(), received("h", queue_id=7).SerializeToString()),
        (pb.ReceiveMessageResponse(status=OK).SerializeToString(), received("h").SerializeToString()),
        (received("h").SerializeToString(), b"\x1a\x00"),
        (b"\x92\x00\x02\x22\x00",),
    ],
    ids=["empty", "two messages", "a status before", "an unknown field behind", "a long tag"],
)
def test_a_response_has_one_message_however_it_is_written(
    proxy: ScriptedProxy, known: Session, parts: tuple[bytes, ...]
) -> None:
    """Of two bytes each, 1 MiB of one response was one message, and 524,288 rows."""
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [b"".join(parts)]
    merged = pb.ReceiveMessageResponse.FromString(b"".join(parts)).message
    (one,) = receive(known)
    (alone,) = pb.ReceivedMessages.FromString(one.record).messages
    assert alone == merged
    assert (one.handle, one.queue_id) == (merged.system_properties.receipt_handle, merged.system_properties.queue_id)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts the process's descriptors")
def test_no_connection_is_left_after_a_response_that_was_not_read_to_its_end(
    proxy: ScriptedProxy, session: SessionOf
) -> None:
    """gRPC kept it open after ``close``, until the process ended."""
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [b"\xff"] * 10
    before = descriptors()
    for _ in range(10):
        one = session(proxy.address)
        one.keep_alive()
        assert failure(partial(receive, one)).condition == "MALFORMED_RESPONSE.BODY"
        one.close()
    eventually(lambda: descriptors() <= before + 4, "closed connections")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_compressed_responses_are_not_unpacked(session: SessionOf) -> None:
    """700 kB of gzip are 2.3 GB; we ask for none. On a busy machine gRPC passes the bytes on, still packed, before it
    refuses them."""
    refused, still_packed = "it is compressed, which is not supported", "Error parsing message with type"
    with ScriptedProxy(compression=grpc.Compression.Gzip) as proxy:
        error = failure(session(proxy.address).keep_alive)
        assert error.condition == "MALFORMED_RESPONSE.BODY"
        assert str(error.context["problem"]).startswith((refused, still_packed))


def test_commands_after_the_settings_are_not_kept(proxy: ScriptedProxy, session: SessionOf) -> None:
    are_sent = threading.Event()

    def commands(return_route: pb.TelemetryCommand) -> Iterator[pb.TelemetryCommand]:
        yield from [pb.TelemetryCommand(status=OK, settings=return_route.settings)] * 100
        are_sent.set()

    proxy.handlers_by_method["Telemetry"] = commands
    one = session(proxy.address)
    one.keep_alive()
    assert are_sent.wait(WAIT_S)
    one.keep_alive()  # over the same connection
    assert one._telemetry is not None
    assert one._telemetry._received.qsize() == 0


def test_a_response_that_cannot_be_read_is_an_error(proxy: ScriptedProxy, known: Session) -> None:
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [b"\xff\xff\xff"]
    assert failure(lambda: receive(known)).condition == "MALFORMED_RESPONSE.BODY"


@pytest.mark.parametrize(
    ("code", "remark", "condition"),
    [
        (pb.Code.ILLEGAL_INVISIBLE_TIME, "the invisibleTime is too small. min is 10000", "INVALID_INVISIBLE_DURATION"),
        (pb.Code.UNAUTHORIZED, "check signature failed", "CREDENTIALS_REJECTED"),
        (pb.Code.CONSUMER_GROUP_NOT_FOUND, "", "GROUP_NOT_FOUND.PROXY"),
        (pb.Code.TOO_MANY_REQUESTS, "polling full", "PROXY_UNAVAILABLE"),
        (pb.Code.ILLEGAL_FILTER_EXPRESSION, "no", "FILTER_EXPRESSION_INVALID"),
    ],
)
def test_a_refusal_is_what_the_code_means(
    proxy: ScriptedProxy, known: Session, code: pb.Code, remark: str, condition: str
) -> None:
    proxy.handlers_by_method["ReceiveMessage"] = lambda _: [pb.ReceiveMessageResponse(status=status(code, remark))]
    assert failure(lambda: receive(known)).condition == condition


def test_acknowledgements_go_together_and_each_has_its_own_response(proxy: ScriptedProxy, known: Session) -> None:
    entries_of = [
        OK,
        status(pb.Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired"),
        status(pb.Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal"),
        status(pb.Code.PROXY_TIMEOUT, "slow"),
        status(pb.Code.INVALID_RECEIPT_HANDLE, "cannot find broker broker-a"),
    ]
    proxy.handlers_by_method["AckMessage"] = lambda return_route: of_entries(return_route, entries_of)
    first, second, third, *failed = known.submit_ack("T", ["a", "b", "c", "d", "e"])()
    assert (first, second, third) == (True, False, False)
    assert [one.condition for one in failed if isinstance(one, BrokerError)] == ["PROXY_UNAVAILABLE"] * 2
    request = proxy.requests_received[-1].request
    assert (request.group.name, request.topic.name) == ("g", "T")
    assert [entry.receipt_handle for entry in request.entries] == ["a", "b", "c", "d", "e"]


def test_an_acknowledgement_that_is_refused_as_a_whole_is_refused_for_each(
    proxy: ScriptedProxy, known: Session
) -> None:
    refused = status(pb.Code.UNAUTHORIZED, "check signature failed")
    proxy.handlers_by_method["AckMessage"] = lambda _: pb.AckMessageResponse(status=refused)
    outcomes = known.submit_ack("T", ["a", "b"])()
    assert [one.condition for one in outcomes if isinstance(one, RocketMQError)] == ["CREDENTIALS_REJECTED"] * 2


def test_a_changed_message_is_known_by_another_handle_or_no_more(proxy: ScriptedProxy, known: Session) -> None:
    assert known.submit_change_invisible_duration("T", "h", 7_000, suspend=True)() == "h'"
    request = proxy.requests_received[-1].request
    assert (request.group.name, request.topic.name, request.receipt_handle, request.suspend) == ("g", "T", "h", True)
    assert request.invisible_duration.ToMilliseconds() == 7_000
    late = status(pb.Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")
    proxy.handlers_by_method["ChangeInvisibleDuration"] = lambda _: pb.ChangeInvisibleDurationResponse(status=late)
    assert known.submit_change_invisible_duration("T", "h", 7_000, suspend=False)() is None
    busy = status(pb.Code.TOO_MANY_REQUESTS, "flow limit")
    proxy.handlers_by_method["ChangeInvisibleDuration"] = lambda _: pb.ChangeInvisibleDurationResponse(status=busy)
    assert (
        failure(known.submit_change_invisible_duration("T", "h", 7_000, suspend=False)).condition == "PROXY_UNAVAILABLE"
    )


# -------------------------------------------------------------------------------------------------- what is not reached


def test_a_closed_port_is_logged_and_the_next_address_is_called(proxy: ScriptedProxy, session: SessionOf) -> None:
    one = session("127.0.0.1:1", proxy.address)
    assert str(failure(one.keep_alive)) == (
        "[ROCKETMQ_CONNECT_FAILED] Cannot connect to 127.0.0.1:1: Connection refused. Check the address, and "
        "that the server is running."
    )
    one.keep_alive()
    assert proxy.received_methods() == ["Telemetry"]


def test_a_client_that_was_cut_off_identifies_itself_again(session: SessionOf) -> None:
    with ScriptedProxy() as first, ScriptedProxy() as second:
        one = session(first.address, second.address)
        one.keep_alive()
        first.stop()
        assert failure(lambda: receive(one)).condition in {"CONNECT_FAILED", "CONNECTION_LOST"}
        one.keep_alive()
        assert receive(one) == []
        assert second.received_methods() == ["Telemetry", "ReceiveMessage"]


def test_a_client_that_was_closed_is_never_opened_again(proxy: ScriptedProxy, known: Session) -> None:
    """Somebody may be just looking where topics are while a query ends."""
    known.close()
    requests_received = len(proxy.requests_received)
    for call in (known.keep_alive, lambda: known.find_brokers("T"), known.keep_alive):
        error = failure(call)
        assert (error.condition, error.context["reason"]) == ("CONNECT_FAILED", "the client was stopped")
    assert len(proxy.requests_received) == requests_received


def test_a_call_over_a_connection_that_another_thread_has_just_closed_has_lost_it(proxy: ScriptedProxy) -> None:
    one = Connection(proxy.address, None, Identity("me", None), REQUEST_TIMEOUT_MS)
    one.close()
    calls: list[Callable[[], object]] = [
        lambda: one.call("Heartbeat", pb.HeartbeatRequest(), pb.HeartbeatResponse),
        lambda: list(one.stream("ReceiveMessage", pb.ReceiveMessageRequest(), REQUEST_TIMEOUT_MS)),
    ]
    assert [failure(call).condition for call in calls] == ["CONNECTION_LOST"] * 2


def test_before_it_is_known_no_call_is_possible(proxy: ScriptedProxy, session: SessionOf) -> None:
    assert failure(lambda: receive(session(proxy.address))).condition == "CONNECT_FAILED"
    assert proxy.requests_received == []


def read_and_send_nothing(accepted: socket.socket) -> None:
    while accepted.recv(1_000):
        pass


def test_a_server_that_does_not_respond_in_time_is_reported_as_that(
    serve: Callable[[Serve], str], session: SessionOf
) -> None:
    address = serve(read_and_send_nothing)
    error = failure(session(address, timeout_ms=300).keep_alive)
    assert error.condition in {"RESPONSE_TIMED_OUT", "CONNECT_FAILED"}  # it takes the connection, and no more
    assert error.context["address"] == address


def test_a_server_of_another_protocol_is_reported_as_no_proxy(session: SessionOf, server: ScriptedBroker) -> None:
    error = failure(session(server.listen()).keep_alive)
    assert isinstance(error, OptionError)
    assert error.condition == "NOT_A_GRPC_PROXY"


@pytest.mark.parametrize("is_unresponsive", [True, False], ids=["busy", "starting"])
def test_a_late_proxy_is_not_reported_as_a_server_of_another_protocol(
    serve: Callable[[Serve], str], is_unresponsive: bool
) -> None:
    """It responds to the second probe only, and by then with the settings that each gRPC server sends first. The query
    failed at once, with NOT_A_GRPC_PROXY."""
    is_late = [True]

    def respond(accepted: socket.socket) -> None:
        if is_late:
            is_late.pop()
            if not is_unresponsive:
                return
        else:
            accepted.sendall(b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + b"\x00\x04\x00\x10\x00\x00")
        while accepted.recv(1 << 16):
            pass

    address = serve(respond)
    lost = TransportError("CONNECTION_LOST", address=address, reason="x")
    assert probe_cause(lost, None) is lost


def test_a_grpc_server_of_something_else_is_reported_as_no_proxy(proxy: ScriptedProxy, session: SessionOf) -> None:
    def refuse(_: object) -> object:
        raise Ended(grpc.StatusCode.UNIMPLEMENTED, "unknown service")

    proxy.handlers_by_method["QueryRoute"] = refuse
    assert str(failure(lambda: session(proxy.address).find_brokers("T"))) == (
        f"[ROCKETMQ_NOT_A_GRPC_PROXY] {proxy.address} is not the gRPC address of a RocketMQ 5 proxy: it returned "
        "unknown service for QueryRoute. Set 'endpoints' to a proxy's gRPC address (port 8081 by default). Name "
        "servers belong in 'namesrvAddr'."
    )


# ----------------------------------------------------------------------------------------------------- keys, encryption


def test_each_call_is_signed_and_the_key_itself_is_not_sent(proxy: ScriptedProxy, session: SessionOf) -> None:
    keys = Credentials("ak", Secret("hunter2"), Secret("a token"))
    one = session(proxy.address, security=Security(keys))
    one.keep_alive()
    receive(one)
    one.submit_ack("T", ["a"])()
    assert len(proxy.requests_received) >= 3
    for requests_received in proxy.requests_received:
        assert requests_received.metadata["authorization"].startswith(
            "MQv2-HMAC-SHA1 Credential=ak, SignedHeaders=x-mq-date-time"
        )
        assert requests_received.metadata["x-mq-session-token"] == "a token"
        assert "hunter2" not in str(requests_received.metadata)


@pytest.fixture(scope="module")
def secured() -> Iterator[ScriptedProxy]:
    with ScriptedProxy(is_tls=True) as proxy:
        yield proxy


def keeps(one: Session) -> bool:
    one.keep_alive()
    return True


def test_calls_are_encrypted_with_a_certificate_that_is_trusted(secured: ScriptedProxy, session: SessionOf) -> None:
    assert keeps(session(secured.address, security=Security(tls=TRUSTING)))


def test_an_untrusted_certificate_is_refused_unless_the_check_is_off(
    secured: ScriptedProxy, session: SessionOf
) -> None:
    error = failure(session(secured.address, security=Security(tls=Tls())).keep_alive)
    assert error.condition == "TLS_CERTIFICATE_UNTRUSTED"
    assert keeps(session(secured.address, security=Security(tls=Tls(auth_server=False))))


def test_a_host_name_is_checked_unless_the_check_is_off(
    secured: ScriptedProxy, session: SessionOf, elsewheres: tuple[ScriptedProxy, Path]
) -> None:
    elsewhere, certificate = elsewheres
    error = failure(session(elsewhere.address, security=Security(tls=Tls(str(certificate)))).keep_alive)
    assert error.condition == "TLS_HOSTNAME_MISMATCH"
    unchecked = Tls(str(certificate), check_host_name=False)
    assert keeps(session(elsewhere.address, security=Security(tls=unchecked)))
    assert (
        failure(session(secured.address, security=Security(tls=unchecked)).keep_alive).condition
        == "TLS_CERTIFICATE_UNTRUSTED"
    )


@pytest.fixture
def elsewheres(tmp_path: Path) -> Iterator[tuple[ScriptedProxy, Path]]:
    """A proxy whose certificate names another host, and that."""
    key, certificate = tmp_path / "other.key", tmp_path / "other.crt"
    of_host = ["-subj", "/CN=other", "-addext", "subjectAltName=DNS:*.elsewhere.example"]
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *of_host]
    subprocess.run([*making, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    with ScriptedProxy(is_tls=True, certificate=certificate) as proxy:
        yield proxy, certificate


def test_a_server_that_wants_tls_or_wants_none_is_reported(
    secured: ScriptedProxy, proxy: ScriptedProxy, session: SessionOf
) -> None:
    assert failure(session(secured.address).keep_alive).condition == "TLS_REQUIRED"
    assert failure(session(proxy.address, security=Security(tls=TRUSTING)).keep_alive).condition == "TLS_NOT_SUPPORTED"


def test_a_client_authenticates_where_it_is_required(session: SessionOf) -> None:
    mine = Tls(str(CERTIFICATE), str(CERTIFICATE), str(CERTIFICATE.with_suffix(".key")))
    with ScriptedProxy(is_tls=True, client_ca=True) as proxy:
        assert keeps(session(proxy.address, security=Security(tls=mine)))
        assert failure(session(proxy.address, security=Security(tls=TRUSTING)).keep_alive).condition == "CONNECT_FAILED"


def test_a_server_that_reports_that_it_requires_a_certificate_is_accepted(
    serve: Callable[[Serve], str], session: SessionOf
) -> None:
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))
    asking.load_verify_locations(CERTIFICATE)
    asking.verify_mode = ssl.CERT_REQUIRED
    asking.set_alpn_protocols(["h2"])
    address = serve(lambda accepted: asking.wrap_socket(accepted, server_side=True).close())
    error = failure(session(address, security=Security(tls=TRUSTING)).keep_alive)
    assert error.condition == "TLS_CLIENT_CERTIFICATE_REJECTED"


def test_a_file_that_cannot_be_used_is_named(secured: ScriptedProxy, session: SessionOf, tmp_path: Path) -> None:
    missing = Tls(str(tmp_path / "none.pem"))
    error = failure(session(secured.address, security=Security(tls=missing)).keep_alive)
    assert (error.condition, error.context["option"]) == ("TLS_FILE_UNUSABLE", "tlsTrustCertPath")
