"""The simulated broker, on which the proofs of the join rest, keeps the rules that the real one keeps.

One suite for both. It leaves out that locks and connections expire, which takes the real one minutes, and what becomes
of requests that are lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.simulated_cluster import SimulatedCluster, SimulatedClusterClient, address_of
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.consumer.cluster_api import BrokerApi
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import SQL92, BrokerAddress, Message, MessageFilter, MessageQueue
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.prober import TOOLS_PROBER, Prober
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.wire.body.groups import ConsumerData, Heartbeat
from rocketmq_spark.wire.body.subscription import build_subscription
from rocketmq_spark.wire.body.topics import TopicSettings

QUEUE_COUNT = 4
ME, YOU = "127.0.0.1@me", "127.0.0.1@you"
TIMEOUT_MS = PATIENT_MS


class Stand(Protocol):
    """One broker with a topic of four empty queues, and a group that has never been there."""

    queues: Sequence[MessageQueue]
    group: str

    def connect(self) -> BrokerApi:
        """A connection of its own."""

    def produce(self, queue: MessageQueue, count: int) -> None:
        """Messages that can be read when this returns."""

    def reset(self, queue: MessageQueue, offset: int) -> None:
        """As an operator does."""

    def now_ms(self) -> int:
        """By the clock that messages are stored by."""

    def wait_ms(self, duration_ms: int) -> None: ...


class SimulatedStand:
    def __init__(self) -> None:
        self.group = "g"
        self.queues: Sequence[MessageQueue] = [
            MessageQueue("orders", "broker-a", number) for number in range(QUEUE_COUNT)
        ]
        self._cluster = SimulatedCluster(["broker-a"], ManualClock(1_000_000))
        self._cluster.create_topic("orders", {"broker-a": QUEUE_COUNT})

    def connect(self) -> BrokerApi:
        return SimulatedClusterClient(self._cluster, object()).broker(address_of("broker-a"))

    def produce(self, queue: MessageQueue, count: int) -> None:
        self._cluster.produce(queue, count)

    def reset(self, queue: MessageQueue, offset: int) -> None:
        self._cluster.brokers["broker-a"].reset(queue, offset)

    def now_ms(self) -> int:
        return self._cluster.clock()

    def wait_ms(self, duration_ms: int) -> None:
        self._cluster.clock.advance(duration_ms)


class RealStand:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.group = unique_name("simulated")
        topic = cluster.create_topic(unique_name("simulated"), QUEUE_COUNT)
        self.queues: Sequence[MessageQueue] = [MessageQueue(topic, "broker-a", number) for number in range(QUEUE_COUNT)]
        self._address = cluster.broker_addr()
        self._pools: list[ConnectionPool] = []
        self._broker = self._connected()
        self._broker.ensure_group(self.group)
        client = ClusterClient((cluster.namesrv_addr,), self._pools[0], TIMEOUT_MS)
        self._producer = Producer(client, group="producers", initial_queue_index=lambda: 0)

    def connect(self) -> BrokerApi:
        return self._connected()

    def _connected(self) -> AdminBroker:
        self._pools.append(ConnectionPool(TIMEOUT_MS))
        return AdminBroker(BrokerAddress(self._address), self._pools[-1], TIMEOUT_MS)

    def produce(self, queue: MessageQueue, count: int) -> None:
        before = self._broker.max_offset(queue)
        self._producer.send_batch([Message(queue.topic, b"m")] * count, queue)
        eventually(lambda: self._broker.max_offset(queue) == before + count, f"{count} messages in {queue}")

    def reset(self, queue: MessageQueue, offset: int) -> None:
        assert self._broker.reset_offset(self.group, queue, offset) == {queue: offset}

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def wait_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def close(self) -> None:
        for pool in self._pools:
            pool.close()


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.broker)])
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    if request.param == "simulated":
        yield SimulatedStand()
        return
    real = RealStand(request.getfixturevalue("cluster"))
    yield real
    real.close()


@pytest.fixture
def broker(stand: Stand) -> BrokerApi:
    return stand.connect()


def heartbeat(client_id: str, stand: Stand) -> Heartbeat:
    subscriptions = (build_subscription(stand.queues[0].topic, "*", 1),)
    consumer = ConsumerData(stand.group, "CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", subscriptions)
    return Heartbeat(client_id, (consumer,))


# ---------------------------------------------------------------------------------------------------- group offsets


def test_where_the_group_has_stored_no_offset_there_is_none(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    assert broker.submit_update_offsets(stand.group, {a: 0}).result() == {}
    assert broker.submit_query_offsets(stand.group, [a, b]).result() == {a: 0, b: None}


def test_an_offset_is_accepted_whatever_it_is(stand: Stand, broker: BrokerApi) -> None:
    a, *_ = stand.queues
    for offset in (70, 3, 0, 1_000_000):
        assert broker.submit_update_offsets(stand.group, {a: offset}).result() == {}
        assert broker.submit_query_offsets(stand.group, [a]).result() == {a: offset}


def test_offsets_are_the_group_s_whichever_client_writes_and_reads_them(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    # Of the first offsets of a group and topic that come at once a broker may lose one.
    assert broker.submit_update_offsets(stand.group, {a: 4}).result() == {}
    assert broker.submit_update_offsets(stand.group, {a: 5, b: 6}).result() == {}
    assert stand.connect().submit_query_offsets(stand.group, [a, b]).result() == {a: 5, b: 6}


# ------------------------------------------------------------------------------------------------------------ resets


def test_reset_that_was_received_can_be_restored(stand: Stand, broker: BrokerApi) -> None:
    a, *_ = stand.queues
    stand.produce(a, 10)
    broker.restore_reset(stand.group, a, 4)
    assert broker.submit_query_offsets(stand.group, [a]).result() == {a: 4}
    assert [stand.connect().consume_reset(stand.group, a), broker.consume_reset(stand.group, a)] == [4, None]


def test_no_offset_of_a_reset_queue_is_accepted_until_it_is_reported(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    stand.produce(a, 10)
    assert broker.submit_update_offsets(stand.group, {a: 9}).result() == {}
    stand.reset(a, 4)
    failures = broker.submit_update_offsets(stand.group, {a: 9, b: 1}).result()
    assert list(failures) == [a]
    assert isinstance(failures[a], BrokerError)
    assert failures[a].condition == "OFFSET_RESET_PENDING"
    assert broker.submit_query_offsets(stand.group, [a, b]).result() == {a: 4, b: 1}
    assert broker.consume_reset(stand.group, a) == 4
    assert broker.submit_update_offsets(stand.group, {a: 9}).result() == {}
    assert broker.submit_query_offsets(stand.group, [a]).result() == {a: 9}


def test_a_reset_is_delivered_to_one_alone_and_its_offset_stays(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    stand.produce(a, 10)
    stand.reset(a, 4)
    assert broker.consume_reset(stand.group, b) is None
    assert [stand.connect().consume_reset(stand.group, a), broker.consume_reset(stand.group, a)] == [4, None]
    assert broker.submit_query_offsets(stand.group, [a]).result() == {a: 4}


def test_a_reset_that_is_restored_is_received_again(stand: Stand, broker: BrokerApi) -> None:
    """Spark 4.0 and 4.1 end a run without a plan after the reset."""
    a, *_ = stand.queues
    stand.produce(a, 10)
    stand.reset(a, 4)
    assert broker.consume_reset(stand.group, a) == 4
    broker.restore_reset(stand.group, a, 4)
    assert broker.consume_reset(stand.group, a) == 4
    assert broker.consume_reset(stand.group, a) is None


def test_of_two_resets_the_later_is_reported(stand: Stand, broker: BrokerApi) -> None:
    a, *_ = stand.queues
    stand.produce(a, 10)
    stand.reset(a, 4)
    stand.reset(a, 2)
    assert [broker.consume_reset(stand.group, a), broker.consume_reset(stand.group, a)] == [2, None]


# ------------------------------------------------------------------------------------------------------------- locks


def test_a_queue_is_locked_for_one_until_that_one_unlocks_it(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    assert broker.submit_lock_batch(stand.group, ME, [a]).result() == {a}
    assert broker.submit_lock_batch(stand.group, YOU, [a, b]).result() == {b}
    assert broker.submit_lock_batch(stand.group, ME, [a]).result() == {a}
    broker.submit_unlock_batch(stand.group, YOU, [a]).result()
    assert broker.submit_lock_batch(stand.group, YOU, [a]).result() == set()
    broker.submit_unlock_batch(stand.group, ME, [a]).result()
    assert broker.submit_lock_batch(stand.group, YOU, [a]).result() == {a}


def test_a_lock_is_the_client_id_s_and_outlives_its_membership(stand: Stand, broker: BrokerApi) -> None:
    a, *_ = stand.queues
    broker.submit_heartbeat(heartbeat(ME, stand)).result()
    assert broker.submit_lock_batch(stand.group, ME, [a]).result() == {a}
    broker.unregister(ME, stand.group)
    other = stand.connect()
    assert other.submit_lock_batch(stand.group, YOU, [a]).result() == set()
    assert other.submit_lock_batch(stand.group, ME, [a]).result() == {a}


@pytest.mark.parametrize("method", ["probe_store_times", "probe_sizes", "search_offsets"])
def test_a_probe_for_the_group_itself_passes_a_reset_on_and_sees_the_message(
    stand: Stand, broker: BrokerApi, method: str
) -> None:
    """A look for the tools' group leaves it where it is."""
    a, b, *_ = stand.queues
    stand.produce(a, 10)
    stored_ms = broker.probe_store_times({a: 9}, TOOLS_PROBER)[a]
    assert stored_ms is not None
    arguments = {a: stored_ms, b: stored_ms} if method == "search_offsets" else {a: 9, b: 0}
    stand.reset(a, 4)
    reported: list[tuple[MessageQueue, int]] = []
    seen = getattr(broker, method)(arguments, TOOLS_PROBER)
    assert getattr(broker, method)(arguments, Prober(stand.group, lambda *reset: reported.append(reset))) == seen
    assert reported == [(a, 4)]
    assert broker.consume_reset(stand.group, a) is None


# ----------------------------------------------------------------------------------------------------- consumer list


def test_a_group_that_may_read_is_let_be(stand: Stand, broker: BrokerApi) -> None:
    a, *_ = stand.queues
    stand.produce(a, 1)
    stand.reset(a, 0)
    for topic in (a.topic, "of which nobody has heard"):
        broker.submit_group_check(stand.group, topic).result()
    assert broker.consume_reset(stand.group, a) == 0


def test_a_member_is_registered_by_a_heartbeat_until_it_unregisters(stand: Stand, broker: BrokerApi) -> None:
    other = stand.connect()
    assert broker.submit_consumer_ids(stand.group).result() == []
    broker.submit_heartbeat(heartbeat(ME, stand)).result()
    broker.submit_heartbeat(heartbeat(ME, stand)).result()
    assert broker.submit_consumer_ids(stand.group).result() == [ME]
    other.submit_heartbeat(heartbeat(YOU, stand)).result()
    assert sorted(other.submit_consumer_ids(stand.group).result()) == [ME, YOU]
    broker.unregister(ME, stand.group)
    assert other.submit_consumer_ids(stand.group).result() == [YOU]


def test_a_client_id_is_listed_once_for_each_of_its_connections(stand: Stand, broker: BrokerApi) -> None:
    other = stand.connect()
    broker.submit_heartbeat(heartbeat(ME, stand)).result()
    other.submit_heartbeat(heartbeat(ME, stand)).result()
    assert broker.submit_consumer_ids(stand.group).result() == [ME, ME]
    other.unregister(ME, stand.group)
    assert broker.submit_consumer_ids(stand.group).result() == [ME]


# ------------------------------------------------------------------------------------------------------------ bounds


def test_bounds_are_those_of_every_queue_of_the_topic(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    before_ms = stand.now_ms()
    stand.produce(a, 3)
    stand.produce(b, 1)
    bounds = broker.submit_topic_stats(a.topic).result()
    assert set(bounds) == set(stand.queues)
    assert [(bounds[queue].min_offset, bounds[queue].max_offset) for queue in stand.queues] == [
        (0, 3),
        (0, 1),
        (0, 0),
        (0, 0),
    ]
    times_ms = [bounds[queue].last_store_timestamp_ms for queue in stand.queues]
    assert [before_ms <= at_ms <= stand.now_ms() for at_ms in times_ms] == [True, True, False, False]
    assert times_ms[2:] == [0, 0]


def test_a_time_is_found_at_the_first_message_stored_then_or_later(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    before_ms = stand.now_ms()
    stand.produce(a, 3)
    first_ms = broker.submit_topic_stats(a.topic).result()[a].last_store_timestamp_ms
    stand.wait_ms(50)
    stand.produce(a, 2)
    second_ms = broker.submit_topic_stats(a.topic).result()[a].last_store_timestamp_ms
    assert first_ms < second_ms
    arguments = {before_ms: 0, first_ms: 0, first_ms + 1: 3, second_ms: 3, second_ms + 1: 5, second_ms + 60_000: 5}
    assert {at_ms: broker.search_offsets({a: at_ms}, TOOLS_PROBER)[a] for at_ms in arguments} == arguments
    assert broker.search_offsets({b: before_ms}, TOOLS_PROBER) == {b: 0}
    assert {at_ms: broker.submit_search_hints({a: at_ms}).result()[a] for at_ms in arguments} == arguments
    assert broker.submit_search_hints({b: before_ms}).result() == {b: 0}


def test_a_message_reports_when_it_was_stored_and_none_is_none(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    stand.produce(a, 1)
    first_ms = broker.submit_topic_stats(a.topic).result()[a].last_store_timestamp_ms
    stand.wait_ms(50)
    stand.produce(a, 1)
    second_ms = broker.submit_topic_stats(a.topic).result()[a].last_store_timestamp_ms
    assert [broker.probe_store_times({a: offset, b: 0}, TOOLS_PROBER) for offset in range(4)] == [
        {a: first_ms, b: None},
        {a: second_ms, b: None},
        {a: None, b: None},
        {a: None, b: None},
    ]


def test_sizes_are_those_of_stored_messages(stand: Stand, broker: BrokerApi) -> None:
    a, b, *_ = stand.queues
    stand.produce(a, 2)
    (size,) = {broker.probe_sizes({a: offset}, TOOLS_PROBER)[a] for offset in range(2)}
    assert size is not None
    assert 90 < size < 500
    assert broker.probe_sizes({a: 2, b: 0}, TOOLS_PROBER) == {a: None, b: None}


def test_a_filter_that_the_broker_can_compile_passes_its_check(stand: Stand, broker: BrokerApi) -> None:
    a, *_ = stand.queues
    assert broker.submit_filter_check(stand.group, a.topic, MessageFilter("price > 5", SQL92)).result() is None


def test_queues_of_an_ordinary_topic_hold_no_batches(stand: Stand, broker: BrokerApi) -> None:
    a, *_ = stand.queues
    assert broker.query_topic_settings(a.topic) == TopicSettings("NORMAL", False, False)


# ------------------------------------------------------------------------------------------------- nothing left out

REQUESTS_OF_MEMBERS = {"query_running_infos"}
"""The broker only hands the question on."""


def test_every_request_that_members_send_is_in_this_suite() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    requests = {name for name in vars(BrokerApi) if not name.startswith("_")}
    assert {name for name in requests if f".{name}(" not in text} == REQUESTS_OF_MEMBERS
