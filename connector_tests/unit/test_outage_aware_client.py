"""Asking servers: who answers, who is left out, and what becomes of those that do not."""

from __future__ import annotations

import logging
from collections.abc import Collection

import pytest

from connector_tests.support.log_lines import text_of
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queues
from connector_tests.support.refusals import refused
from connector_tests.support.simulated_cluster import (
    MESSAGE_BYTES,
    Reach,
    SimulatedBroker,
    SimulatedCluster,
    SimulatedClusterClient,
    address_of,
)
from rocketmq_spark.consumer.cluster_api import BrokerApi, Future
from rocketmq_spark.consumer.outage_aware_client import OFFSET_DELETION_VERSION, OutageAwareClient
from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.consumer.subscribed_topics import SubscribedTopics
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.outage_log import NAME_SERVERS, Outage, broker_subject, topic_subject
from rocketmq_spark.remoting.prober import TOOLS_PROBER
from rocketmq_spark.remoting.proxied import behind_proxy
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.wire.remoting.codes import ResponseCode

LIMIT_MS, MISSING_MS = 60_000, 90_000
A0, A1 = queues(2, broker_name="a")
B0, B1 = queues(2, broker_name="b")
ALL = (A0, A1, B0, B1)
NO_TOPIC = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:9876")
UNRESPONSIVE_NAMES = TransportError("CONNECT_FAILED", address="n:9876", reason="refused")


class Case:
    """Servers of two brokers with two queues each, whose routes are known, and who is at which address."""

    def __init__(self, **others: dict[str, int]) -> None:
        """``others``: queue counts of other topics, by broker."""
        topics = ",".join((*others, "orders"))
        given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": topics}
        limits = {
            "clusterTimeoutMs": str(LIMIT_MS),
            "missingTopicTimeoutMs": str(MISSING_MS),
            "missingQueuesTimeoutMs": "30000",
        }
        options = ReadOptions.parse(given | limits)
        self.clock = ManualClock()
        self.cluster = SimulatedCluster("ab", self.clock)
        for topic, counts in (others | {"orders": {"a": 2, "b": 2}}).items():
            self.cluster.create_topic(topic, counts)
        self.client = SimulatedClusterClient(self.cluster, "us")
        self.routes = self.client.routes
        self.tracker = OutageTracker(SubscribedTopics(options), self.routes, self.clock)
        self.servers = OutageAwareClient(options, self.client, SubscribedTopics(options), self.tracker)
        self.servers.topic_routes.refresh()
        self.servers.query_bounds()

    @property
    def a(self) -> SimulatedBroker:
        return self.cluster.brokers["a"]

    @property
    def b(self) -> SimulatedBroker:
        return self.cluster.brokers["b"]

    @property
    def waited_for(self) -> dict[str, int | None]:
        """For how long in all, by subject."""
        return {
            wait.resource: None if wait.until_ms is None else wait.until_ms - wait.since_ms for wait in self.outages
        }

    @property
    def outages(self) -> tuple[Outage, ...]:
        self.tracker.raise_expired()
        return self.tracker.outages


@pytest.fixture
def case() -> Case:
    return Case()


def stored(broker: BrokerApi, queue: MessageQueue, *, offset: int) -> int | None:
    return broker.probe_store_times({queue: offset}, TOOLS_PROBER)[queue]


# ---------------------------------------------------------------------------------------------------- one broker


def test_a_server_that_responds_is_not_waited_for_and_gets_all_that_is_requested_with(case: Case) -> None:
    case.cluster.produce(A1, 3)
    assert case.servers.call("a", stored, A1, offset=2) == case.clock()
    assert case.outages == ()


def test_a_response_over_a_connection_that_replaced_the_verified_one_is_not_used(case: Case) -> None:
    case.cluster.produce(A1, 3)

    def restart_then_probe(broker: BrokerApi) -> int | None:
        case.a.restart()
        return stored(broker, A1, offset=2)

    assert case.servers.call("a", restart_then_probe) is None
    assert case.waited_for == {broker_subject("a"): LIMIT_MS}
    assert "CONNECTION_LOST" in case.outages[0].reason
    case.clock.advance(REQUEST_PAUSES.longest_ms)
    assert case.servers.call("a", stored, A1, offset=2) is not None
    assert case.outages == ()


def test_a_broker_of_no_route_is_not_called(case: Case) -> None:
    before = case.cluster.now
    assert case.servers.call("z", stored, A0, offset=0) is None
    assert case.cluster.now == before
    assert case.outages == ()


def test_an_unresponsive_broker_is_waited_for_and_left_alone_for_a_while(case: Case) -> None:
    case.cluster.produce(A0, 1)
    case.a.reach = Reach.UNRESPONSIVE
    assert case.servers.call("a", stored, A0, offset=0) is None
    assert case.waited_for == {broker_subject("a"): LIMIT_MS}
    assert "RESPONSE_TIMED_OUT" in case.outages[0].reason
    case.a.reach = Reach.UP
    before = case.cluster.now
    assert case.servers.call("a", stored, A0, offset=0) is None
    assert case.cluster.now == before
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert case.servers.call("a", stored, A0, offset=0) is not None
    assert case.outages == ()


def test_a_refusal_that_will_not_pass_is_raised_and_no_outage(case: Case) -> None:
    case.a.refusal = refused(ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        case.servers.call("a", stored, A0, offset=0)
    assert case.outages == ()


def test_each_broker_is_called_for_its_own_queues_and_one_that_is_unresponsive_is_omitted(case: Case) -> None:
    calls: list[tuple[MessageQueue, ...]] = []

    def call(broker: BrokerApi, of_broker: object) -> int:
        assert isinstance(of_broker, list)
        calls.append(tuple(of_broker))
        broker.probe_store_times(dict.fromkeys(of_broker, 0), TOOLS_PROBER)
        return len(calls)

    assert list(case.servers.call_sequentially([B1, A0, A1, B0], call)) == [1, 2]
    case.b.reach = Reach.UNRESPONSIVE
    assert list(case.servers.call_sequentially([B1, A0], call)) == [4]
    assert calls == [(B1, B0), (A0, A1), (B1,), (A0,)]


def of_group(broker: BrokerApi, of_broker: Collection[MessageQueue]) -> Future[dict[MessageQueue, int | None]]:
    return broker.submit_query_offsets("g", of_broker)


def test_each_broker_is_called_for_its_own_queues_all_in_the_time_of_one(case: Case) -> None:
    case.a.offsets[A0], case.b.offsets[B0] = 1, 2
    case.servers.call_each([A0, B0], of_group)
    case.client.round_trip_ms = 20
    began_ms = case.clock()
    reported = case.servers.call_each([B1, A0, A1, B0], of_group)
    assert reported == [([B1, B0], {B1: None, B0: 2}), ([A0, A1], {A0: 1, A1: None})]
    assert case.clock() - began_ms == 20


def test_of_brokers_called_at_once_the_unresponsive_are_omitted_and_called_again_after_a_pause(case: Case) -> None:
    case.a.reach = Reach.UNRESPONSIVE
    assert [queues for queues, _ in case.servers.call_each([B1, A0], of_group)] == [[B1]]
    assert case.waited_for == {broker_subject("a"): LIMIT_MS}
    case.a.reach = Reach.UP
    before = case.cluster.now
    assert case.servers.call_each([A0], of_group) == []
    assert case.cluster.now == before
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert case.servers.call_each([A0], of_group) == [([A0], {A0: None})]
    assert case.outages == ()


def test_a_broker_called_at_once_with_others_that_refuses_for_good_is_raised(case: Case) -> None:
    case.a.refusal = refused(ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        case.servers.call_each([A0, B0], of_group)


def test_any_broker_is_one_that_was_responsive_and_if_it_is_now_that_is_no_outage(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    def name(broker: BrokerApi) -> dict[MessageQueue, int | None]:
        return broker.submit_query_offsets("g", [A0]).result()

    case.a.offsets[A0], case.b.offsets[B0] = 1, 2
    assert case.servers.call_any(name) == {A0: 1}
    case.a.reach = Reach.UNRESPONSIVE
    with caplog.at_level(logging.DEBUG, "rocketmq_spark.consumer.outage_aware_client"):
        assert case.servers.call_any(name) is None
    assert [text_of(record.getMessage()).partition(": ")[0] for record in caplog.records] == [
        "Request to address=a:10911 failed"
    ]
    assert case.outages == ()
    case.servers.call("a", stored, A0, offset=0)
    assert case.servers.call_any(name) == {A0: 2}
    case.b.reach = Reach.UNRESPONSIVE
    case.servers.call("b", stored, B0, offset=0)
    before = case.cluster.now
    assert case.servers.call_any(name) is None
    assert case.cluster.now == before, "nobody is left to be asked"


def test_an_acknowledged_update_and_one_not_sent_are_no_warning(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    assert case.servers.try_call(address_of("a"), lambda broker: broker.unregister("me", "g"))
    assert caplog.messages == []
    case.a.refusal = refused(ResponseCode.SYSTEM_BUSY)
    assert not case.servers.try_call(address_of("a"), lambda broker: broker.unregister("me", "g"))
    assert caplog.messages == [], "of a broker that is gone, say, at whose old address a query unregisters too"
    caplog.set_level(logging.DEBUG)
    case.servers.try_call(address_of("a"), lambda broker: broker.unregister("me", "g"))
    assert caplog.messages == [f"REQUEST_FAILED: Optional request to address=a:10911 failed: {case.a.refusal}"]


def test_a_link_is_the_address_and_how_often_it_was_connected_to(case: Case) -> None:
    case.a.connection_number = 3
    assert [case.servers.link(name) for name in ("a", "b", "z")] == [(address_of("a"), 3), (address_of("b"), 1), None]


def test_a_connection_to_a_proxy_is_no_link_to_the_broker_behind_it(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker may be another one by now, or have forgotten what it confirmed, and the connection is as it was."""
    route = behind_proxy(case.routes.routes["orders"])
    monkeypatch.setattr(case.client, "query_topic_routes", lambda _: {"orders": route})
    case.servers.topic_routes.refresh()
    assert [case.servers.link(name) for name in ("a", "b")] == [None, None]


def test_a_broker_of_a_version_that_was_not_seen_to_delete_offsets_may_keep_them(case: Case) -> None:
    case.a.version, case.b.version = OFFSET_DELETION_VERSION - 1, OFFSET_DELETION_VERSION
    assert [case.servers.deletes_offsets(name) for name in ("a", "b", "z")] == [False, True, False]


# ---------------------------------------------------------------------------------------------------- many at once


def stats(case: Case, *, ignores_missing_topics: bool = False) -> dict[str, int]:
    """How many queues each broker reports of."""
    reported = case.servers.call_concurrently(
        {"first": "a", "second": "b"},
        lambda broker, _: broker.submit_topic_stats("orders"),
        ignores_missing_topics=ignores_missing_topics,
    )
    return {key: len(bounds) for key, bounds in reported.items()}


def test_all_that_respond_are_returned_by_the_requests_keys(case: Case) -> None:
    case.cluster.grow("orders", "b", 1)
    assert stats(case) == {"first": 2, "second": 3}
    assert case.outages == ()


def test_a_server_that_is_unresponsive_among_many_is_waited_for_and_not_called_again_at_once(case: Case) -> None:
    case.b.reach = Reach.UNRESPONSIVE
    assert stats(case) == {"first": 2}
    assert case.waited_for == {broker_subject("b"): LIMIT_MS}
    case.b.reach = Reach.UP
    assert stats(case) == {"first": 2}
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert stats(case) == {"first": 2, "second": 2}
    assert case.outages == ()


def test_a_broker_that_fails_once_is_not_called_again_in_the_round(case: Case) -> None:
    case.a.reach = Reach.UNRESPONSIVE
    before = case.cluster.now
    reported = case.servers.call_concurrently(
        dict.fromkeys(range(3), "a") | {3: "z"}, lambda broker, _: broker.submit_topic_stats("orders")
    )
    assert reported == {}
    assert case.cluster.now == before + 3, "all three are under way before the first fails"
    assert case.waited_for == {broker_subject("a"): LIMIT_MS}


def test_a_server_that_cannot_even_be_called_is_waited_for_and_the_others_respond(case: Case) -> None:
    def submit(broker: BrokerApi, key: str) -> Future[object]:
        if key == "first":
            raise TransportError("CONNECT_FAILED", address="a:1", reason="refused")
        return broker.submit_topic_stats("orders")

    assert case.servers.call_concurrently({"first": "a", "second": "b"}, submit).keys() == {"second"}
    assert case.waited_for == {broker_subject("a"): LIMIT_MS}


def test_a_refusal_that_stands_for_nothing_is_omitted_and_a_response(case: Case) -> None:
    case.b.reach = Reach.UNRESPONSIVE
    stats(case)
    case.b.reach = Reach.UP
    case.b.refusal = refused(ResponseCode.TOPIC_NOT_EXIST)
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert stats(case, ignores_missing_topics=True) == {"first": 2}
    assert case.outages == ()


@pytest.mark.parametrize(
    ("code", "ignores_missing_topics"), [(ResponseCode.TOPIC_NOT_EXIST, False), (ResponseCode.NO_PERMISSION, True)]
)
def test_any_other_refusal_among_many_is_raised(case: Case, code: ResponseCode, ignores_missing_topics: bool) -> None:
    case.b.refusal = refused(code)
    with pytest.raises(BrokerError, match=code.name):
        stats(case, ignores_missing_topics=ignores_missing_topics)


# ---------------------------------------------------------------------------------------------------- name servers


def test_an_unresponsive_name_server_is_waited_for_by_the_clusters_limit_and_routes_stay(case: Case) -> None:
    case.cluster.name_server_error = UNRESPONSIVE_NAMES
    case.servers.topic_routes.refresh()
    assert case.waited_for == {NAME_SERVERS: LIMIT_MS}
    assert case.routes.masters() == {name: address_of(name) for name in "ab"}
    case.cluster.name_server_error = None
    case.servers.topic_routes.refresh()
    assert case.outages == ()


def test_a_server_that_is_no_name_server_is_reported_at_once(case: Case) -> None:
    error = TransportError("NOT_A_NAME_SERVER", address="n:10911", request="GET_ROUTEINFO_BY_TOPIC")
    case.cluster.name_server_error = error
    with pytest.raises(RocketMQError) as raised:
        case.servers.topic_routes.refresh()
    assert raised.value is error


def test_a_topic_that_was_there_is_unavailable_with_its_brokers_at_their_last_addresses(case: Case) -> None:
    case.cluster.name_server_error = NO_TOPIC
    case.servers.topic_routes.refresh()
    assert case.waited_for == {topic_subject("orders"): LIMIT_MS}
    (wait,) = case.outages
    assert wait.reason == str(
        RouteError("TOPIC_UNAVAILABLE.NO_ROUTE", topic="orders", address="n:9876", brokers="a (a:10911), b (b:10911)")
    )


def test_a_topic_that_is_not_readable_is_waited_for_as_a_missing_one(case: Case) -> None:
    case.a.permission = case.b.permission = 2
    case.servers.topic_routes.refresh()
    (wait,) = case.outages
    assert (wait.resource, wait.reason) == (
        topic_subject("orders"),
        str(RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic="orders")),
    )


def test_a_broker_without_a_master_is_waited_for_with_a_topic_of_its_own() -> None:
    case = Case(bills={"a": 1})
    case.b.master_id = 1
    case.servers.topic_routes.refresh()
    (wait,) = case.outages
    assert wait.resource == broker_subject("b")
    assert wait.reason == str(RouteError("MASTER_UNAVAILABLE", broker="b", topic="orders"))


# ---------------------------------------------------------------------------------------------------- what queues hold


def test_bounds_are_those_of_readable_queues_of_brokers_that_have_the_topic(case: Case) -> None:
    case.cluster.produce(B1, 2)
    case.cluster.show("orders", "a", 1)
    case.servers.topic_routes.refresh()
    of_b = {B0: QueueBounds(0, 0, 0), B1: QueueBounds(0, 2, case.clock())}
    assert case.servers.query_bounds() == {A0: QueueBounds(0, 0, 0)} | of_b
    case.a.refusal = refused(ResponseCode.TOPIC_NOT_EXIST)
    assert case.servers.query_bounds() == of_b
    assert case.outages == ()


def test_bounds_that_no_queue_has_are_no_response_and_are_named(case: Case) -> None:
    """As 5.5.0 gives them of a queue that lost its files: it would be a loss of all that was read."""
    case.b.min_offsets[B1] = 7
    assert case.servers.query_bounds().keys() == {A0, A1}
    assert case.tracker.unavailable(ALL, case.servers.query_bounds()) == {}
    (wait,) = case.outages
    assert wait.resource == "broker b"
    assert wait.reason == (
        "[ROCKETMQ_INVALID_QUEUE_OFFSETS] The broker reports impossible offsets of orders@b:1: min offset 7, max "
        "offset 0. Restart that broker: RocketMQ 5.5.0 reports a min offset above the max offset for a queue that lost "
        "all its files when a slave became master "
        "(https://github.com/apache/rocketmq/issues/10417). Meanwhile the queue is not read, and none of it is "
        "reported as lost."
    )
    case.clock.advance(LIMIT_MS)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*broker b.*INVALID_QUEUE_OFFSETS"):
        case.tracker.raise_expired()
    case.b.min_offsets[B1] = 0
    assert case.servers.query_bounds().keys() == set(ALL)
    assert case.outages == ()


def test_messages_are_probed_where_their_queues_are(case: Case) -> None:
    case.cluster.produce(A0, 1)
    case.cluster.produce(B1, 2)
    at_ms = case.clock()
    assert case.servers.probe_store_times({A0: 0, A1: 0, B1: 1}) == {A0: at_ms - 1, A1: None, B1: at_ms}


def test_a_broker_that_refuses_pulls_is_waited_for_by_itself_and_omitted(case: Case) -> None:
    case.cluster.produce(A0, 1)
    case.b.pull_refusal = refused(ResponseCode.NO_PERMISSION)
    assert case.servers.probe_store_times({A0: 0, B1: 1}) == {A0: case.clock()}
    assert case.waited_for == {"messages of broker b": LIMIT_MS}
    assert [wait.reason for wait in case.outages] == [str(case.b.pull_refusal)]
    case.b.pull_refusal = None
    assert case.servers.probe_store_times({B1: 1}) == {B1: None}
    assert case.outages == ()


def test_a_broker_that_refuses_probes_of_sizes_is_only_omitted(case: Case) -> None:
    """It counted as an outage, which ended the query once tasks had reported sizes and no probe followed."""
    case.cluster.produce(A0, 1)
    case.b.pull_refusal = refused(ResponseCode.SYSTEM_BUSY)
    assert case.servers.probe_sizes({A0: 0, B1: 1}) == {A0: MESSAGE_BYTES}
    assert case.outages == ()


def test_offsets_are_searched_where_their_queues_are_and_hints_may_be_too_small(case: Case) -> None:
    case.cluster.produce(A0, 1)
    case.cluster.produce(B1, 2)
    case.cluster.produce(B1, 2)
    to_write = {A0: 0, B1: case.clock()}
    assert case.servers.search_offsets(to_write) == {A0: 0, B1: 2}
    case.b.hint_deficit = 1
    assert case.servers.query_search_hints(to_write) == {A0: 0, B1: 1}
    case.b.reach = Reach.UNRESPONSIVE
    assert case.servers.query_search_hints(to_write) == {A0: 0}


# ---------------------------------------------------------------------------------------------------- commits

BUSY = refused(ResponseCode.SYSTEM_BUSY)


def of_commit(queue: MessageQueue) -> str:
    return f"the offset store of {queue}"


def test_an_offset_that_is_not_stored_is_waited_for_by_its_queue_until_it_is(case: Case) -> None:
    case.servers.record_commit(A0, BUSY)
    at_ms = case.clock()
    assert case.outages == (Outage(of_commit(A0), at_ms, at_ms + LIMIT_MS, str(BUSY), BUSY.condition),)
    assert [case.servers.may_commit(queue) for queue in (A0, A1)] == [False, True]
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert [case.servers.may_commit(queue) for queue in (A0, A1)] == [True, True]
    case.servers.record_commit(A1, BUSY)
    case.servers.record_commit(A0, None)
    assert [case.servers.may_commit(queue) for queue in (A0, A1)] == [True, False]
    assert case.waited_for == {of_commit(A1): LIMIT_MS}
    case.servers.record_commit(A1, None)
    assert case.waited_for == {}
    assert case.servers.may_commit(A1)


def test_offsets_that_are_not_stored_for_the_clusters_limit_end_the_query_but_for_queues_that_are_unavailable(
    case: Case,
) -> None:
    case.servers.record_commit(A0, BUSY)
    case.clock.advance(LIMIT_MS - 1)
    case.tracker.raise_expired()
    case.clock.advance(1)
    with pytest.raises(TransportError, match=f"No successful response from {of_commit(A0)} for .*SYSTEM_BUSY"):
        case.tracker.raise_expired({A1: "a:10911"})
    case.tracker.raise_expired({A0: "a:10911"})
    case.clock.advance(LIMIT_MS - 1)
    case.tracker.raise_expired()
    case.clock.advance(1)
    with pytest.raises(TransportError, match=f"No successful response from {of_commit(A0)} for .*SYSTEM_BUSY"):
        case.tracker.raise_expired()


def test_the_end_of_each_limit_is_a_change_and_so_is_each_response_after_a_timeout(case: Case) -> None:
    before = case.tracker.changes
    for queue in (A0, A1):
        case.servers.record_commit(queue, BUSY)
    for broker_name in ("a", "b"):
        case.tracker.record_failure(broker_subject(broker_name), BUSY, LIMIT_MS)
    assert case.tracker.changes == before
    case.clock.advance(LIMIT_MS)
    for queue in (A0, A1):
        case.servers.record_commit(queue, BUSY)
    assert case.tracker.changes == before + 2
    for broker_name in ("a", "b"):
        case.tracker.record_failure(broker_subject(broker_name), BUSY, LIMIT_MS)
    assert case.tracker.changes == before + 4
    for broker_name in ("a", "b"):
        case.tracker.record_success(broker_subject(broker_name))
    assert case.tracker.changes == before + 6
    for queue in (A0, A1):
        case.servers.record_commit(queue, None)
    assert case.tracker.changes == before + 8


def test_what_was_due_and_could_not_be_called_is_due_again_after_a_pause(case: Case) -> None:
    case.servers.record_commit(A0, BUSY)
    case.tracker.record_failure(broker_subject("b"), BUSY, LIMIT_MS)
    case.clock.advance(REQUEST_PAUSES.shortest_ms)
    assert case.tracker.next_try_ms == case.clock()
    case.tracker.postpone_due()
    assert case.tracker.next_try_ms == case.clock() + REQUEST_PAUSES.shortest_ms
