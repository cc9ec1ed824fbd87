"""Every request of ``remoting`` against the real name server and broker."""

from __future__ import annotations

import queue as thread_queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.timeouts import PATIENT_MS, WAIT_S
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import BrokerError, DataLossError, RocketMQError, RouteError
from rocketmq_spark.model import BrokerAddress, Message, MessageExt, MessageFilter, MessageQueue, StoredMessage
from rocketmq_spark.pull.pull_connections import PullConnections
from rocketmq_spark.pull.pull_request import PullRequest
from rocketmq_spark.remoting.broker_rpcs import send_batch_rpc
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.wire.body.groups import ConsumerData, Heartbeat
from rocketmq_spark.wire.body.subscription import build_subscription
from rocketmq_spark.wire.body.topics import TopicSettings
from rocketmq_spark.wire.message.batch import encode_batch
from rocketmq_spark.wire.message.compression import compress
from rocketmq_spark.wire.message.stored_message import decode_messages
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus
from rocketmq_spark.wire.remoting.pull_frames import pull_frames
from rocketmq_spark.wire.remoting.send import SendStatus

pytestmark = pytest.mark.broker

TIMEOUT_MS = PATIENT_MS
LARGE_BYTES = 50_000
CLIENT_ID = "127.0.0.1@test"
OTHER_ID = "127.0.0.1@other"


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(PATIENT_MS)
    yield pool
    pool.close()


@pytest.fixture
def name_servers(cluster: EmbeddedCluster, pool: ConnectionPool) -> NameServers:
    return NameServers((cluster.namesrv_addr,), pool, TIMEOUT_MS)


@pytest.fixture
def broker(cluster: EmbeddedCluster, pool: ConnectionPool) -> AdminBroker:
    return AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS)


@pytest.fixture
def producer(cluster: EmbeddedCluster, pool: ConnectionPool) -> Producer:
    return Producer(
        ClusterClient((cluster.namesrv_addr,), pool, TIMEOUT_MS), group="producers", initial_queue_index=lambda: 0
    )


@pytest.fixture
def queue(topic: str) -> MessageQueue:
    return MessageQueue(topic, "broker-a", 0)


@pytest.fixture
def filled(queue: MessageQueue, producer: Producer, broker: AdminBroker) -> MessageQueue:
    """The queue with 10 messages, bodies b"0" to b"9"; odd ones have tag B, even ones tag A."""
    bodies = [str(number).encode() for number in range(10)]
    producer.send_batch([Message(queue.topic, body, tags="BA"[int(body) % 2 == 0]) for body in bodies], queue)
    # A stored message is in its queue a moment later.
    eventually(lambda: broker.max_offset(queue) == len(bodies), f"{len(bodies)} messages in {queue}")
    return queue


def eventually(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"did not come to be: {what}"
        time.sleep(0.02)


def pulled(broker: AdminBroker, group: str, queue: MessageQueue, offset: int = 0) -> list[MessageExt]:
    """All messages from ``offset`` on; waits for the first."""
    results: list[PullResult] = []

    def found() -> bool:
        results.append(broker.pull(group, queue, offset, 32))
        return results[-1].status is PullStatus.FOUND

    eventually(found, f"a message in {queue}")
    return decode_messages(bytes(results[-1].body), broker_name=queue.broker_name)


@contextmanager
def member(cluster: EmbeddedCluster, group: str, topic: str, client_id: str = CLIENT_ID) -> Iterator[AdminBroker]:
    """The broker as one member of ``group`` sees it, over a connection of its own."""
    pool = ConnectionPool(PATIENT_MS)
    broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS)
    broker.submit_heartbeat(heartbeat(client_id, group, topic)).result()
    yield broker
    pool.close()


def heartbeat(client_id: str, group: str, topic: str) -> Heartbeat:
    consumer = ConsumerData(
        group=group,
        consume_type="CONSUME_ACTIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_LAST_OFFSET",
        subscriptions=(build_subscription(topic, "*", 1),),
    )
    return Heartbeat(client_id, (consumer,))


def send_back(
    broker: AdminBroker, group: str, message: MessageExt, delay_level: int = 0, max_reconsume_times: int | None = None
) -> None:
    stored = StoredMessage(message.topic, message.broker_name, message.commit_log_offset, message.msg_id)
    broker.send_back(group, stored, delay_level=delay_level, max_reconsume_times=max_reconsume_times)


def refusal(call: Callable[[], object]) -> int:
    with pytest.raises(BrokerError) as raised:
        call()
    return raised.value.code


# ---------------------------------------------------------------------------------------------------------- routes


def test_a_route_has_the_queues_and_the_master(
    cluster: EmbeddedCluster, name_servers: NameServers, topic: str, queue: MessageQueue
) -> None:
    route = name_servers.query_topic_route(topic)
    assert route.read_queues() == route.write_queues()
    assert [found.queue_id for found in route.read_queues()] == [0, 1, 2, 3]
    assert RouteTable(name_servers).find_master(queue) == BrokerAddress(cluster.broker_addr())


def test_a_topic_that_does_not_exist_is_a_route_error(name_servers: NameServers) -> None:
    with pytest.raises(RouteError, match=r"TOPIC_NOT_FOUND.*no_such_topic"):
        name_servers.query_topic_route("no_such_topic")


def test_a_static_topic_is_a_route_error(cluster: EmbeddedCluster, name_servers: NameServers) -> None:
    topic = unique_name("static")
    cluster.mqadmin("updateStaticTopic", "-t", topic, "-qn", "2", "-b", cluster.broker_names[0])
    with pytest.raises(RouteError, match=f"STATIC_TOPIC_NOT_SUPPORTED.*{topic}"):
        eventually(lambda: _is_routed(name_servers, topic), "the route of a static topic")


def test_the_cluster_info_names_the_broker(cluster: EmbeddedCluster, name_servers: NameServers) -> None:
    assert name_servers.cluster_info().brokers["broker-a"].master_address == BrokerAddress(cluster.broker_addr())


def test_a_name_server_that_is_down_is_passed_over(cluster: EmbeddedCluster, pool: ConnectionPool, topic: str) -> None:
    name_servers = NameServers(("127.0.0.1:1", cluster.namesrv_addr), pool, TIMEOUT_MS)
    assert name_servers.query_topic_route(topic).read_queues()


def test_broker_compiles_sql92(broker: AdminBroker, topic: str) -> None:
    broker.submit_filter_check("g", topic, MessageFilter("price > 5", "SQL92")).result()
    with pytest.raises(BrokerError, match=r"FILTER_EXPRESSION_INVALID.*ParseException"):
        broker.submit_filter_check("g", topic, MessageFilter("price >", "SQL92")).result()


def test_a_broker_that_rejects_pulls_is_named_with_its_setting(broker: AdminBroker, topic: str) -> None:
    broker.update_config({"rejectPullConsumerEnable": "true"})
    try:
        with pytest.raises(BrokerError, match=r"PULL_REJECTED.*'rejectPullConsumerEnable' is true"):
            broker.submit_group_check("g", topic).result()
        with pytest.raises(BrokerError, match="PULL_REJECTED"):
            broker.pull("g", MessageQueue(topic, "", 0), 0, 1)
    finally:
        broker.update_config({"rejectPullConsumerEnable": "false"})
    broker.submit_group_check("g", topic).result()


# ---------------------------------------------------------------------------------------------------------- topics


def test_a_topic_is_created_with_permission_and_attributes_and_deleted(
    broker: AdminBroker, name_servers: NameServers, cluster: EmbeddedCluster
) -> None:
    name = unique_name("created")
    broker.create_topic(name, 3, permission=4, attributes={"message.type": "FIFO"})
    eventually(lambda: _is_routed(name_servers, name), "the route of a new topic")
    route = name_servers.query_topic_route(name)
    assert (len(route.read_queues()), len(route.write_queues())) == (3, 0)
    assert broker.query_topic_settings(name) == TopicSettings("FIFO", keeps_last_of_key=False)
    broker.delete_topic(name)
    name_servers.delete_topic(name)
    assert not _is_routed(name_servers, name)


def _is_routed(name_servers: NameServers, topic: str) -> bool:
    try:
        name_servers.query_topic_route(topic)
    except RouteError as error:
        if error.condition != "TOPIC_NOT_FOUND":
            raise
        return False
    return True


def test_a_topic_that_is_compacted_reports_it(broker: AdminBroker, cluster: EmbeddedCluster) -> None:
    name = cluster.create_topic(unique_name("compacted"), 1, attributes={"cleanup.policy": "COMPACTION"})
    assert broker.query_topic_settings(name) == TopicSettings("NORMAL", keeps_last_of_key=True)


def test_a_topic_name_that_no_broker_takes_is_refused(broker: AdminBroker) -> None:
    assert refusal(lambda: broker.create_topic("not a name", 1)) == ResponseCode.INVALID_PARAMETER


def test_topic_stats_have_the_bounds_of_every_queue(broker: AdminBroker, filled: MessageQueue) -> None:
    before_ms = (time.time() - 60) * 1000
    stats = broker.query_topic_stats(filled.topic)
    assert {queue.queue_id: (held.min_offset, held.max_offset) for queue, held in stats.items()} == {
        0: (0, 10),
        1: (0, 0),
        2: (0, 0),
        3: (0, 0),
    }
    assert stats[filled].last_store_timestamp_ms > before_ms
    assert refusal(lambda: broker.query_topic_stats("no_such_topic")) == ResponseCode.TOPIC_NOT_EXIST


def test_an_offset_is_found_by_time(broker: AdminBroker, filled: MessageQueue, group: str) -> None:
    stored_ms = pulled(broker, group, filled)[0].store_timestamp_ms
    assert broker.search_offset(filled, stored_ms) == 0
    assert broker.search_offset(filled, stored_ms - 60_000) == 0
    assert broker.search_offset(filled, stored_ms + 60_000) == 10


# ------------------------------------------------------------------------------------------------------------ pull


def test_a_pull_brings_messages_from_an_offset_on_and_reports_where_to_resume(
    broker: AdminBroker, filled: MessageQueue, group: str
) -> None:
    result = broker.pull(group, filled, 3, 4)
    messages = decode_messages(bytes(result.body), broker_name="broker-a")
    assert (result.status, result.reason) == (PullStatus.FOUND, "FOUND")
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (7, 0, 10)
    assert [(message.queue_offset, message.body) for message in messages] == [
        (3, b"3"),
        (4, b"4"),
        (5, b"5"),
        (6, b"6"),
    ]


def test_the_broker_filters_by_tag(broker: AdminBroker, filled: MessageQueue, group: str) -> None:
    result = broker.pull(group, filled, 0, 32, "B")
    messages = decode_messages(bytes(result.body), broker_name="broker-a")
    assert [message.body for message in messages] == [b"1", b"3", b"5", b"7", b"9"]
    assert result.next_begin_offset == 10


def test_the_four_statuses_of_a_pull(
    broker: AdminBroker, filled: MessageQueue, queue: MessageQueue, group: str
) -> None:
    empty = MessageQueue(filled.topic, "broker-a", 3)
    found = {
        "inside": broker.pull(group, filled, 0, 32),
        "no such tag": broker.pull(group, filled, 0, 32, "C"),
        "at the end": broker.pull(group, filled, 10, 32),
        "beyond the end": broker.pull(group, filled, 11, 32),
        "empty": broker.pull(group, empty, 0, 32),
        "empty, beyond": broker.pull(group, empty, 5, 32),
    }
    assert {name: (result.status, result.reason, result.next_begin_offset) for name, result in found.items()} == {
        "inside": (PullStatus.FOUND, "FOUND", 10),
        "no such tag": (PullStatus.NO_MATCHED_MSG, "NO_MATCHED_MESSAGE", 10),
        "at the end": (PullStatus.NO_NEW_MSG, "OFFSET_OVERFLOW_ONE", 10),
        "beyond the end": (PullStatus.OFFSET_ILLEGAL, "OFFSET_OVERFLOW_BADLY", 10),
        "empty": (PullStatus.NO_NEW_MSG, "NO_MESSAGE_IN_QUEUE", 0),
        "empty, beyond": (PullStatus.OFFSET_ILLEGAL, "NO_MESSAGE_IN_QUEUE", 0),
    }


def test_a_pull_of_a_queue_or_topic_that_does_not_exist_is_refused(broker: AdminBroker, topic: str, group: str) -> None:
    assert refusal(lambda: broker.pull(group, MessageQueue(topic, "broker-a", 99), 0, 1)) == (
        ResponseCode.INVALID_PARAMETER
    )
    assert refusal(lambda: broker.pull(group, MessageQueue("no_such_topic", "broker-a", 0), 0, 1)) == (
        ResponseCode.TOPIC_NOT_EXIST
    )


def test_many_pulls_are_in_flight_on_one_connection(cluster: EmbeddedCluster, filled: MessageQueue, group: str) -> None:
    pulling = PullConnections(5_000)
    requests = [PullRequest(offset, offset + 1, 1, deque()) for offset in range(10)]
    completions = pulling.get_or_open(BrokerAddress(cluster.broker_addr())).pull(
        requests, pull_frames(group, filled, "*")
    )
    while len(completions) < len(requests):
        completions += pulling.receive(1_000)
    bodies = {}
    for request, result, _ in completions:
        assert isinstance(result, PullResult)
        bodies[request.next_offset] = decode_messages(bytes(result.body), broker_name="broker-a")[0].body
    pulling.close()
    assert bodies == {offset: str(offset).encode() for offset in range(10)}


def test_a_long_poll_gets_a_response_when_a_message_arrives(
    broker: AdminBroker, producer: Producer, queue: MessageQueue, group: str
) -> None:
    responses: thread_queue.Queue[PullResult | RocketMQError] = thread_queue.Queue()
    broker.long_poll(group, queue, 0, 15_000, responses.put)
    broker.pull(group, queue, 0, 1)  # a second request on the same connection is not held up
    producer.send(Message(queue.topic, b"news"), queue)
    response = responses.get(timeout=WAIT_S)
    assert isinstance(response, PullResult)
    assert (response.status, response.next_begin_offset) == (PullStatus.FOUND, 1)


def test_a_long_poll_brings_one_message_however_many_come_at_once(
    broker: AdminBroker, producer: Producer, queue: MessageQueue, group: str
) -> None:
    """That is all that a queue sends to the driver for each time that it wakes an idle query; no broker answers with
    less."""
    responses: thread_queue.Queue[PullResult | RocketMQError] = thread_queue.Queue()
    broker.long_poll(group, queue, 0, 15_000, responses.put)
    producer.send_batch([Message(queue.topic, bytes(LARGE_BYTES)) for _ in range(20)])
    response = responses.get(timeout=WAIT_S)
    assert isinstance(response, PullResult)
    assert (response.status, response.next_begin_offset) == (PullStatus.FOUND, 1)
    assert LARGE_BYTES < len(response.body) < 1.01 * LARGE_BYTES


# ---------------------------------------------------------------------------------------------------- group offsets


def test_a_group_without_an_offset_has_none_not_zero(broker: AdminBroker, filled: MessageQueue, group: str) -> None:
    broker.ensure_group(group)
    assert broker.query_offset(group, filled) is None


def test_an_offset_is_stored_and_read_back_and_may_be_zero(
    broker: AdminBroker, filled: MessageQueue, group: str
) -> None:
    broker.ensure_group(group)
    for offset in (0, 7, 3):
        broker.update_offset(group, filled, offset)
        assert broker.query_offset(group, filled) == offset


def test_offsets_of_many_queues_go_out_together(broker: AdminBroker, name_servers: NameServers, topic: str) -> None:
    group = unique_name("many")
    broker.ensure_group(group)
    queues = name_servers.query_topic_route(topic).read_queues()
    broker.update_offset(group, queues[0], 1)  # of the first that come at once a broker loses some: it makes two tables
    to_write = {queue: 100 + queue.queue_id for queue in queues[:3]}
    assert broker.submit_update_offsets(group, to_write).result() == {}
    assert broker.query_offsets(group, queues) == {**to_write, queues[3]: None}


def test_an_update_that_fails_is_reported_and_the_others_are_stored(broker: AdminBroker, queue: MessageQueue) -> None:
    group = unique_name("failing")
    broker.ensure_group(group)
    missing = MessageQueue("no_such_topic", "broker-a", 0)
    failures = broker.submit_update_offsets(group, {missing: 1, queue: 2}).result()
    assert list(failures) == [missing]
    assert isinstance(failures[missing], BrokerError)
    assert broker.query_offset(group, queue) == 2


def test_a_group_that_was_never_seen_takes_no_offset_until_it_is_ensured(
    broker: AdminBroker, queue: MessageQueue, group: str
) -> None:
    assert refusal(lambda: broker.update_offset(group, queue, 1)) == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    broker.ensure_group(group)
    broker.ensure_group(group)
    broker.update_offset(group, queue, 1)


def test_a_reset_is_delivered_to_one_pull_and_until_then_no_offset_is_accepted(
    broker: AdminBroker, filled: MessageQueue, group: str
) -> None:
    broker.ensure_group(group)
    broker.update_offset(group, filled, 9)
    assert broker.reset_offset(group, filled, 4) == {filled: 4}
    with pytest.raises(BrokerError, match=f"OFFSET_RESET_PENDING.*{group}"):
        broker.update_offset(group, filled, 9)
    pulled_result = broker.pull(group, filled, 9, 1)
    assert (pulled_result.status, pulled_result.reason, pulled_result.next_begin_offset) == (
        PullStatus.OFFSET_ILLEGAL,
        "OFFSET_RESET",
        4,
    )
    assert broker.pull(group, filled, 9, 1).status is PullStatus.FOUND
    broker.update_offset(group, filled, 5)
    assert broker.query_offset(group, filled) == 5


def test_a_reset_by_time_moves_every_queue(broker: AdminBroker, filled: MessageQueue, group: str) -> None:
    broker.ensure_group(group)
    offsets = broker.reset_offsets_to_time(group, filled.topic, -1)
    assert {queue.queue_id: offset for queue, offset in offsets.items()} == {0: 10, 1: 0, 2: 0, 3: 0}


def test_consume_stats_show_the_lag(broker: AdminBroker, filled: MessageQueue, group: str) -> None:
    broker.ensure_group(group)
    broker.update_offset(group, filled, 4)
    progress = broker.query_consume_stats(group)[filled]
    assert (progress.broker_offset, progress.consumer_offset) == (10, 4)


# ------------------------------------------------------------------------------------------------------- membership


def test_a_heartbeat_makes_a_member_and_unregistering_ends_it(
    cluster: EmbeddedCluster, broker: AdminBroker, topic: str, group: str
) -> None:
    assert broker.submit_consumer_ids(group).result() == []
    with member(cluster, group, topic) as mine, member(cluster, group, topic, OTHER_ID):
        assert sorted(broker.submit_consumer_ids(group).result()) == sorted([CLIENT_ID, OTHER_ID])
        mine.unregister(CLIENT_ID, group)
        assert broker.submit_consumer_ids(group).result() == [OTHER_ID]
    eventually(lambda: broker.submit_consumer_ids(group).result() == [], "the member whose connection closed is gone")


def test_the_broker_notifies_members_of_a_joining_member(cluster: EmbeddedCluster, topic: str, group: str) -> None:
    notices: thread_queue.Queue[RemotingCommand] = thread_queue.Queue()
    pool = ConnectionPool(PATIENT_MS, lambda request: notices.put(request))
    AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS).submit_heartbeat(
        heartbeat(CLIENT_ID, group, topic)
    ).result()
    with member(cluster, group, topic, OTHER_ID):
        eventually(lambda: _codes_of(notices) >= {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}, "a notice")
    pool.close()


def _codes_of(notices: thread_queue.Queue[RemotingCommand]) -> set[int]:
    return {notice.code for notice in list(notices.queue)}


def test_a_locked_queue_is_locked_for_one_client_until_it_unlocks(broker: AdminBroker, queue: MessageQueue) -> None:
    group = unique_name("orderly")
    other = MessageQueue(queue.topic, queue.broker_name, 1)
    assert broker.submit_lock_batch(group, CLIENT_ID, [queue]).result() == {queue}
    assert broker.submit_lock_batch(group, OTHER_ID, [queue, other]).result() == {other}
    assert broker.submit_lock_batch(group, CLIENT_ID, [queue]).result() == {queue}
    broker.submit_unlock_batch(group, OTHER_ID, [queue]).result()
    assert broker.submit_lock_batch(group, OTHER_ID, [queue]).result() == set()
    broker.submit_unlock_batch(group, CLIENT_ID, [queue]).result()
    assert broker.submit_lock_batch(group, OTHER_ID, [queue]).result() == {queue}
    broker.submit_unlock_batch(group, OTHER_ID, [queue, other]).result()


# ---------------------------------------------------------------------------------------------------------- sending


def test_a_message_is_stored_as_it_was_sent(
    broker: AdminBroker, producer: Producer, queue: MessageQueue, group: str
) -> None:
    sent = Message(queue.topic, "größe 🙂".encode(), tags="T", keys="k1 k2", properties={"colour": "grün"}, flag=7)
    result = producer.send(sent, queue)
    stored = pulled(broker, group, queue)[0]
    assert (result.status, result.queue, result.queue_offset) == (SendStatus.SEND_OK, queue, 0)
    assert result.offset_msg_ids == (stored.offset_msg_id,)
    assert (stored.body, stored.tags, stored.keys, stored.flag) == (sent.body, "T", "k1 k2", 7)
    assert stored.properties["colour"] == "grün"
    assert stored.properties["UNIQ_KEY"] == stored.msg_id


@pytest.mark.parametrize("is_batch", [False, True], ids=["single", "batch"])
def test_broker_assigns_ids_to_single_messages_only(
    broker: AdminBroker, queue: MessageQueue, group: str, is_batch: bool
) -> None:
    """The description of column ``msgId`` names both. RocketMQ's ``SendMessageProcessor#sendMessage``."""
    body = encode_batch([Message(queue.topic, b"x")]) if is_batch else b"x"
    broker.call(send_batch_rpc(body, queue, group, properties=None if is_batch else ""))
    (stored,) = pulled(broker, group, queue)
    assert stored.body == b"x"
    assert ("UNIQ_KEY" in stored.properties, stored.msg_id == stored.offset_msg_id) == (not is_batch, is_batch)


@pytest.mark.parametrize("kind", [MessageSysFlag.ZLIB, MessageSysFlag.LZ4, MessageSysFlag.ZSTD])
def test_a_compressed_body_comes_back_plain(
    broker: AdminBroker, producer: Producer, queue: MessageQueue, group: str, kind: MessageSysFlag
) -> None:
    body = b"abc" * 5_000
    producer.send(Message(queue.topic, compress(body, kind)), queue, sys_flag=MessageSysFlag.COMPRESSED | kind)
    assert pulled(broker, group, queue)[0].body == body


def test_a_batch_is_stored_as_single_messages_one_after_another(
    broker: AdminBroker, producer: Producer, queue: MessageQueue, group: str
) -> None:
    result = producer.send_batch([Message(queue.topic, body, tags="T") for body in (b"a", b"b", b"c")], queue)
    stored = pulled(broker, group, queue)
    assert (result.queue, result.queue_offset) == (queue, 0)
    assert result.offset_msg_ids == tuple(message.offset_msg_id for message in stored)
    assert [(message.queue_offset, message.body, message.tags) for message in stored] == [
        (0, b"a", "T"),
        (1, b"b", "T"),
        (2, b"c", "T"),
    ]
    assert len({message.msg_id for message in stored}) == 3


def test_messages_go_round_the_queues(producer: Producer, topic: str) -> None:
    results = [producer.send(Message(topic, b"x")) for _ in range(8)]
    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_body_that_is_too_large_is_refused(producer: Producer, topic: str) -> None:
    assert refusal(lambda: producer.send(Message(topic, bytes(4 * 1024 * 1024 + 1)))) == ResponseCode.MESSAGE_ILLEGAL


def test_a_message_that_was_sent_back_is_redelivered_through_the_retry_topic(
    cluster: EmbeddedCluster, broker: AdminBroker, filled: MessageQueue, group: str
) -> None:
    with member(cluster, group, filled.topic) as mine:  # the first heartbeat creates the group's retry topic
        original = pulled(mine, group, filled)[3]
        send_back(mine, group, original, delay_level=1)
        again = pulled(mine, group, MessageQueue(f"%RETRY%{group}", "broker-a", 0))[0]
    assert (again.body, again.reconsume_times) == (b"3", 1)
    assert again.properties["RETRY_TOPIC"] == filled.topic
    assert again.properties["ORIGIN_MESSAGE_ID"] == original.offset_msg_id


def test_a_message_without_retries_left_goes_to_the_dlq(
    cluster: EmbeddedCluster, broker: AdminBroker, filled: MessageQueue, group: str
) -> None:
    with member(cluster, group, filled.topic) as mine:
        original = pulled(mine, group, filled)[0]
        send_back(mine, group, original, delay_level=-1)
        assert pulled(mine, group, MessageQueue(f"%DLQ%{group}", "broker-a", 0))[0].body == b"0"


def test_a_message_that_was_sent_back_too_often_goes_to_the_dlq(
    cluster: EmbeddedCluster, broker: AdminBroker, filled: MessageQueue, group: str
) -> None:
    with member(cluster, group, filled.topic) as mine:
        original = pulled(mine, group, filled)[0]
        send_back(mine, group, original, max_reconsume_times=0)
        assert pulled(mine, group, MessageQueue(f"%DLQ%{group}", "broker-a", 0))[0].body == b"0"


def test_a_message_that_the_broker_does_not_hold_cannot_be_sent_back(
    cluster: EmbeddedCluster, filled: MessageQueue, group: str
) -> None:
    with member(cluster, group, filled.topic) as mine:
        original = pulled(mine, group, filled)[0]
        with pytest.raises(DataLossError, match=rf"MESSAGE_DELETED.*{original.msg_id}.*commit log offset {10**12}"):
            send_back(mine, group, replace(original, commit_log_offset=10**12))


@pytest.mark.parametrize("sent", [Message("", b""), Message("", b"x", properties={"INNER_NUM": "1"})])
def test_a_message_that_the_broker_cannot_store_again_is_refused_for_good(
    cluster: EmbeddedCluster, producer: Producer, group: str, topic: str, sent: Message
) -> None:
    """It is refused with the code of an outage. Brokers store the messages of a batch unseen."""
    queue = producer.send_batch([replace(sent, topic=topic)]).queue
    with member(cluster, group, topic) as mine:
        stored = pulled(mine, group, queue)[0]
        with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL") as refused:
            send_back(mine, group, stored)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
    assert retryability_of_request(refused.value) is Retryability.PERMANENT


def test_the_dlq_can_be_read_like_any_topic(
    cluster: EmbeddedCluster, name_servers: NameServers, filled: MessageQueue, group: str
) -> None:
    with member(cluster, group, filled.topic) as mine:
        send_back(mine, group, pulled(mine, group, filled)[0], delay_level=-1)
    assert name_servers.query_topic_route(f"%DLQ%{group}").read_queues() == (
        MessageQueue(f"%DLQ%{group}", "broker-a", 0),
    )


def test_a_lock_of_the_group_sends_what_is_sent_to_its_retry_topic_to_the_dlq_and_not_what_is_sent_back(
    cluster: EmbeddedCluster, producer: Producer, filled: MessageQueue, group: str
) -> None:
    retry, dlq = (MessageQueue(f"{prefix}{group}", "broker-a", 0) for prefix in ("%RETRY%", "%DLQ%"))
    with member(cluster, group, filled.topic) as mine:
        original = pulled(mine, group, filled)[0]
        mine.submit_lock_batch(group, CLIENT_ID, [filled]).result()
        send_back(mine, group, original, delay_level=1)
        producer.send(Message(retry.topic, b"sent"))
        assert [message.body for message in pulled(mine, group, retry)] == [b"0"]
        assert [message.body for message in pulled(mine, group, dlq)] == [b"sent"]


# ---------------------------------------------------------------------------------------------------- configuration


def test_a_brokers_configuration_changes_while_it_runs(broker: AdminBroker, filled: MessageQueue, group: str) -> None:
    broker.update_config({"maxTransferCountOnMessageInMemory": "2"})
    try:
        assert broker.pull(group, filled, 0, 32).next_begin_offset == 2
    finally:
        broker.update_config({"maxTransferCountOnMessageInMemory": "32"})
    assert broker.pull(group, filled, 0, 32).next_begin_offset == 10
