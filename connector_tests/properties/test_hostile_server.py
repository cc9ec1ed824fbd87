"""Whatever a name server or broker answers: errors are ours, and memory and time stay within what it has sent.

The answers go over connections to the clients of name servers and brokers, and what these return is used as a member, a
plan, and a receiver of messages use it. ``test_claims`` has the same of single numbers.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connector_tests.support.address_space import MIB
from connector_tests.support.message_bytes import pull_body
from connector_tests.support.message_strategies import INT32, INT64, records
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.condition import one_line
from rocketmq_spark.consumer.broker_identities import find_broker_name, find_invalid_bounds
from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute, split_address
from rocketmq_spark.pop.delivery_attempts import split_exhausted
from rocketmq_spark.pop.pop_responses import batch_acks_of, decode_pop_response
from rocketmq_spark.pop.receipt_handles import BrokerHandle, handles_from_json, handles_to_json
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.pop_broker import PopBroker, PopOutcome
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.source.partitioning import tasks_of
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.wire.body.batch_ack import encode_batch_ack
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode
from rocketmq_spark.wire.remoting.headers import PopMessageRequest
from rocketmq_spark.wire.remoting.pull import read_pull

LEAST_BYTES: Final = 96 * MIB
"""What the smallest answer may make its reader take: a route of 65,536 queues, with two tables of them."""
FACTOR: Final = 64
"""And on top, for each byte that was sent; a value of JSON takes the most, some 30 bytes for each."""
LONGEST_S: Final = 10.0
LONGEST_CHARACTERS: Final = 5_000
"""Of an error, of which a log line and a Spark event have the whole text."""
TRACED: Final = 10
"""So much longer it may take while memory is traced."""
TIMEOUT_MS: Final = 10_000

NUMBERS: Final = st.sampled_from([0, 1, 4, -1, 65_535, 65_536, 65_537, 3_000_000, 2**31 - 1, 2**63 - 1, 2**64, 10**30])
TEXTS: Final = st.text(max_size=12) | st.sampled_from(["T", "a", "a:10911", "", "b\n[fake]", "x" * 300])
JSON: Final = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
LENGTHS: Final = st.sampled_from([b"[" * 50_000, b'{"a":' * 50_000, b"[" + b"[]," * 20_000 + b"0]", b"9" * 5_000])


def mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What ``strategy`` gives, and now and then anything else."""
    return st.integers(0, 9).flatmap(lambda dice: JSON if dice == 0 else strategy)


BROKERS: Final = st.fixed_dictionaries(
    {
        "brokerAddrs": mostly(st.dictionaries(st.sampled_from(["0", "1", "-1", "x"]), mostly(TEXTS), max_size=3)),
        "brokerName": mostly(TEXTS),
        "cluster": mostly(TEXTS),
    }
)
QUEUE_DATA: Final = st.fixed_dictionaries(
    {
        "brokerName": mostly(TEXTS),
        "perm": mostly(st.integers(0, 7) | NUMBERS),
        "readQueueNums": mostly(NUMBERS),
        "writeQueueNums": mostly(NUMBERS),
    }
)
ROUTES: Final = st.fixed_dictionaries(
    {
        "brokerDatas": mostly(st.lists(mostly(BROKERS), max_size=4)),
        "queueDatas": mostly(st.lists(QUEUE_DATA, max_size=4)),
    },
    optional={"topicQueueMappingByBroker": JSON},
)
CLUSTERS: Final = st.fixed_dictionaries(
    {
        "brokerAddrTable": mostly(st.dictionaries(TEXTS, mostly(BROKERS), max_size=3)),
        "clusterAddrTable": mostly(st.dictionaries(TEXTS, mostly(st.lists(TEXTS)), max_size=3)),
    }
)
QUEUES: Final = st.builds(
    lambda topic, broker, number: json.dumps({"topic": topic, "brokerName": broker, "queueId": number}),
    mostly(TEXTS),
    mostly(TEXTS),
    mostly(NUMBERS),
)
OFFSETS: Final = st.fixed_dictionaries(
    {"minOffset": mostly(NUMBERS), "maxOffset": mostly(NUMBERS), "lastUpdateTimestamp": mostly(NUMBERS)}
)
STATS: Final = st.fixed_dictionaries(
    {"offsetTable": mostly(st.dictionaries(QUEUES | TEXTS, mostly(OFFSETS), max_size=4))}
)
LISTS: Final = st.fixed_dictionaries(
    {"consumerIdList": mostly(st.lists(TEXTS)), "lockOKMQSet": mostly(st.lists(QUEUES.map(json.loads), max_size=3))}
)
POP_FIELDS: Final = st.dictionaries(
    st.sampled_from(["popTime", "invisibleTime", "reviveQid", "startOffsetInfo", "msgOffsetInfo", "orderCountInfo"]),
    NUMBERS.map(str)
    | TEXTS
    | st.lists(st.tuples(st.sampled_from("012x"), NUMBERS, NUMBERS), max_size=3).map(
        lambda entries: ";".join(f"{retry} {queue} {offset}" for retry, queue, offset in entries)
    ),
)


def encoded(value: Any) -> bytes:
    """As JSON, with its NaN and infinities; lone surrogates as escapes."""
    return json.dumps(value).encode()


def bodies(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return values.map(encoded) | JSON.map(encoded) | st.binary(max_size=60) | LENGTHS


def responses(values: st.SearchStrategy[bytes], fields: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[Any]:
    """Mostly a success; any code, remark and fields at times."""
    codes = st.just(int(ResponseCode.SUCCESS)) | st.sampled_from([*map(int, ResponseCode), -1, 99_999])
    return st.builds(
        build_response, codes, fields, values, st.none() | st.text(st.characters(exclude_categories=["Cs"]))
    )


NO_FIELDS: Final[st.SearchStrategy[dict[str, str]]] = st.just({}) | st.dictionaries(
    TEXTS.filter(str.isascii), TEXTS.filter(str.isascii), max_size=3
)


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a") as cluster:
        yield cluster


@contextmanager
def bounded(sent: RemotingCommand, *, is_traced: bool = True) -> Iterator[None]:
    """AssertionError where the block takes more memory or time than ``sent`` justifies, or raises what is not ours."""
    if is_traced:
        tracemalloc.start()
    begin_s = time.process_time()
    try:
        yield
    except RocketMQError as error:
        assert one_line(str(error)) == str(error)
        assert len(str(error)) < LONGEST_CHARACTERS
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        if is_traced:
            tracemalloc.stop()
    sent_bytes = len(sent.body) + len(sent.remark or "") + sum(map(len, sent.fields.values()))
    assert peak_bytes < LEAST_BYTES + FACTOR * sent_bytes
    assert time.process_time() - begin_s < LONGEST_S * (TRACED if is_traced else 1)


def broker_of(scripted: ScriptedCluster) -> Broker:
    return Broker(BrokerAddress("a:10911"), scripted.pool, TIMEOUT_MS)


# ---------------------------------------------------------------------------------------------------- routes


def use_route(scripted: ScriptedCluster, sent: RemotingCommand, *, is_traced: bool = True) -> None:
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, sent)
    with bounded(sent, is_traced=is_traced):
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


def use_cluster_info(scripted: ScriptedCluster, sent: RemotingCommand) -> None:
    scripted.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, sent)
    with bounded(sent):
        scripted.name_servers.cluster_info()


# ---------------------------------------------------------------------------------------------------- surveys


def use_stats(scripted: ScriptedCluster, sent: RemotingCommand) -> None:
    scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, sent)
    with bounded(sent):
        bounds = broker_of(scripted).query_topic_stats("T")
        if find_broker_name(bounds, "a") not in ("a", None) or find_invalid_bounds(bounds) is not None:
            return
        planned = {queue: QueueProgress(held.min_offset, *held[1:]) for queue, held in bounds.items()}
        offset = SourceOffset(planned)
        assert SourceOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset
        tasks_of(list(offset.ranges()), max_records=1_000)


def use_lists(scripted: ScriptedCluster, sent: RemotingCommand) -> None:
    codes = (RequestCode.GET_CONSUMER_LIST_BY_GROUP, RequestCode.LOCK_BATCH_MQ, RequestCode.GET_CONSUME_STATS)
    for code in codes:
        scripted.brokers["a"].on(code, sent)
    broker = broker_of(scripted)
    calls: tuple[Callable[[], object], ...] = (
        lambda: broker.submit_consumer_ids("g").result(),
        lambda: broker.submit_lock_batch("g", "me", [MessageQueue("T", "a", 0)]).result(),
        lambda: broker.query_consume_stats("g"),
    )
    for call in calls:
        with bounded(sent):
            call()


# ---------------------------------------------------------------------------------------------------- POP


def use_pop(scripted: ScriptedCluster, sent: RemotingCommand) -> None:
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
    with bounded(sent):
        PopBroker(BrokerAddress("a:10911"), scripted.pool, TIMEOUT_MS).pop(request, outcomes.put)
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


def any_pop_response() -> st.SearchStrategy[Any]:
    stored = st.lists(records(), max_size=3).map(lambda drawn: pull_body(*drawn))
    return responses(stored | st.binary(max_size=200), POP_FIELDS)


# ---------------------------------------------------------------------------------------------------- all of them

HOSTILE: Final[dict[str, tuple[st.SearchStrategy[Any], Callable[[ScriptedCluster, RemotingCommand], None]]]] = {
    "route": (responses(bodies(ROUTES), NO_FIELDS), use_route),
    "cluster info": (responses(bodies(CLUSTERS), NO_FIELDS), use_cluster_info),
    "survey": (responses(bodies(STATS), NO_FIELDS), use_stats),
    "group": (responses(bodies(LISTS), NO_FIELDS), use_lists),
    "POP": (any_pop_response(), use_pop),
}
EXAMPLES: Final = [
    pytest.param(60, id="short"),
    pytest.param(5_000, id="long", marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
]


@pytest.mark.parametrize("count", EXAMPLES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_any_response_takes_bounded_memory_and_gives_our_errors(
    scripted: ScriptedCluster, kind: str, count: int
) -> None:
    strategy, use = HOSTILE[kind]

    @settings(max_examples=count)
    @given(sent=strategy)
    def hostile(sent: RemotingCommand) -> None:
        use(scripted, sent)

    hostile()


@settings(max_examples=100)
@given(frame=st.binary(max_size=80), bits=INT32, number=INT64)
@example(frame=b"[" * 60_000, bits=60_000, number=0)
def test_any_frame_is_a_command_or_our_error(frame: bytes, bits: int, number: int) -> None:
    for header in (frame, b'{"code":0,"opaque":1,"extFields":{"nextBeginOffset":"%d"}}' % number):
        with bounded(RemotingCommand(0, body=frame)):
            read_pull(decode((bits & 0xFFFFFFFF).to_bytes(4, "big") + header))


@pytest.mark.parametrize("kind", HOSTILE)
def test_error_of_a_long_remark_is_short(scripted: ScriptedCluster, kind: str) -> None:
    for code in ResponseCode:
        HOSTILE[kind][1](scripted, build_response(code, remark="x" * 1_000_000))


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


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("body", "part"), OTHER_KEYS.values(), ids=OTHER_KEYS)
def test_bodies_with_other_keys_take_bounded_time(
    scripted: ScriptedCluster, body: bytes, part: bytes, count: int
) -> None:
    for is_traced in (False, True):
        use_route(scripted, build_response(body=body % (part * count)), is_traced=is_traced)


@pytest.mark.parametrize("body", LARGEST.values(), ids=LARGEST)
def test_the_largest_bodies_take_bounded_memory_and_time(scripted: ScriptedCluster, body: bytes) -> None:
    for is_traced in (False, True):
        use_route(scripted, build_response(body=body), is_traced=is_traced)


def test_a_hostile_name_server_leaves_the_next_one_its_chance(scripted: ScriptedCluster) -> None:
    """Nothing that a server states keeps the connection, or another call, from continuing."""
    connection_number = scripted.pool.connection_number(NAME_SERVER)
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(body=b"{"))
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY"):
        scripted.name_servers.query_topic_route("T")
    scripted.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, scripted.route)
    assert scripted.name_servers.query_topic_route("T").read_queues()
    assert scripted.pool.connection_number(NAME_SERVER) == connection_number
