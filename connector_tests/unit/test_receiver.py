"""What a query holds of its group's messages, where brokers or name servers are silent, busy or away."""

from __future__ import annotations

import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from queue import SimpleQueue

import pytest

from connector_tests.support.group_bodies import cluster_info
from connector_tests.support.message_bytes import Record, pull_body
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.sharing_servers import (
    BROKER_TIMEOUT_MS,
    INVISIBLE_MS,
    TOPIC,
    SharingBroker,
    SharingServers,
    handle_of,
)
from connector_tests.support.streams import TIMEOUT_S, eventually
from connector_tests.support.tcp_server import never_accepting
from connector_tests.support.timeouts import PATIENT, TIMEOUT_FACTOR
from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import split_address
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.ack_scheduler import MAX_CONCURRENT_CALLS
from rocketmq_spark.pop.receipt_handles import BrokerHandle, OpaqueHandle, ReceivedMessage
from rocketmq_spark.pop.receive_scheduler import MAX_MESSAGES_PER_REQUEST, Target
from rocketmq_spark.pop.receiver import CLOSING_S, RELEASING, STOP_TIMEOUT_MS, TICK_S, Receiver
from rocketmq_spark.pop.remoting_transport import RemotingTransport
from rocketmq_spark.pop.retention_check import RetentionCheck
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.remoting.stream import Buffer, Stream
from rocketmq_spark.remoting.tcp import TcpStream
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode
from rocketmq_spark.wire.remoting.frame import FrameBuffer

SHORT_MS = 6_000
THIRD_LINE_S = 45
MEANWHILE_S = 15.0
"""Of a request to a broker that may take 20."""

SLACK_S = 20.0 * TIMEOUT_FACTOR
"""Machines of continuous integration stand still for some seconds."""


@contextmanager
def receiver(options: ReadOptions, *, starts: bool = True, is_available_now: bool = False) -> Iterator[Receiver]:
    one = Receiver(options, transport_of(options), is_available_now=is_available_now)
    try:
        if starts:
            one.start()
        yield one
    finally:
        one.stop()


def has(one: Receiver, count: int, timeout_s: float = TIMEOUT_S) -> None:
    eventually(lambda: one.count(MessageState.PREFETCHED) == count, f"{count} messages received", timeout_s)


# ------------------------------------------------------------------------------------------- an earlier start's batch


def test_what_keeps_an_earlier_batch_from_being_released_is_logged_and_stop_ends_the_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was silent until clusterTimeoutMs was over, then named the broker, and could not be stopped."""
    with SharingServers("a") as servers, ThreadPoolExecutor(1) as owner:
        servers.name_server.unresponsive_on(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        with receiver(servers.options(clusterTimeoutMs="300000"), starts=False) as one:
            waiting = owner.submit(one.release_logged, [handle_of("a", 0)])
            eventually(lambda: any("Waiting for the name servers" in line for line in caplog.messages), "a line")
            assert not any("Waiting for broker" in line for line in caplog.messages)
            began_s = time.monotonic()
            one.stop()
            with pytest.raises(TransportError, match="SOURCE_PROCESS_TERMINATED"):
                waiting.result(SLACK_S)
            assert time.monotonic() - began_s < STOP_TIMEOUT_MS / 1000 + CLOSING_S + SLACK_S


def test_an_earlier_batch_is_released_once_its_broker_responds_and_nothing_is_received_before() -> None:
    with SharingServers("a") as servers, ThreadPoolExecutor(1) as owner:
        broker = servers.brokers["a"]
        broker.messages = 3
        broker.server.unresponsive_on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
        with receiver(servers.options(), starts=False) as one:
            waiting = owner.submit(one.release_logged, [handle_of("a", 0), handle_of("a", 1)])
            eventually(lambda: [wait.resource for wait in one.outages] == ["broker a"], "a wait")
            assert one.counts.received == 0
            broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, broker.change)
            waiting.result(SLACK_S)
            assert one.counts.released == 2
            has(one, 3)


def test_a_run_to_the_end_awaits_what_went_back() -> None:
    """Brokers deliver it again some seconds later; the query would have ended without it."""
    with SharingServers("a") as servers:
        servers.brokers["a"].server.on(RequestCode.POP_MESSAGE, build_response(ResponseCode.POLLING_TIMEOUT))
        with receiver(servers.options(), is_available_now=True) as one:
            eventually(lambda: one.is_empty, "a broker without messages")
            one.release_logged([handle_of("a", 0)])
            assert not one.is_empty


def test_messages_of_a_deleted_topic_count_as_acknowledged() -> None:
    of_deleted = BrokerHandle(handle_of("a", 0).pop_check_point._replace(topic="gone"), 0)
    with SharingServers("a") as servers, closing(transport_of(servers.options(**PATIENT))) as transport:
        servers.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
        servers.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster_info({"a": "127.0.0.1:1"}))
        assert transport.acknowledge([of_deleted]) == [True]
        assert transport.change_invisible_duration([of_deleted], 1, suspend=True) == [None]


def test_route_without_a_master_of_a_topic_that_is_not_subscribed_is_requested_again() -> None:
    """Routes of subscribed topics are refreshed in the background, of others they are not."""
    of_another = BrokerHandle(handle_of("a", 0).pop_check_point._replace(topic="another"), 0)
    with SharingServers("a") as servers, closing(transport_of(servers.options(**PATIENT))) as transport:

        def without_master(request: RemotingCommand) -> RemotingCommand:
            servers.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.SYSTEM_ERROR))
            return build_response(body=bytes(servers.route(request).body).replace(b'"0"', b'"1"'))

        servers.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, without_master)
        (failed,) = transport.acknowledge([of_another])
        assert isinstance(failed, RouteError)
        assert failed.condition == "MASTER_UNAVAILABLE"
        servers.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, servers.route)
        assert transport.acknowledge([of_another]) == [True]


def test_a_topic_that_had_a_route_is_not_reported_as_one_that_does_not_exist_by_later_transports_either() -> None:
    """The name servers forget a killed broker's topics. Whoever sends rows back has another transport each time."""
    with SharingServers("a") as servers, closing(transport_of(servers.options(**PATIENT))) as transport:
        assert transport.refresh_routes() == {}
        servers.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
        with closing(transport_of(servers.options(**PATIENT))) as later:
            found = [one.refresh_routes()[TOPIC].condition for one in (transport, later)]
        assert found == ["TOPIC_UNAVAILABLE.NO_ROUTE"] * 2
        assert transport.targets() == [Target(TOPIC, "a")]


def test_handles_of_an_unreachable_broker_are_not_changed() -> None:
    """None would be a topic that is gone, and each message counted as released."""
    with SharingServers("a") as servers, closing(transport_of(servers.options())) as transport:
        servers.move("a", "127.0.0.1:1")
        transport.refresh_routes()
        outcomes = transport.change_invisible_duration([handle_of("a", 0), handle_of("a", 1)], 1, suspend=True)
        assert [type(outcome) for outcome in outcomes] == [TransportError, TransportError]


def test_what_cannot_be_released_is_an_error_and_may_be_tried_again() -> None:
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        broker.server.unresponsive_on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
        with receiver(servers.options(clusterTimeoutMs="5000"), starts=False) as one:
            with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*No successful response from broker a"):
                one.release_logged([handle_of("a", 0)])
            broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, broker.change)
            eventually(lambda: not one.outages, "an answer")
            one.release_logged([handle_of("a", 0)])
            assert one.counts.released in {1, 2}, "it was tried by itself meanwhile"


def test_handles_that_no_broker_gave_out_need_no_request() -> None:
    """In a spool, whose query went on over the other protocol."""
    with SharingServers("a") as servers, receiver(servers.options(), starts=False) as one:
        one.release_logged([OpaqueHandle(TOPIC, "a", "a gateway's"), handle_of("a", 1)])
        one.mark_logged_completed([OpaqueHandle(TOPIC, "a", "a gateway's"), handle_of("a", 2)])
        assert (one.counts.released, one.counts.acknowledged, one.counts.expired) == (1, 1, 1)


def test_what_an_earlier_start_left_is_released_once_its_broker_responds() -> None:
    """It was tried once, and a run to the end ended as successful without it."""
    count = 2 * MAX_CONCURRENT_CALLS
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        for code, response in (
            (RequestCode.POP_MESSAGE, ResponseCode.POLLING_TIMEOUT),
            (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ResponseCode.SYSTEM_BUSY),
        ):
            broker.server.on(code, build_response(response))
        with receiver(servers.options(**PATIENT), is_available_now=True) as one:
            left_over = [handle_of("a", offset) for offset in range(count)]
            one.try_release([*left_over, OpaqueHandle(TOPIC, "a", "a gateway's")])
            one._receive_scheduler._redelivery_until_ms = None
            eventually(lambda: one._receive_scheduler.are_all_empty, "a broker without messages")
            assert not one.is_empty
            assert one.counts.released == 0
            broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, broker.change)
            eventually(lambda: one.counts.released == count, "what was left, and not what no broker has")


def test_what_an_earlier_start_left_and_cannot_be_released_does_not_keep_the_query_from_its_end() -> None:
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, build_response(ResponseCode.SYSTEM_BUSY))
        with receiver(servers.options(**PATIENT)) as one:
            one.try_release([handle_of("a", 0)])
            eventually(lambda: one._workers.busy == {RELEASING}, "a pause")
            one.stop()
            assert (one._workers.busy, one.counts.released) == (set(), 0)


@pytest.mark.parametrize(("loss", "timeout"), [(lambda _: None, {}), (SharingBroker.hang_up, PATIENT)])
def test_release_whose_response_is_lost_is_not_repeated(
    loss: Callable[[SharingBroker], None], timeout: dict[str, str]
) -> None:
    """The broker had made the change, and a second one had it deliver the message twice."""
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        requests: SimpleQueue[RemotingCommand] = SimpleQueue()
        broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, requests.put)
        with receiver(servers.options(clusterTimeoutMs="2000", **timeout)) as one:
            one.try_release([handle_of("a", 0)])
            requests.get(timeout=TIMEOUT_S)
            loss(broker)
            eventually(lambda: RELEASING not in one._workers.busy, "the end of the release")
            assert (requests.qsize(), one.counts.released) == (0, 0)


class BreakingOnce(TcpStream):
    """It breaks while the second change of an invisible duration is sent over it and its successors."""

    change_count = 0

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        frames = FrameBuffer("the client")
        frames.feed(bytes(data))
        frame = frames.next_frame()
        if frame is not None and decode(frame).code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
            BreakingOnce.change_count += 1
            if BreakingOnce.change_count == 2:
                raise TransportError("CONNECTION_LOST", address=self.address, reason="by the test")
        super().sendall(data, timeout_ms)


def connect_breaking_once(address: str, _timeout_ms: int) -> Stream:
    return BreakingOnce(socket.create_connection(split_address(address)), address)


def test_release_that_was_not_sent_after_another_lost_the_connection_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It had the error of the other one, whose response may be lost: what an earlier start had left stayed invisible,
    and a query that runs once ended without it."""
    monkeypatch.setattr(BreakingOnce, "change_count", 0)
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        options = servers.options(**PATIENT)
        one = Receiver(options, RemotingTransport(options, connect=connect_breaking_once))
        try:
            one.try_release([handle_of("a", offset) for offset in range(5)])
            eventually(lambda: RELEASING not in one._workers.busy, "the end of the release")
        finally:
            one.stop()
        sent = Counter(int(request.fields["offset"]) for request in broker.after_change)
        assert [sent[offset] for offset in range(1, 5)] == [0, 1, 1, 1]
        assert one.counts.released >= 3


@pytest.mark.parametrize(("age_ms", "released"), [(0, 1), (INVISIBLE_MS, 0)])
def test_release_is_repeated_until_the_message_expires(age_ms: int, released: int) -> None:
    """Its broker delivered it then, and once more for the release."""
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        broker.busy_once(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
        with receiver(servers.options(**PATIENT)) as one:
            one.try_release([handle_of("a", 0, int(time.time() * 1000) - age_ms)])
            eventually(lambda: RELEASING not in one._workers.busy, "the end of the release")
            assert (len(broker.after_change), one.counts.released) == (released, released)


def test_stop_ends_a_release_after_the_requests_in_flight() -> None:
    """It waited for those of all messages that an earlier start had left."""
    count = 2 * MAX_CONCURRENT_CALLS
    is_stopping = threading.Event()
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]

        def change(request: RemotingCommand) -> RemotingCommand:
            is_stopping.wait(TIMEOUT_S)
            return broker.change(request)

        broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change)
        with receiver(servers.options(**PATIENT)) as one:
            one.try_release([handle_of("a", offset) for offset in range(count)])
            one._ack_scheduler.begin_stop()
            is_stopping.set()
            eventually(lambda: RELEASING not in one._workers.busy, "the end of the release")
            assert one.counts.released <= MAX_CONCURRENT_CALLS


def test_a_wait_ends_at_once_where_there_is_a_message() -> None:
    """It lasted until something else changed."""
    with (
        SharingServers("a") as servers,
        ThreadPoolExecutor(1) as owner,
        receiver(servers.options(), starts=False) as one,
    ):
        one._unacked.add_received([ReceivedMessage(handle_of("a", 0), memoryview(b"x"))], now_ms=0)
        owner.submit(one.wait, 10 * SLACK_S).result(SLACK_S)


# ------------------------------------------------------------------------------------------- who is silent


def test_an_unresponsive_broker_holds_up_neither_renewals_nor_acknowledgements_of_others() -> None:
    with SharingServers("a", "b") as servers:
        unresponsive, healthy = servers.brokers["a"], servers.brokers["b"]
        unresponsive.messages, healthy.messages = 20, 20
        options = servers.options(brokerTimeoutMs="60000", invisibleDurationMs="20000")
        with receiver(options) as one:
            has(one, 40)
            for code in (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, RequestCode.BATCH_ACK_MESSAGE):
                unresponsive.server.unresponsive_on(code)
            eventually(lambda: one.counts.extended == 20, "those of the healthy one are renewed")
            assert len(one.start_batch(1, 100)) == 20, "nobody knows yet what became of the others"
            one.mark_completed(1)
            assert (one.counts.acknowledged, one.counts.expired) == (20, 0)


def test_an_unresponsive_name_server_holds_up_no_renewal() -> None:
    with SharingServers("a") as servers:
        servers.brokers["a"].messages = 5
        options = servers.options(brokerTimeoutMs=str(2 * SHORT_MS), invisibleDurationMs=str(SHORT_MS))
        with receiver(options) as one:
            has(one, 5)
            servers.name_server.unresponsive_on(RequestCode.GET_ROUTEINFO_BY_TOPIC)
            one._periodic_work.make_due(one._start_refresh)
            eventually(lambda: one.counts.extended >= 10, "all are renewed twice")
            assert (one.counts.expired, one.count(MessageState.PREFETCHED)) == (0, 5)


def test_outage_of_a_broker_ends_though_others_leave_no_space_for_messages() -> None:
    """It was polled no more, and after clusterTimeoutMs one failed poll ended a healthy query that wrote slowly."""
    with SharingServers("a", "b") as servers:
        servers.brokers["a"].messages = 1
        other = servers.brokers["b"].server
        other.on(RequestCode.POP_MESSAGE, build_response(ResponseCode.SYSTEM_BUSY, remark="by the test"))
        with receiver(servers.options(maxOffsetsPerTrigger="1")) as one:
            has(one, 1)
            eventually(lambda: [outage.resource for outage in one.outages] == ["broker b"], "an outage")
            other.on(RequestCode.POP_MESSAGE, build_response(ResponseCode.POLLING_TIMEOUT))
            eventually(lambda: not one.outages, "its end")
            assert one.count(MessageState.PREFETCHED) == 1


def test_a_broker_that_accepts_no_connection_delays_no_other() -> None:
    """The receiver's thread connected, for as long as brokerTimeoutMs, and no wait was reported meanwhile."""
    with SharingServers("a", "b") as servers, receiver(servers.options(brokerTimeoutMs="20000")) as one:
        missing, healthy = servers.brokers["a"], servers.brokers["b"]
        eventually(lambda: bool(missing.polls and healthy.polls), "both have been asked")
        with never_accepting() as address:
            servers.move("a", address)
            route_requests = servers.route_request_count
            one._periodic_work.make_due(one._start_refresh)
            eventually(lambda: servers.route_request_count > route_requests, "its new address is known")
            missing.session().reply(missing.polls[0], missing.given(1, 60_000))
            has(one, 1)
            healthy.session().reply(healthy.polls[0], healthy.given(2, 60_000))
            has(one, 3, MEANWHILE_S)
            assert one.outages == ()


def test_a_broker_that_does_not_report_its_retry_limit_delays_no_other() -> None:
    with SharingServers("a", "b") as servers:
        unresponsive, healthy = servers.brokers["a"], servers.brokers["b"]
        requested_limit: list[RemotingCommand] = []
        unresponsive.server.on(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, requested_limit.append)
        with receiver(servers.options(brokerTimeoutMs="20000")) as one:
            eventually(lambda: bool(unresponsive.polls and healthy.polls), "both have been asked")
            session = unresponsive.session()
            session.reply(unresponsive.polls[0], redelivered(unresponsive))
            eventually(lambda: bool(requested_limit), "it is asked for the limit")
            healthy.session().reply(healthy.polls[0], healthy.given(2, 60_000))
            has(one, 2, MEANWHILE_S)
            assert one.outages == ()
            session.reply(requested_limit[0], build_response(body=b'{"retryMaxTimes":16,"retryQueueNums":1}'))
            has(one, 3, MEANWHILE_S)


def test_exhausted_message_is_moved_to_the_dead_letter_topic_and_acknowledged() -> None:
    with SharingServers("a") as servers:
        broker, moved = servers.brokers["a"], list[RemotingCommand]()

        def store(request: RemotingCommand) -> RemotingCommand:
            moved.append(request)
            return build_response()

        limit = build_response(body=b'{"retryMaxTimes":0,"retryQueueNums":1}')
        broker.server.on(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, limit)
        broker.server.on(RequestCode.CONSUMER_SEND_MSG_BACK, store)
        with receiver(servers.options(**PATIENT)) as one:
            eventually(lambda: bool(broker.polls), "a poll")
            broker.session().reply(broker.polls[0], redelivered(broker))
            eventually(lambda: one.counts.acknowledged == 1, "an acknowledgement")
            assert (one.counts.dead_letters, one.count(MessageState.PREFETCHED)) == (1, 0)
    (request,) = moved
    assert request.fields["delayLevel"] == "-1"


def redelivered(broker: SharingBroker) -> RemotingCommand:
    """An answer with one message of the retry topic."""
    route_requests = broker.given(1, 60_000)
    places = {"startOffsetInfo": "1 0 0", "msgOffsetInfo": "1 0 0"}
    return replace(
        route_requests,
        fields={**route_requests.fields, **places},
        body=pull_body(Record(topic=TOPIC, reconsume_times=1)),
    )


@pytest.mark.parametrize(
    ("of", "method"), [(RemotingTransport, "_process_outcome"), (RetentionCheck, "report_deleted")]
)
def test_what_ends_a_poll_unexpectedly_is_raised_by_the_next_check(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, of: type, method: str
) -> None:
    """The poll counted as in flight for ever: its target was polled no more, and the query waited."""

    def unexpected(*_: object) -> None:
        raise LookupError("by the test")

    monkeypatch.setattr(of, method, unexpected)
    with SharingServers("a") as servers:
        servers.brokers["a"].messages = 1
        with receiver(servers.options(**PATIENT)) as one:
            eventually(lambda: one._failures.has_fatal_error, "the error of the poll")
            with pytest.raises(LookupError, match="by the test"):
                one.check()
    assert "INTERNAL_ERROR: Unexpected error of a poll; the query fails. Report it." in caplog.text


def test_a_message_is_ours_from_when_the_response_came_whenever_it_is_processed() -> None:
    """Who stood still for longer took it for one that was just received."""
    held, stands_still, released = threading.Event(), threading.Event(), threading.Event()

    def watch() -> None:
        if held.is_set():
            stands_still.set()
            released.wait(SLACK_S)

    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        options = servers.options(invisibleDurationMs=str(SHORT_MS))
        one = Receiver(options, transport_of(options), watch=watch)
        one.start()
        try:
            session = broker.session()
            eventually(lambda: bool(broker.polls), "a poll")
            held.set()
            stands_still.wait(SLACK_S)
            session.reply(broker.polls[-1], broker.given(4, SHORT_MS))
            over_s = time.monotonic() + 1.5 * SHORT_MS / 1000
            eventually(lambda: time.monotonic() > over_s, "their time is over")
            released.set()
            eventually(lambda: one.counts.expired == 4, "their time is over")
            assert (one.counts.received, one.count(MessageState.PREFETCHED)) == (4, 0)
        finally:
            released.set()
            one.stop()


# ------------------------------------------------------------------------------------------- the end


def test_the_end_has_a_limit_and_one_that_is_unresponsive_keeps_nothing_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with SharingServers("a", "b") as servers:
        unresponsive, healthy = servers.brokers["a"], servers.brokers["b"]
        unresponsive.messages, healthy.messages = 200, 50
        options = servers.options(brokerTimeoutMs="60000")
        with receiver(options) as one:
            has(one, 250)
            unresponsive.server.unresponsive_on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
            began_s = time.monotonic()
            one.stop()
            assert time.monotonic() - began_s < STOP_TIMEOUT_MS / 1000 + 2 * CLOSING_S + SLACK_S
            assert one.counts.released == 50
            assert (
                "MESSAGES_NOT_RELEASED: Cannot release 200 prefetched messages; their brokers redeliver them within "
                f"'invisibleDurationMs' ({options.invisible_duration_ms} ms). No action is required."
            ) in caplog.messages


def test_what_fails_for_a_moment_at_the_end_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        broker.messages = 10
        with receiver(servers.options()) as one:
            has(one, 10)
            broker.busy_once(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
            broker.busy_once(RequestCode.BATCH_ACK_MESSAGE)
            one.start_batch(1, 4)
            one.mark_completed(1)
            one.stop()
            assert (one.counts.acknowledged, one.counts.released) == (4, 6)
            assert not any("MESSAGES_NOT_RELEASED" in line for line in caplog.messages)


def test_what_a_poll_brings_while_the_query_ends_is_released() -> None:
    """Under traffic all polls that are on their way are answered a moment later."""
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        broker.messages = 1
        with receiver(servers.options()) as one:
            session = broker.session()
            has(one, 1)
            eventually(lambda: bool(broker.polls), "a poll")

            def change(request: RemotingCommand) -> RemotingCommand:
                if one.counts.received == 1:
                    session.reply(broker.polls[-1], broker.given(7, 60_000))
                return broker.change(request)

            broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change)
            one.stop()
            assert (one.counts.received, one.counts.released) == (8, 8)


def test_a_receiver_that_holds_nothing_ends_at_once() -> None:
    with SharingServers("a") as servers, receiver(servers.options()) as one:
        eventually(lambda: bool(servers.brokers["a"].polls), "a poll")
        began_s = time.monotonic()
        one.stop()
        assert time.monotonic() - began_s < STOP_TIMEOUT_MS / 2 / 1000 * TIMEOUT_FACTOR
    assert BROKER_TIMEOUT_MS < STOP_TIMEOUT_MS


def test_worker_that_starts_during_the_stop_is_joined() -> None:
    closed, ended = threading.Event(), list[bool]()

    def watch() -> None:
        closed.wait()

    class LateTransport(RemotingTransport):
        def refresh_routes(self) -> dict[str, RocketMQError]:
            one._thread.join()
            ended.append(closed.is_set())
            return {}

        def close(self) -> None:
            super().close()
            closed.set()

    with SharingServers("a") as servers:
        options = servers.options()
        one = Receiver(options, LateTransport(options), watch=watch)
        one.start()
        one.stop()
        assert ended == [True]


# ------------------------------------------------------------------------------------------- what expires


def test_the_thread_ends_though_another_took_what_woke_it() -> None:
    """As ``stop`` may while the machine is busy. The thread then waited for ever, and ``stop`` left it behind."""
    switch_interval_s = sys.getswitchinterval()
    with SharingServers("a") as servers, receiver(servers.options()) as one:
        one._has_routes.wait(TIMEOUT_S)
        try:
            sys.setswitchinterval(10 * TICK_S)
            one._inbox.put(None)
            one._process_pending()
            until_s = time.monotonic() + 2 * TICK_S
            while time.monotonic() < until_s:
                pass
        finally:
            sys.setswitchinterval(switch_interval_s)
        one.stop()
        assert not one._thread.is_alive()


def test_what_expires_is_logged_and_no_more_is_received_ahead_than_could_be_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A query made no progress, silently: what waited for a batch expired again and again."""
    with SharingServers("a") as servers:
        broker = servers.brokers["a"]
        broker.messages = 200
        broker.server.on(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, lambda _: build_response(ResponseCode.NO_MESSAGE))
        begin_s = time.monotonic()
        with receiver(servers.options(invisibleDurationMs="1000")) as one:
            eventually(lambda: one.counts.expired >= 200, "what was received is over")
            eventually(lambda: any("they may be processed twice" in line for line in caplog.messages), "a line")
            broker.messages = 10_000
            eventually(lambda: one.counts.expired >= 300, "the same again")
            assert one.count(MessageState.PREFETCHED) <= 5 * MAX_MESSAGES_PER_REQUEST, "and what was on its way"
    lines = [line for line in caplog.messages if "they may be processed twice" in line]
    assert len(lines) <= 2 + (time.monotonic() - begin_s) // THIRD_LINE_S
    assert re.search(r": broker=a count=\d+\. If these brokers respond, ", lines[0])
