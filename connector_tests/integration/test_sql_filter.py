"""Filters of the real broker, by tags and by SQL92, as executors and batch plans use them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any

import pytest

import rocketmq_spark
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.message_bytes import INNER_BATCH, inner_batch
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, QueueRange
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.pull.executor_pull_client import shared_pull_client
from rocketmq_spark.pull.range_puller import new_range_puller
from rocketmq_spark.remoting.broker_rpcs import send_header, send_rpc
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.batch.batch_plan import QueueLookup
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.remoting.codes import RequestCode

pytestmark = pytest.mark.broker

COUNT = 600
TAGS = ("Aa", "BB", "aa", " Aa", "TagA", "TagB", "TagC", None)
"""The first two have one hash, and a broker takes them for one another."""

Properties = Mapping[str, str | None]


def properties_of(number: int) -> dict[str, str | None]:
    """One in 100 messages is rare, one in 3 has no price, one in 5 a ratio."""
    return {
        "TAGS": TAGS[number % len(TAGS)],
        "price": str(number) if number % 3 else None,
        "ratio": f"{number}.5" if number % 5 == 0 else None,
        "region": ("north", "south", "it's", "Nord")[number % 4],
        "urgent": ("true", "false")[number % 2],
        "rare": "yes" if number % 100 == 99 else None,
    }


def number_of(text: str | None) -> float:
    return float("nan") if text is None else float(text)


@pytest.fixture(scope="module")
def filled(cluster: EmbeddedCluster) -> Iterator[MessageQueue]:
    """A queue with COUNT messages, whose bodies are their offsets."""
    topic = cluster.create_topic(unique_name("filtered"), queues=1)
    with closing(Topic(cluster, topic)) as handle:
        for begin in range(0, COUNT, 100):
            handle.send_as_they_are([message(topic, number) for number in range(begin, begin + 100)])
        (queue,) = handle.queues
        yield queue


def message(topic: str, number: int) -> Message:
    named = {name: text for name, text in properties_of(number).items() if text is not None}
    tag = named.pop("TAGS", None)
    return Message(topic, b"%d" % number, tags=tag, properties=named)


OptionsOf = Callable[..., BatchReadOptions]


@pytest.fixture
def options_of(cluster: EmbeddedCluster, filled: MessageQueue) -> OptionsOf:
    def make(expression: str, expression_type: str = "SQL92", **more: str) -> BatchReadOptions:
        given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": filled.topic} | more
        return BatchReadOptions.parse(given | {"subExpression": expression, "expressionType": expression_type})

    return make


def read(queue: MessageQueue, options: BatchReadOptions, begin: int = 0, end: int = COUNT) -> list[int]:
    """Offsets of the rows; each has the body that was sent there."""
    batches = read_ranges([QueueRange(queue, begin, end)], options, default_schema())
    rows = [row for batch in batches for row in batch.to_pylist()]
    offsets = [int(row["queueOffset"]) for row in rows]
    assert [int(row["body"]) for row in rows] == offsets
    return offsets


def matching(predicate: Callable[[Properties], bool]) -> list[int]:
    return [number for number in range(COUNT) if predicate(properties_of(number))]


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("Aa", {"Aa"}),
        ("BB", {"BB"}),
        ("Aa||BB", {"Aa", "BB"}),
        ("aa", {"aa"}),
        ("AA", set()),
        (" || Aa || ", {"Aa"}),
        ("||TagB|| ||\tTagA ||", {"TagA", "TagB"}),
        ("TagA | TagB", set()),
    ],
)
def test_tags_match_by_their_exact_text(
    filled: MessageQueue, options_of: OptionsOf, expression: str, tags: set[str]
) -> None:
    assert read(filled, options_of(expression, "TAG")) == matching(lambda given: given["TAGS"] in tags)


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize(
    ("expression", "predicate"),
    [
        ("price = 4", lambda given: number_of(given["price"]) == 4),
        ("price <> 4", lambda given: given["price"] is not None and number_of(given["price"]) != 4),
        ("price > 500", lambda given: number_of(given["price"]) > 500),
        ("price >= 502.5 AND price < 510", lambda given: 502.5 <= number_of(given["price"]) < 510),
        ("price BETWEEN 10 AND 20.5", lambda given: 10 <= number_of(given["price"]) <= 20.5),
        ("ratio > 100.0", lambda given: number_of(given["ratio"]) > 100),
        ("ratio > 100 OR region = 'north'", lambda given: given["ratio"] is None and given["region"] == "north"),
        (
            "price NOT BETWEEN 10 AND 590",
            lambda given: number_of(given["price"]) < 10 or number_of(given["price"]) > 590,
        ),
        ("region = 'north'", lambda given: given["region"] == "north"),
        ("region = 'it''s'", lambda given: given["region"] == "it's"),
        ("region <> 'north'", lambda given: given["region"] != "north"),
        ("region IN ('north', 'south')", lambda given: given["region"] in {"north", "south"}),
        ("region NOT IN ('north', 'south')", lambda given: given["region"] not in {"north", "south"}),
        ("region\n  IN ('Nord')\n", lambda given: given["region"] == "Nord"),
        ("price IS NULL", lambda given: given["price"] is None),
        ("price IS NOT NULL", lambda given: given["price"] is not None),
        ("NOT (price > 5)", lambda given: number_of(given["price"]) <= 5),
        ("price < 5 OR region = 'south'", lambda given: number_of(given["price"]) < 5 or given["region"] == "south"),
        ("urgent = TRUE", lambda given: given["urgent"] == "true"),
        (
            "urgent = FALSE AND price > 590",
            lambda given: given["urgent"] == "false" and number_of(given["price"]) > 590,
        ),
        ("TRUE", lambda _: True),
        ("FALSE", lambda _: False),
        ("(TAGS is not null And TAGS in ('TagA','TagB'))", lambda given: given["TAGS"] in {"TagA", "TagB"}),
        ("TAGS = 'Aa'", lambda given: given["TAGS"] == "Aa"),
        ("rare = 'yes'", lambda given: given["rare"] == "yes"),
        ("missing = 1", lambda _: False),
        ("region > 5", lambda _: False),
        ("price", lambda _: False),
        ("region contains 'or'", lambda given: "or" in str(given["region"])),
    ],
)
def test_sql92_selects_by_properties(
    filled: MessageQueue, options_of: OptionsOf, expression: str, predicate: Callable[[Properties], bool]
) -> None:
    assert read(filled, options_of(expression)) == matching(predicate)


@pytest.mark.usefixtures("implementation")
def test_neighbouring_ranges_share_no_message_of_sql92(filled: MessageQueue, options_of: OptionsOf) -> None:
    """Also where an answer to the first reaches into the second."""
    ends = [0, 1, 99, 100, 101, 333, 500, COUNT]
    options = options_of("rare = 'yes' OR urgent = TRUE")
    parts = [read(filled, options, begin, end) for begin, end in pairwise(ends)]
    expected = matching(lambda given: given["rare"] == "yes" or given["urgent"] == "true")
    assert [offset for part in parts for offset in part] == expected


KEYS = ("order-7", "order-71", "order-8 order-7", "order-7 x", "Order-7", "my-order-7", "it's", None)


def test_keys_and_ids_select_the_messages_of_a_scan(cluster: EmbeddedCluster) -> None:
    """Of single messages, and of those of a batch, whose properties brokers store unseen."""
    topic = cluster.create_topic(unique_name("keyed"), queues=1)
    with closing(Topic(cluster, topic)) as handle:
        for keys in KEYS:
            rocketmq_spark.send(cluster.namesrv_addr, topic, "one", keys=keys)
        handle.send_as_they_are([Message(topic, b"of a batch", keys=keys) for keys in KEYS])
        eventually(lambda: handle.held() == 2 * len(KEYS), "all in the queue")
        (queue,) = handle.queues

    def rows(expression: str, expression_type: str = "SQL92") -> list[dict[str, Any]]:
        given = {"subExpression": expression, "expressionType": expression_type}
        given |= {"namesrvAddr": cluster.namesrv_addr, "subscribe": topic, "propertyColumns": "UNIQ_KEY"}
        options = BatchReadOptions.parse(given)
        schema = default_schema(property_columns=options.property_columns)
        batches = read_ranges([QueueRange(queue, 0, 2 * len(KEYS))], options, schema)
        return [row for batch in batches for row in batch.to_pylist()]

    scanned = rows("*", "TAG")
    assert [row["keys"] for row in scanned] == [*KEYS, *KEYS]
    for key, count in (("order-7", 6), ("order-8", 2), ("it's", 2), ("none", 0)):
        expected = [row for row in scanned if has_key(row, key)]
        literal = key.replace("'", "''")
        assert len(expected) == count
        assert [row for row in rows(f"KEYS CONTAINS '{literal}'") if has_key(row, key)] == expected
    assert [row["UNIQ_KEY"] for row in scanned] == [row["msgId"] for row in scanned]
    assert [rows(f"UNIQ_KEY = '{row['msgId']}'") for row in scanned] == [[row] for row in scanned]


def has_key(row: Mapping[str, Any], key: str) -> bool:
    """As ``array_contains(split(keys, ' '), key)`` of Spark, where null is false."""
    return row["keys"] is not None and key in row["keys"].split(" ")


INVALID = ["price >", "price > '5'", 'region = "north"', "price = 5;", "*5", "price = = 5"]


@pytest.mark.parametrize("expression", INVALID)
def test_invalid_sql92_fails_the_plan_and_each_task(
    cluster: EmbeddedCluster, filled: MessageQueue, options_of: OptionsOf, expression: str
) -> None:
    options = options_of(expression)
    with pytest.raises(BrokerError, match=r"FILTER_EXPRESSION_INVALID.*'subExpression'.*Correct the expression"):
        planned(options)
    with pytest.raises(BrokerError, match="FILTER_EXPRESSION_INVALID"):
        read(filled, options)


def planned(options: BatchReadOptions) -> list[QueueRange]:
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        return QueueLookup(options, pool).ranges()


def test_broker_without_property_filter_fails_the_plan_and_each_task(
    cluster: EmbeddedCluster, filled: MessageQueue, options_of: OptionsOf
) -> None:
    options = options_of("price > 590 AND TRUE")
    with property_filter_off(cluster):
        with pytest.raises(BrokerError, match=r"PROPERTY_FILTER_DISABLED.*updateBrokerConfig.*enablePropertyFilter"):
            planned(options)
        with pytest.raises(BrokerError, match="PROPERTY_FILTER_DISABLED"):
            read(filled, options)
        assert len(read(filled, options_of("Aa", "TAG"))) == COUNT // len(TAGS)
    assert planned(options) == [QueueRange(filled, 0, COUNT)]
    assert read(filled, options) == matching(lambda given: number_of(given["price"]) > 590)


def test_filter_on_batch_consume_queues_is_warned_of_once(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.create_topic(unique_name("batched"), queues=1, attributes={"queue.type": "BatchCQ"})
    with closing(Topic(cluster, topic)) as handle:
        handle.send_as_they_are([Message(topic, b"%d" % number, tags="a") for number in range(4)])
        (queue,) = handle.queues
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": topic}
    options = BatchReadOptions.parse(given | {"subExpression": "a"})
    for _ in range(2):
        assert planned(options) == [QueueRange(queue, 0, 4)]
    (line,) = (line for line in caplog.messages if line.startswith("BATCHES_FILTERED"))
    assert topic in line


@pytest.mark.usefixtures("implementation")
def test_sql92_reads_inner_batches_that_ranges_cut(cluster: EmbeddedCluster) -> None:
    topic = cluster.create_topic(unique_name("batched"), queues=1, attributes={"queue.type": "BatchCQ"})
    queue = MessageQueue(topic, "broker-a", 0)
    header = send_header(queue, "tests", sys_flag=INNER_BATCH, properties="INNER_NUM\x014\x02")
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        for begin in range(0, 12, 4):
            body = inner_batch([(b"%d" % number, b"") for number in range(begin, begin + 4)])
            broker.call(send_rpc(RequestCode.SEND_MESSAGE_V2, header, body, queue))
        broker.await_dispatch()
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": topic, "expressionType": "SQL92"}
    options = BatchReadOptions.parse(given | {"subExpression": "price IS NULL"})
    for end in range(1, 12):
        assert read(queue, options, 0, end) + read(queue, options, end, 12) == list(range(12))


@contextmanager
def property_filter_off(cluster: EmbeddedCluster) -> Iterator[None]:
    with closing(ConnectionPool(PATIENT_MS)) as pool:
        broker = AdminBroker(BrokerAddress(cluster.broker_addr()), pool, PATIENT_MS)
        broker.update_config({"enablePropertyFilter": "false"})
        try:
            yield
        finally:
            broker.update_config({"enablePropertyFilter": "true"})


# ---------------------------------------------------------------------------------------------------- the long form

MANY = 3_000_000
RARE_EVERY = 1_000


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_filters_over_three_million_messages(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 1 in 1,000, and of none: rows right, the end reached, and bytes in proportion; prints what each took."""
    topic = cluster.create_topic(unique_name("many"), queues=1)
    with closing(Topic(cluster, topic)) as handle:
        for begin in range(0, MANY, RARE_EVERY):
            numbers = range(begin, begin + RARE_EVERY)
            handle.send_unseen([Message(topic, b"%d" % one, "x" if one % RARE_EVERY else "r") for one in numbers])
        (queue,) = handle.queues
        eventually(lambda: handle.bounds()[queue].max_offset == MANY, "all in the queue")
    given = {"namesrvAddr": cluster.namesrv_addr, "subscribe": topic}
    sizes: dict[str, int] = {}
    for name, expression, expression_type, count in (
        ("all", "*", "TAG", MANY),
        ("1 in 1,000 by tag", "r", "TAG", MANY // RARE_EVERY),
        ("1 in 1,000 by SQL92", "TAGS = 'r'", "SQL92", MANY // RARE_EVERY),
        ("none by tag", "none", "TAG", 0),
        ("none by SQL92", "TAGS = 'none'", "SQL92", 0),
    ):
        options = BatchReadOptions.parse(given | {"subExpression": expression, "expressionType": expression_type})
        began = time.monotonic()
        batches = list(read_ranges([QueueRange(queue, 0, MANY)], options, default_schema()))
        took_s = time.monotonic() - began
        offsets = [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()]
        assert offsets == [offset for offset in range(MANY) if count == MANY or (count and offset % RARE_EVERY == 0)]
        sizes[name], end = pulled_bytes(queue, options)
        assert end == MANY
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: {count} rows in {took_s:.2f} s, {sizes[name]} bytes pulled")
    assert sizes["none by tag"] == sizes["none by SQL92"] == 0
    for name in ("1 in 1,000 by tag", "1 in 1,000 by SQL92"):
        assert sizes[name] * RARE_EVERY < 3 * sizes["all"]


def pulled_bytes(queue: MessageQueue, options: BatchReadOptions) -> tuple[int, int]:
    """Sum of the bodies of all responses to pulls of the queue, and the end that they reach."""
    client = shared_pull_client(options)
    puller = new_range_puller(QueueRange(queue, 0, MANY), client, options, monotonic_ms, is_filtered=True)
    puller.start()
    size_bytes = end_offset = 0
    for pulled in puller.pull():
        size_bytes, end_offset = size_bytes + len(pulled.body), pulled.end_offset
    return size_bytes, end_offset
