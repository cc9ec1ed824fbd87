"""Whatever a name server or broker answers: errors are ours, and memory and time stay within what it has sent.

The answers go over connections to the clients of name servers and brokers, and what these return is used as a member, a
plan, and a receiver of messages use it. ``test_claims`` has the same of single numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from queue import Queue
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector_tests.support.address_space import MIB
from connector_tests.support.message_bytes import Record, pull_body
from connector_tests.support.message_strategies import INT32, INT64
from connector_tests.support.response_costs import ROWS_BYTES, bounded
from connector_tests.support.response_strategies import (
    CLUSTERS,
    LISTS,
    NO_FIELDS,
    ROUTES,
    RUNNING_INFOS,
    SETTINGS,
    STATS,
    TOPIC_LISTS,
    bodies,
    offset_responses,
    popped,
    responses,
)
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS, WAIT_S
from rocketmq_spark.consumer.broker_identities import find_broker_name, find_invalid_bounds
from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute, split_address
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.delivery_attempts import split_exhausted
from rocketmq_spark.pop.pop_responses import batch_acks_of, decode_pop_response
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceivedMessage, handles_from_json, handles_to_json
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pop_broker import PopBroker, PopOutcome
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.source.partitioning import tasks_of
from rocketmq_spark.source.pop.message_reader import read_parts
from rocketmq_spark.source.pop.message_tasks import tasks_of as message_tasks_of
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.wire.body.batch_ack import encode_batch_ack
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode
from rocketmq_spark.wire.remoting.headers import ChangeInvisibleTimeRequest, PopMessageRequest
from rocketmq_spark.wire.remoting.pull import read_pull

OPTIONS: Final = ReadOptions.parse(
    {"namesrvAddr": "h:1", "subscribe": "T", "consumerGroup": "g", "loadBalance": "message", "badMessages": "null"}
)
QUEUE: Final = MessageQueue("T", "a", 0)
Call = Callable[[], object]


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a") as cluster:
        yield cluster


def sent_bytes(sent: RemotingCommand) -> int:
    return len(sent.body) + len(sent.remark or "") + sum(map(len, sent.fields.values()))


def respond(scripted: ScriptedCluster, codes: Sequence[RequestCode], sent: RemotingCommand) -> None:
    """Have the broker respond to each of these requests with ``sent``."""
    for code in codes:
        scripted.brokers["a"].on(code, sent)


def broker_of(scripted: ScriptedCluster) -> Broker:
    return Broker(BrokerAddress("a:10911"), scripted.pool, REQUEST_TIMEOUT_MS)


CLUSTER: Final = build_response(
    body=b'{"brokerAddrTable":{"a":{"brokerAddrs":{"0":"a:10911"},"brokerName":"a","cluster":"c"}},'
    b'"clusterAddrTable":{"c":["a"]}}'
)
CHANGE: Final = ChangeInvisibleTimeRequest(
    consumer_group="g", topic="T", queue_id=0, extra_info="0 1 60000 1 0 a 0 0", offset=0, invisible_ms=1
)


# ---------------------------------------------------------------------------------------------------- routes


def use_route(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, sent)
    with bounded(sent_bytes(sent), is_traced=is_traced):
        route = scripted.name_servers.query_topic_route("T")
        assert isinstance(route, TopicRoute)
        table = RouteTable(scripted.name_servers)
        assert table.refresh(["T"]) == {}
        assert len(route.write_queues()) + len(table.queues["T"]) <= 2 * 65_536
        for address in table.addresses():
            try:
                split_address(address.server)
            except ValueError as problem:  # as connecting does
                raise TransportError("CONNECT_FAILED", address=str(address), reason=str(problem)) from problem


def use_cluster_info(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    scripted.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, sent)
    with bounded(sent_bytes(sent), is_traced=is_traced):
        scripted.name_servers.cluster_info()


def use_topic_list(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    scripted.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, CLUSTER)
    scripted.name_server.on(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, sent)
    with bounded(sent_bytes(sent), is_traced=is_traced):
        scripted.name_servers.query_topic_list()


# ---------------------------------------------------------------------------------------------------- surveys


def use_stats(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, sent)
    offset = SourceOffset()
    with bounded(sent_bytes(sent), is_traced=is_traced):
        bounds = broker_of(scripted).query_topic_stats("T")
        if find_broker_name(bounds, "a") not in ("a", None) or find_invalid_bounds(bounds) is not None:
            return
        offset = SourceOffset({queue: QueueProgress(*held) for queue, held in bounds.items()})
        tasks_of(list(offset.ranges()), max_records=1_000)
    assert SourceOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def call_each(sent: RemotingCommand, calls: Sequence[Call], *, is_traced: bool) -> None:
    for call in calls:
        with bounded(sent_bytes(sent), is_traced=is_traced):
            call()


def use_lists(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    codes = (RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.LOCK_BATCH_MQ, RequestCode.GET_CONSUME_STATS)
    respond(scripted, codes, sent)
    broker = broker_of(scripted)
    calls: tuple[Call, ...] = (
        lambda: broker.submit_consumer_ids("g").result(),
        lambda: broker.submit_lock_batch("g", "me", [QUEUE]).result(),
        lambda: broker.query_consume_stats("g"),
    )
    call_each(sent, calls, is_traced=is_traced)


def use_offsets(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    """The answer to the search by time is also that to the pulls that verify it."""
    codes = (
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.PULL_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    )
    respond(scripted, codes, sent)
    broker = broker_of(scripted)
    calls: tuple[Call, ...] = (
        lambda: broker.query_offsets("g", [QUEUE]),
        lambda: broker.search_offsets({QUEUE: 1_795_445_135_749}),
        lambda: broker.probe_store_times({QUEUE: 1}),
        lambda: broker.probe_sizes({QUEUE: 1}),
        lambda: pop_broker_of(scripted).submit_change_invisible_time(CHANGE).result(),
    )
    call_each(sent, calls, is_traced=is_traced)


def use_settings(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    codes = (
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_BROKER_RUNTIME_INFO,
    )
    respond(scripted, codes, sent)
    broker = broker_of(scripted)
    calls: tuple[Call, ...] = (
        lambda: pop_broker_of(scripted).query_group_retry_settings("g"),
        lambda: broker.query_group_switches("g"),
        lambda: broker.query_topic_settings("T"),
        lambda: broker.query_group_names(),
        lambda: broker.query_group_connections("g"),
        lambda: broker.query_clock_ms(),
    )
    call_each(sent, calls, is_traced=is_traced)


def use_running_info(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    """Broken ones are omitted."""
    scripted.brokers["a"].on(RequestCode.GET_CONSUMER_RUNNING_INFO, sent)
    with bounded(2 * sent_bytes(sent), is_traced=is_traced):
        infos = broker_of(scripted).query_running_infos("g", ["one", "other"])
        assert len(infos) in (0, 2)


# ---------------------------------------------------------------------------------------------------- POP


def pop_broker_of(scripted: ScriptedCluster) -> PopBroker:
    return PopBroker(BrokerAddress("a:10911"), scripted.pool, REQUEST_TIMEOUT_MS)


def use_pop(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    scripted.brokers["a"].on(RequestCode.POP_MESSAGE, sent)
    outcomes: Queue[PopOutcome] = Queue()
    request = PopMessageRequest(
        consumer_group="g",
        topic="T",
        max_message_count=32,
        invisible_ms=60_000,
        poll_ms=1,
        born_timestamp_ms=1,
        init_mode=0,
    )
    received: list[ReceivedMessage] = []
    with bounded(sent_bytes(sent), is_traced=is_traced):
        pop_broker_of(scripted).pop(request, outcomes.put)
        outcome = outcomes.get(timeout=WAIT_S)
        if isinstance(outcome, RocketMQError):
            raise outcome
        if outcome is None:
            return
        received = decode_pop_response("T", "a", outcome.header, outcome.body)
        split_exhausted(received, 1)
        handles = [one.handle for one in received if isinstance(one.handle, BrokerHandle)]
        encode_batch_ack("a", batch_acks_of("g", handles))
        assert sorted(handles_from_json(handles_to_json(handles))) == sorted(set(handles))
    with bounded(sent_bytes(sent), is_traced=False, more_bytes=ROWS_BYTES):  # Arrow allocates by itself
        for parts in message_tasks_of(received, None):
            assert all(len(batch) for batch in read_parts(parts, OPTIONS, default_schema()))


# ---------------------------------------------------------------------------------------------------- all of them

HOSTILE: Final[dict[str, tuple[st.SearchStrategy[Any], Callable[..., None]]]] = {
    "route": (responses(bodies(ROUTES), NO_FIELDS), use_route),
    "cluster info": (responses(bodies(CLUSTERS), NO_FIELDS), use_cluster_info),
    "topic list": (responses(bodies(TOPIC_LISTS), NO_FIELDS), use_topic_list),
    "survey": (responses(bodies(STATS), NO_FIELDS), use_stats),
    "group": (responses(bodies(LISTS), NO_FIELDS), use_lists),
    "offsets and times": (offset_responses(), use_offsets),
    "settings": (responses(bodies(SETTINGS), NO_FIELDS), use_settings),
    "running info": (responses(bodies(RUNNING_INFOS), NO_FIELDS), use_running_info),
    "POP": (popped(), use_pop),
}
SHORT: Final = 60
FAST: Final = frozenset({"topic list", "offsets and times", "settings", "running info"})
"""Traced by the long form only, as they make several calls for each response; by the short one the resident size
counts."""
EXAMPLES: Final = [
    pytest.param(SHORT, id="short"),
    pytest.param(5_000, id="long", marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
]


@pytest.mark.parametrize("count", EXAMPLES)
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.usefixtures("printed")
def test_any_response_takes_bounded_memory_and_gives_our_errors(
    scripted: ScriptedCluster, kind: str, count: int
) -> None:
    strategy, use = HOSTILE[kind]
    is_traced = kind not in FAST or count > SHORT

    @settings(max_examples=count)
    @given(sent=strategy)
    def hostile(sent: RemotingCommand) -> None:
        use(scripted, sent, is_traced=is_traced)

    hostile()


@settings(max_examples=100)
@given(frame=st.binary(max_size=80), bits=INT32, number=INT64)
@example(frame=b"[" * 60_000, bits=60_000, number=0)
def test_any_frame_is_a_command_or_our_error(frame: bytes, bits: int, number: int) -> None:
    for header in (frame, b'{"code":0,"opaque":1,"extFields":{"nextBeginOffset":"%d"}}' % number):
        with bounded(len(frame)):
            read_pull(decode((bits & 0xFFFFFFFF).to_bytes(4, "big") + header))


@pytest.mark.parametrize("kind", HOSTILE)
def test_error_of_a_long_remark_is_short(scripted: ScriptedCluster, kind: str) -> None:
    for code in ResponseCode:
        HOSTILE[kind][1](scripted, build_response(code, remark="x" * 20_000), is_traced=kind not in FAST)


MIB_16: Final = 16 * MIB


LARGEST: Final = {
    "lists": b'{"queueDatas":[' + b"[]," * (MIB_16 // 3 - 10) + b"0]}",
    "objects": b'{"queueDatas":[' + b"{}," * 330_000 + b"0]}",
    "wide text": b'{"queueDatas":[' + b'"\xf0\x9f\x98\x80",' * 140_000 + b"0]}",
    "depth": b"[" * MIB_16,
    "one text": b'{"a":"' + b"x" * (MIB_16 - 8) + b'"}',
    "too large": b'{"a":"' + b"x" * (2 * MIB_16) + b'"}',
}
OTHER_KEYS: Final = {
    "other keys": (b"{%s0:0}", b"0:0,"),
    "objects with other keys": (b"[%s0]", b"{0:{1:1}},"),
    "others inside": (b"[%s0]", b'{"a":{1:1}},'),
}
"""What is not standard JSON takes the most time."""


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("body", "part"), OTHER_KEYS.values(), ids=OTHER_KEYS)
def test_bodies_with_other_keys_take_bounded_time(
    scripted: ScriptedCluster, body: bytes, part: bytes, count: int
) -> None:
    for is_traced in (False, True):
        use_route(scripted, build_response(body=body % (part * count)), is_traced=is_traced)


@pytest.mark.parametrize("body", LARGEST.values(), ids=LARGEST)
@pytest.mark.usefixtures("printed")
def test_the_largest_bodies_take_bounded_memory_and_time(scripted: ScriptedCluster, body: bytes) -> None:
    for is_traced in (False, True):
        use_route(scripted, build_response(body=body), is_traced=is_traced)


QUEUE_KEY: Final = b'{"brokerName":"a","queueId":%d,"topic":"T"}'


def listed(begin: bytes, entry: bytes, count: int, end: bytes) -> bytes:
    """JSON of many entries, with their numbers."""
    return begin + b",".join(entry % number for number in range(count)) + end


LARGE: Final[dict[str, Callable[[int], bytes]]] = {
    "cluster info": lambda mib: listed(b'{"brokerAddrTable":{', b'"%d":{"brokerAddrs":{}}', 30_000 * mib, b"}}"),
    "topic list": lambda mib: listed(b'{"topicList":[', b'"%d"', 60_000 * mib, b"]}"),
    "survey": lambda mib: listed(
        b'{"offsetTable":{',
        QUEUE_KEY + b':{"lastUpdateTimestamp":1,"maxOffset":7,"minOffset":0}',
        7_500 * mib,
        b"}}",
    ),
    "group": lambda mib: listed(b'{"consumerIdList":[', b'"%d"', 60_000 * mib, b"]}"),
    "settings": lambda mib: listed(b'{"subscriptionGroupTable":{', b'"%d":{}', 30_000 * mib, b"}}"),
    "running info": lambda mib: listed(
        b'{"properties":{},"subscriptionSet":[],"mqTable":{',
        QUEUE_KEY + b':{"cachedMsgCount":1,"cachedMsgMaxOffset":1,"cachedMsgMinOffset":1,"commitOffset":1,'
        b'"droped":false,"lastConsumeTimestamp":1,"lastLockTimestamp":1,"lastPullTimestamp":1,"locked":true}',
        4_500 * mib,
        b"}}",
    ),
}
"""For so many sixteenths of the size, or the number of values, that is accepted."""


@pytest.mark.parametrize("mib", [1, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", LARGE)
@pytest.mark.usefixtures("printed")
def test_large_responses_take_bounded_memory_and_time(scripted: ScriptedCluster, kind: str, mib: int) -> None:
    HOSTILE[kind][1](scripted, build_response(body=LARGE[kind](mib)), is_traced=False)


@pytest.mark.parametrize("mib", [16, pytest.param(64, marks=pytest.mark.long)])
@pytest.mark.parametrize("count", [1, 1_024])
@pytest.mark.usefixtures("printed")
def test_large_pop_responses_take_bounded_memory_and_time(scripted: ScriptedCluster, mib: int, count: int) -> None:
    body = bytes(mib * MIB // count)
    messages = [Record(queue_id=1, queue_offset=5 + index, body=body) for index in range(count)]
    offsets = ",".join(str(5 + index) for index in range(count))
    fields = {
        "popTime": "1",
        "invisibleTime": "60000",
        "reviveQid": "1",
        "startOffsetInfo": "0 1 5",
        "msgOffsetInfo": f"0 1 {offsets}",
    }
    use_pop(scripted, build_response(fields=fields, body=pull_body(*messages)), is_traced=False)


def test_a_hostile_name_server_leaves_the_next_one_its_chance(scripted: ScriptedCluster) -> None:
    """Nothing that a server states keeps the connection, or another call, from continuing."""
    connection_number = scripted.pool.connection_number(NAME_SERVER)
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(body=b"{"))
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY"):
        scripted.name_servers.query_topic_route("T")
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, scripted.route)
    assert scripted.name_servers.query_topic_route("T").read_queues()
    assert scripted.pool.connection_number(NAME_SERVER) == connection_number
