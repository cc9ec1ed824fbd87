"""Rows of a task on their way to a real broker and back, as our source and Java's client read them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.java_reader import ADDED_ON_THE_WAY, read_by_java
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PATIENT_MS, WAIT_S
from connector_tests.support.written_rows import arrow, ends, row_number, stored, write
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import BrokerError, LocalProtocolError
from rocketmq_spark.model import BrokerAddress, MessageQueue
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.remoting_client import RemotingClient, Rpc, decode_nothing
from rocketmq_spark.sink.send_batches import queue_by_hash
from rocketmq_spark.sink.write_task import WriteTask
from rocketmq_spark.wire.remoting.command import RemotingCommand

pytestmark = pytest.mark.broker

PUT_KV_CONFIG = 100
UPDATE_NAMESRV_CONFIG = 318

LATER = timedelta(seconds=3)
MOST_BYTES = 4 * 1024 * 1024
"""What brokers take of a body unless they are told otherwise."""

TEXT = st.text(st.characters(exclude_characters="\x02", codec="utf-8"), min_size=1, max_size=12)
NAME = st.text("abcé中\U0001f680 _.", min_size=1, max_size=8)
ROW = st.fixed_dictionaries(
    {
        "body": st.binary(min_size=1, max_size=40) | st.binary(min_size=1, max_size=9).map(lambda part: part * 700),
        "tags": st.none() | TEXT,
        "keys": st.none() | TEXT,
        "properties": st.none() | st.dictionaries(NAME, TEXT, max_size=3).map(lambda one: list(one.items())),
        "shardingKey": st.none() | st.sampled_from(["a", "b", "é"]),
    }
)
COMPRESSION = st.sampled_from(["none", "zlib", "lz4", "zstd"])
ROWS = st.builds(
    lambda rows, count: list(islice(cycle(rows), count)),
    st.lists(ROW, min_size=20, max_size=60),
    st.integers(200, 300),
)
"""Some rows over and over: an example has at most 8 KB of draws, into which 200 different rows fit only if all are
shortest."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(PATIENT_MS)
    yield pool
    pool.close()


def as_read(row: dict[str, Any], id_: str) -> dict[str, Any]:
    """What a reader is to find."""
    named = {"TAGS": row["tags"], "KEYS": row["keys"], "__SHARDINGKEY": row["shardingKey"], "UNIQ_KEY": id_}
    properties = {name: value for name, value in named.items() if value is not None} | dict(row["properties"] or [])
    return {name: row[name] for name in ("body", "tags", "keys")} | {"msgId": id_, "properties": properties}


def own(row: dict[str, Any]) -> dict[str, Any]:
    """A row that was read, without what the broker has added."""
    properties = {name: value for name, value in row["properties"] if name not in ADDED_ON_THE_WAY}
    return {name: row[name] for name in ("body", "tags", "keys", "msgId")} | {"properties": properties}


def by_number(row: dict[str, Any]) -> int:
    return row_number(row["msgId"])


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=ROWS, compression=COMPRESSION)
def test_any_row_is_read_as_it_was_written(
    cluster: EmbeddedCluster, pool: ConnectionPool, rows: list[dict[str, Any]], compression: str
) -> None:
    round_trip(cluster, pool, rows, compression)


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=ROWS, compression=COMPRESSION)
def test_any_of_ten_thousand_rows_is_read_as_it_was_written(
    cluster: EmbeddedCluster, pool: ConnectionPool, rows: list[dict[str, Any]], compression: str
) -> None:
    round_trip(cluster, pool, rows, compression)


def round_trip(cluster: EmbeddedCluster, pool: ConnectionPool, rows: list[dict[str, Any]], compression: str) -> None:
    """Every column comes back; rows of one sharding key are in one queue, in their order."""
    topic = cluster.create_topic(unique_name("round_trip"))
    half = len(rows) // 2
    task = WriteTask("round trip", 1)
    given = {"compression": compression, "compressMsgBodyOverHowmuch": "1000"}
    assert write(cluster.namesrv_addr, topic, [arrow(rows[:half]), arrow(rows[half:])], task, pool, **given) == len(
        rows
    )

    eventually(lambda: sum(ends(cluster, topic, pool).values()) == len(rows), "all rows in their queues")
    read = stored(cluster, topic, pool)
    found = sorted(map(own, read), key=by_number)
    assert list(map(by_number, found)) == list(range(len(rows)))
    assert found == [as_read(row, one["msgId"]) for row, one in zip(rows, found, strict=True)]
    for key in ("a", "b", "é"):
        of_key = [row for row in read if dict(row["properties"]).get("__SHARDINGKEY") == key]
        assert len({row["queueId"] for row in of_key}) <= 1
        assert [by_number(row) for row in of_key] == sorted(map(by_number, of_key))
    cluster.delete_topic(topic)


@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC"])
def test_a_write_to_a_forbidden_topic_fails_at_once(cluster: EmbeddedCluster, pool: ConnectionPool, topic: str) -> None:
    begin_s = time.monotonic()
    with pytest.raises(BrokerError, match=f"TOPIC_RESERVED.*{topic}"):
        write(cluster.namesrv_addr, topic, [arrow([{"body": b"1"}])], WriteTask("forbidden", 1), pool)
    assert time.monotonic() - begin_s < WAIT_S


@pytest.mark.parametrize("compression", ["none", "zlib", "lz4", "zstd"])
def test_java_reads_what_was_written(
    cluster: EmbeddedCluster, pool: ConnectionPool, java: Any, compression: str
) -> None:
    topic = cluster.create_topic(unique_name("for_java"))
    rows: list[dict[str, Any]] = [
        {"body": bytes([number]) * 2_000, "tags": "é", "keys": "k1 k2", "properties": [("colour", "blau\x01")]}
        for number in range(10)
    ] + [{"body": b"plain", "shardingKey": "s"}, {"body": b"late", "delayLevel": 1}]
    given = {"compression": compression, "compressMsgBodyOverHowmuch": "1000"}
    write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("java", 0), pool, **given)

    read = read_by_java(java, cluster.namesrv_addr, topic, len(rows))
    found = [
        {name: one[name] for name in ("body", "tags", "keys", "msgId")} | {"colour": one["properties"].get("colour")}
        for one in read
    ]
    found.sort(key=by_number)
    assert list(map(by_number, found)) == list(range(len(rows)))
    assert found == [
        {
            "body": row["body"],
            "tags": row.get("tags"),
            "keys": row.get("keys"),
            "msgId": one["msgId"],
            "colour": dict(row.get("properties") or []).get("colour"),
        }
        for row, one in zip(rows, found, strict=True)
    ]


def test_a_row_is_stored_in_the_queue_that_it_names_and_when_it_requests(
    cluster: EmbeddedCluster, pool: ConnectionPool
) -> None:
    topic = cluster.create_topic(unique_name("placed"))
    rows: list[dict[str, Any]] = [
        {"body": b"%d" % number, "brokerName": "broker-a", "queueId": number % 3} for number in range(30)
    ]
    delayed = {"body": b"30", "brokerName": "broker-a", "queueId": 3, "delayLevel": 1}
    write(cluster.namesrv_addr, topic, [arrow([delayed, *rows])], WriteTask("placed", 0), pool)
    eventually(lambda: sum(ends(cluster, topic, pool).values()) == 31, "all rows, the delayed one too")
    read = stored(cluster, topic, pool)
    assert [(row["queueId"], int(row["body"])) for row in read] == [
        *((number % 3, number) for number in sorted(range(30), key=lambda number: (number % 3, number))),
        (3, 30),
    ]
    assert read[-1]["storeTimestamp"] - read[-1]["bornTimestamp"] >= timedelta(seconds=1)


def test_rows_go_where_the_name_server_has_an_order_configuration(
    cluster: EmbeddedCluster, pool: ConnectionPool
) -> None:
    """0 of 12 keys were in Java's queue, and rows were in queues that the configuration omits."""
    topic = cluster.create_topic(unique_name("ordered"))
    keys = [None, *(f"k{number}" for number in range(12))] * 2
    rows = [{"body": b"x", "shardingKey": key} for key in keys]
    with order_configuration(cluster, pool, topic, "broker-a:2"):
        for row in rows:
            write(cluster.namesrv_addr, topic, [arrow([row])], WriteTask("ordered", 0), pool)
    eventually(lambda: sum(ends(cluster, topic, pool).values()) == len(rows), "all rows")
    queues = tuple(MessageQueue(topic, "broker-a", queue_id) for queue_id in range(2))
    for found in stored(cluster, topic, pool):
        key = dict(found["properties"]).get("__SHARDINGKEY")
        assert found["queueId"] in ({0, 1} if key is None else {queue_by_hash(key, queues).queue_id})


@contextmanager
def order_configuration(cluster: EmbeddedCluster, pool: ConnectionPool, topic: str, value: str) -> Iterator[None]:
    """The topic's, at the name server, which has it in routes as long as the block runs."""
    name_server = RemotingClient(BrokerAddress(cluster.namesrv_addr), pool, PATIENT_MS)
    configuration = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": value}
    name_server.call(Rpc(RemotingCommand(PUT_KV_CONFIG, fields=configuration), decode_nothing))

    def set_enabled(text: str) -> None:
        body = f"orderMessageEnable={text}".encode()
        name_server.call(Rpc(RemotingCommand(UPDATE_NAMESRV_CONFIG, body=body), decode_nothing))

    set_enabled("true")
    try:
        yield
    finally:
        set_enabled("false")


def test_rows_for_a_retry_topic_are_stored_beside_others(cluster: EmbeddedCluster, pool: ConnectionPool) -> None:
    """Also such that nobody could send, which go to a dead-letter topic that is a retry topic. The other topic's name
    is as long as a batch may have it."""
    topic = cluster.create_topic(unique_name("beside_retries").ljust(127, "x"))
    retries = cluster.create_topic(f"%RETRY%{unique_name('retries')}", queues=1)
    rows = [{"body": b"%d" % number, "topic": retries if number % 3 else topic} for number in range(9)]
    write(
        cluster.namesrv_addr,
        "",
        [arrow([*rows, {"body": b""}])],
        WriteTask("retries", 0),
        pool,
        deadLetterTopic=retries,
    )
    eventually(lambda: sum(ends(cluster, retries, pool).values()) == 7, "all rows for the retry topic")
    *written, letter = sorted(stored(cluster, retries, pool), key=by_number)
    assert [row["body"] for row in written] == [b"1", b"2", b"4", b"5", b"7", b"8"]
    assert by_number(letter) == 9
    assert sorted(row["body"] for row in stored(cluster, topic, pool)) == [b"0", b"3", b"6"]


def test_a_row_is_delivered_as_late_as_it_requests(cluster: EmbeddedCluster, pool: ConnectionPool) -> None:
    topic = cluster.create_topic(unique_name("late"), queues=1)
    began = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {"body": b"in seconds", "delaySeconds": LATER.seconds},
        {"body": b"at a time", "deliverTimestamp": began + LATER},
    ]
    write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("late", 0), pool)
    eventually(lambda: sum(ends(cluster, topic, pool).values()) == len(rows), "both rows")
    read = stored(cluster, topic, pool)
    assert {row["body"] for row in read} == {b"in seconds", b"at a time"}
    assert all(row["storeTimestamp"] - began > LATER - timedelta(seconds=1) for row in read)


@pytest.mark.parametrize("beyond_bytes", [-64, 0])
def test_a_body_up_to_the_limit_is_stored_whatever_else_the_message_has(
    cluster: EmbeddedCluster, pool: ConnectionPool, beyond_bytes: int
) -> None:
    """As a batch of one it was larger than that, refused, and sent again until the time was over."""
    topic = cluster.create_topic(unique_name("large"), queues=1)
    body = bytes([1]) * (MOST_BYTES + beyond_bytes)
    write(cluster.namesrv_addr, topic, [arrow([{"body": body, "keys": "k"}])], WriteTask("large", 0), pool)
    (row,) = stored(cluster, topic, pool)
    assert (len(row["body"]), row["keys"]) == (len(body), "k")


def test_a_body_above_the_limit_is_named(cluster: EmbeddedCluster, pool: ConnectionPool) -> None:
    topic = cluster.create_topic(unique_name("too_large"), queues=1)
    rows = [{"body": b"small"}, {"body": bytes(MOST_BYTES + 1)}]
    with pytest.raises(LocalProtocolError, match=r"Invalid row 1 in partition 0 of .*: "):
        write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("too large", 0), pool)
    assert sum(ends(cluster, topic, pool).values()) == 0


@pytest.mark.parametrize("perm", [None, 4], ids=["no topic", "a topic to read only"])
def test_rows_for_a_topic_that_is_not_writable_are_named_and_nothing_beside_them_is_sent(
    cluster: EmbeddedCluster, pool: ConnectionPool, perm: int | None
) -> None:
    good, undecodable = cluster.create_topic(unique_name("good"), queues=1), unique_name("bad")
    if perm is not None:
        cluster.create_topic(undecodable, queues=1, perm=perm)
    batch = arrow([{"body": b"a", "topic": good}, {"body": b"b", "topic": undecodable}])
    with pytest.raises(LocalProtocolError, match=rf"Invalid row 1 in partition 2 of .*: .*{undecodable}"):
        write(cluster.namesrv_addr, "", [batch], WriteTask("bad topic", 2), pool, missingTopicTimeoutMs="0")
    assert sum(ends(cluster, good, pool).values()) == 0


def test_what_cannot_be_sent_is_read_from_the_dead_letter_topic_with_its_reason(
    cluster: EmbeddedCluster, pool: ConnectionPool
) -> None:
    topic, dead = (cluster.create_topic(unique_name(name), queues=1) for name in ("alive", "dead"))
    rows: list[dict[str, Any]] = [{"body": b"%d" % number, "topic": topic} for number in range(7)]
    rows[3:3] = [
        {"body": b"", "topic": topic},
        {"body": b"x", "topic": topic, "properties": [("TAGS", "mine")]},
        {"body": b"y", "topic": "no-such-topic"},
    ]
    given = {"deadLetterTopic": dead, "missingTopicTimeoutMs": "0"}
    assert write(cluster.namesrv_addr, "", [arrow(rows)], WriteTask("dead letters", 0), pool, **given) == len(rows)
    assert [row["body"] for row in stored(cluster, topic, pool)] == [b"%d" % number for number in range(7)]
    dead_rows = {
        row["INVALID_ROW_POSITION"]: row for row in (dict(one["properties"]) for one in stored(cluster, dead, pool))
    }
    assert [name.split()[1] for name in sorted(dead_rows)] == ["3", "4", "5"], sorted(dead_rows)
    problems = [dead_rows[name]["INVALID_ROW_PROBLEM"] for name in sorted(dead_rows)]
    for problem, reported in zip(problems, ("its body is empty", "TAGS", "no-such-topic"), strict=True):
        assert reported in problem


def test_the_largest_body_of_noise_is_stored_and_its_dead_letter_too(
    cluster: EmbeddedCluster, pool: ConnectionPool
) -> None:
    """Compressed it is larger than any broker takes."""
    topic, dead = (cluster.create_topic(unique_name(name), queues=1) for name in ("noise", "dead"))
    rows = [{"body": Random(number).randbytes(MOST_BYTES + number)} for number in (0, 1)]
    options = {"compression": "zstd", "deadLetterTopic": dead}
    assert write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("noise", 0), pool, **options) == 2
    assert [sum(ends(cluster, one, pool).values()) for one in (topic, dead)] == [1, 1]


def test_what_no_replica_has_is_accepted_where_that_is_configured(pool: ConnectionPool) -> None:
    """The broker states so after 3 s, the default of ``brokerTimeoutMs``: the rows were sent again and again."""
    settings = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "minInSyncReplicas": "1"}
    with RestingCluster(broker_config=settings) as lonely:
        topic = lonely.create_topic("lonely", queues=1)
        rows = [{"body": b"%d" % number} for number in range(10)]
        options = {"acceptNotDurable": "true", "clusterTimeoutMs": "15000"}
        assert write(lonely.namesrv_addr, topic, [arrow(rows)], WriteTask("lonely", 0), pool, **options) == 10
        assert sum(ends(lonely, topic, pool).values()) == 10


def test_rows_without_keys_are_no_rows_of_a_compacted_topic(cluster: EmbeddedCluster, pool: ConnectionPool) -> None:
    """In a batch a broker takes them, states that they are stored, and drops them."""
    compaction = {"cleanup.policy": "COMPACTION"}
    topic = cluster.create_topic(unique_name("compacted"), queues=1, attributes=compaction)
    rows: list[dict[str, Any]] = [{"body": b"%d" % number, "keys": f"k{number}"} for number in range(5)]
    with pytest.raises(LocalProtocolError, match=r"Invalid row 5 .*has no keys, and its topic .*COMPACTION"):
        write(cluster.namesrv_addr, topic, [arrow([*rows, {"body": b"lost"}])], WriteTask("compacted", 0), pool)
    assert sum(ends(cluster, topic, pool).values()) == 0
    assert write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("compacted", 1), pool) == len(rows)
    eventually(lambda: sum(ends(cluster, topic, pool).values()) == len(rows), "all that is stored is counted")
    assert [row["body"] for row in stored(cluster, topic, pool)] == [row["body"] for row in rows]


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"brokerName": "broker-a", "queueId": 9}, r"has no queue 9 at 'broker-a' \(there are: 0 to 1\)"),
        ({"brokerName": "brokr-a", "queueId": 0}, r"no broker 'brokr-a' serves its topic .* \(there are: broker-a\)"),
    ],
)
def test_a_queue_that_there_is_not_is_found_before_anything_is_sent(
    cluster: EmbeddedCluster, pool: ConnectionPool, named: dict[str, Any], problem: str
) -> None:
    """It was found after the good rows of its batch were sent, and a broker of that name was waited for."""
    topic = cluster.create_topic(unique_name("queues"), queues=2)
    rows = [{"body": b"good"}, {"body": b"bad", **named}]
    given = {"missingTopicTimeoutMs": "0"}
    with pytest.raises(LocalProtocolError, match=rf"Invalid row 1 .*{problem}"):
        write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("queues", 0), pool, **given)
    assert sum(ends(cluster, topic, pool).values()) == 0
    given["deadLetterTopic"] = dead = cluster.create_topic(unique_name("dead"), queues=1)
    assert write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("queues", 1), pool, **given) == 2
    eventually(lambda: [sum(ends(cluster, one, pool).values()) for one in (topic, dead)] == [1, 1], "a row in each")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (None, "TOPIC_NOT_FOUND"),
        ({"perm": 4}, "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE"),
        ({"attributes": {"cleanup.policy": "COMPACTION"}}, "it has no keys, and its topic '{dead}' keeps the last"),
    ],
    ids=["missing", "read only", "compacted"],
)
def test_a_dead_letter_topic_that_takes_nothing_is_found_before_anything_is_sent(
    cluster: EmbeddedCluster, pool: ConnectionPool, made: dict[str, Any] | None, why: str
) -> None:
    """The good rows were sent first, and into a compacted one dead letters went as if it kept them."""
    topic, dead = cluster.create_topic(unique_name("good"), queues=1), unique_name("dead")
    if made is not None:
        cluster.create_topic(dead, queues=1, **made)
    rows = [{"body": b"g"}, {"body": b""}, {"body": b"h"}]
    given = {"deadLetterTopic": dead, "missingTopicTimeoutMs": "0"}
    refused = r"Invalid row 1 .*its body is empty.*'deadLetterTopic' cannot be used"
    with pytest.raises(LocalProtocolError, match=refused) as raised:
        write(cluster.namesrv_addr, topic, [arrow(rows)], WriteTask("no letters", 0), pool, **given)
    assert why.format(dead=dead) in str(raised.value)
    assert sum(ends(cluster, topic, pool).values()) == 0
    assert write(cluster.namesrv_addr, topic, [arrow(rows[:1])], WriteTask("no letters", 1), pool, **given) == 1
