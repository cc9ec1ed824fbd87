"""Real brokers with a producer that lies: each true message that the broker holds is read exactly once.

The pure form, with 5,000 cases, is ``properties/test_hostile_producer``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, LongType, StructField, StructType, TimestampType

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.hostile_queue import Sent
from connector_tests.support.hostile_strategies import OTHER_TAG, TRUE_TAG, lies
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.jars import DEFAULT_VERSION, VERSIONS
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import BrokerError, DataLossError, RemoteProtocolError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.broker_rpcs import send_header, send_rpc
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.data_loss import RETENTION
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.wire.message.batch import encode_batch
from rocketmq_spark.wire.message.properties import encode_properties
from rocketmq_spark.wire.message.stored_message import split_records
from rocketmq_spark.wire.remoting.codes import RequestCode

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("implementation")]

TIMEOUT_MS: Final = PATIENT_MS
QUEUES: Final = 8
GROUP: Final = "readers-of-lies"
MOSTLY: Final = 0.5
FEW_CASES: Final = 6
"""Always the same: how much a broker itself loses depends on what is drawn."""
SCHEMA: Final = StructType(
    [
        StructField("queueOffset", LongType()),
        StructField("commitLogOffset", LongType()),
        StructField("body", BinaryType()),
        StructField("bornTimestamp", TimestampType()),
    ]
)


class Shape(NamedTuple):
    """Of the queues that lies are sent to."""

    version: str
    attributes: dict[str, str]

    def __str__(self) -> str:
        return f"{self.version} {'batch' if self.attributes else 'ordinary'}"


SHAPES: Final = (
    Shape(VERSIONS[0], {}),
    Shape(DEFAULT_VERSION, {}),
    Shape(DEFAULT_VERSION, {"queue.type": "BatchCQ"}),
)


class Held(NamedTuple):
    """A message that the broker holds, by what it answers to pulls of one: its place in the queue, and in the log."""

    place: int
    commit_log_offset: int


class Lies:
    """A broker that is lied to, in one queue after another."""

    def __init__(self, cluster: EmbeddedCluster, shape: Shape, broker: AdminBroker) -> None:
        self.cluster = cluster
        self._shape = shape
        self._broker = broker
        self._queues: Iterator[MessageQueue] = iter(())
        self._settling = MessageQueue(cluster.create_topic(unique_name("settling"), 1), "broker-a", 0)

    def new_queue(self) -> MessageQueue:
        """One that has no message yet, of a broker that skips nothing more for an earlier lie."""
        eventually(self._is_resolved, "a broker that dispatches what it stores")
        while (queue := next(self._queues, None)) is None:
            topic = self.cluster.create_topic(unique_name("lies"), QUEUES, attributes=self._shape.attributes)
            self._queues = iter([MessageQueue(topic, "broker-a", number) for number in range(QUEUES)])
        return queue

    def send(self, queue: MessageQueue, sent: Sent, *, is_batch: bool = False) -> int | None:
        """Where it lies in the commit log; None: the broker has refused it."""
        properties = encode_properties(sent.decoded).decode()
        header = send_header(queue, "tests", sys_flag=sent.sys_flag, properties=properties, is_batch=is_batch)
        header = replace(header, born_timestamp_ms=sent.born_timestamp_ms)
        code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
        body = encode_batch([Message(queue.topic, sent.body)] * 3) if is_batch else sent.body
        try:
            stored = self._broker.call(send_rpc(code, header, body, queue))
        except BrokerError:
            return None
        return int(stored.offset_msg_ids[0][-16:], 16)

    def await_dispatch(self) -> None:
        """Until the broker has put into its queues what it has stored. A broker that cannot read a message skips all
        that it has not dispatched yet, and at times what comes next: it loses true messages itself."""
        self._broker.await_dispatch()

    def _is_resolved(self) -> bool:
        """Whether it dispatches another message. After one that it cannot read, it may be ahead of what it stores."""
        before = self.max_offset(self._settling)
        self.send(self._settling, Sent(b"settling", 0, {}, 1_700_000_000_000))
        self.await_dispatch()
        return self.max_offset(self._settling) > before

    def max_offset(self, queue: MessageQueue) -> int:
        return self._broker.max_offset(queue)

    def held(self, queue: MessageQueue) -> list[Held]:
        """All that the broker answers, one by one."""
        found: dict[int, Held] = {}
        offset, end_offset = 0, self.max_offset(queue)
        while offset < end_offset:
            response = self._broker.pull("tests", queue, offset, 1)
            for _, _, record in split_records(response.body):
                own, log = (int.from_bytes(record[at : at + 8], "big", signed=True) for at in (20, 28))
                place = own if self._shape.attributes else offset
                found.setdefault(log, Held(place, log))
            offset = max(response.next_begin_offset, offset + 1)
        return list(found.values())


@pytest.fixture(params=SHAPES, ids=str)
def liar(request: pytest.FixtureRequest, cluster: EmbeddedCluster, clusters: ClusterPool) -> Iterator[Lies]:
    shape: Shape = request.param
    if shape.version != DEFAULT_VERSION:
        cluster = clusters.get(version=shape.version)
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        yield Lies(cluster, shape, AdminBroker(BrokerAddress(cluster.broker_addr()), pool, TIMEOUT_MS))


@st.composite
def readers(draw: st.DrawFn) -> dict[str, str]:
    mode = draw(st.sampled_from(["null", "deadLetter", "fail"]))
    expression = draw(st.sampled_from(["*", TRUE_TAG]))
    return {
        "badMessages": mode,
        "subExpression": expression,
        "failOnDataLoss": draw(st.sampled_from(["true", "false"])),
    }


def report(liar: Lies, queue: MessageQueue, data: st.DataObject) -> dict[int, Sent]:
    """True messages by where they lie, with lies between them."""
    truths: dict[int, Sent] = {}
    for number in range(data.draw(st.integers(2, 8))):
        if data.draw(st.booleans()):
            lie, is_batch = data.draw(lies(0, queue.topic)), data.draw(st.booleans())
            if "INNER_BASE" in lie.properties:
                lie = replace(lie, properties={**lie.decoded, "INNER_BASE": str(liar.max_offset(queue))})
            liar.send(queue, lie, is_batch=is_batch)
            liar.await_dispatch()
        true = Sent(b"true %d" % number, 0, {"TAGS": TRUE_TAG if number % 3 else OTHER_TAG}, 1_700_000_000_000)
        log = liar.send(queue, true)
        assert log is not None
        truths[log] = true
    liar.await_dispatch()
    return truths


def read(liar: Lies, ranges: list[QueueRange], options: dict[str, str]) -> list[dict[str, Any]]:
    given = {"namesrvAddr": liar.cluster.namesrv_addr, "consumerGroup": GROUP, "subscribe": ranges[0].queue.topic}
    batches = read_ranges(ranges, ReadOptions.parse(given | options), SCHEMA)
    return [row for batch in batches for row in batch.to_pylist()]


def check(liar: Lies, data: st.DataObject) -> float:
    """Which part of the true messages the broker itself has kept.

    What is drawn depends on nothing that it does: RocketMQ 4 loses more or less of what it cannot read.
    """
    queue = liar.new_queue()
    options, cuts_at = data.draw(readers()), data.draw(st.lists(st.integers(0, 50), max_size=3))
    truths = report(liar, queue, data)
    held = liar.held(queue)
    if not held:
        return 0
    expected_logs = {log for log, true in truths.items() if options["subExpression"] in {"*", true.decoded["TAGS"]}}
    places = [one.place for one in held]
    cuts = sorted({places[0], *(places[at % len(places)] for at in cuts_at), liar.max_offset(queue)})
    try:
        rows = read(liar, [QueueRange(queue, begin, end) for begin, end in pairwise(cuts)], options)
    except RemoteProtocolError as error:
        assert (error.condition, options["badMessages"]) == ("UNDECODABLE_MESSAGE_BODY", "fail"), error
        by_place = {one.place: one.commit_log_offset for one in held}
        assert by_place[int(error.context["offset"])] not in truths
        return 1
    expected = [(one.place, one.commit_log_offset) for one in held if one.commit_log_offset in expected_logs]
    found = [(row["queueOffset"], row["commitLogOffset"]) for row in rows]
    assert [one for one in found if one[1] in truths] == expected
    assert len({offset for offset, _ in found}) == len(found), "no offset twice"
    true_rows = [row for row in rows if row["commitLogOffset"] in truths]
    assert all(row["body"] == truths[row["commitLogOffset"]].body for row in true_rows)
    return sum(one.commit_log_offset in truths for one in held) / len(truths)


@pytest.mark.parametrize(
    "cases",
    [FEW_CASES, pytest.param(200, marks=[pytest.mark.versions, pytest.mark.timeout(3600)])],
)
def test_true_messages_beside_lies_on_a_broker_come_once(liar: Lies, cases: int) -> None:
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

    @settings(max_examples=cases, deadline=None, suppress_health_check=quiet, derandomize=cases == FEW_CASES)
    @given(st.data())
    def lie(data: st.DataObject) -> None:
        kept.append(check(liar, data))

    kept: list[float] = []
    lie()
    assert sum(kept) / len(kept) > MOSTLY, "the broker has lost too much for this to show anything"


@pytest.mark.parametrize("cuts", [(0, 90), (0, 30, 60, 90), (0, 1, 89, 90)])
def test_a_filter_loses_nothing_behind_messages_of_made_up_hosts(liar: Lies, cuts: tuple[int, ...]) -> None:
    """The broker delivers those to no consumer, and all later ones in front of the offsets that they state: as many
    were lost at the end of each range."""
    queue = liar.new_queue()
    other = Sent(b"other", 0, {"TAGS": OTHER_TAG}, 1_700_000_000_000)
    liar.send(queue, other)
    liar.await_dispatch()
    for _ in range(3):
        assert liar.send(queue, replace(other, sys_flag=0x10)) is not None
    liar.await_dispatch()
    for number in range(90):
        tag = TRUE_TAG if number % 3 else OTHER_TAG
        liar.send(queue, Sent(b"true %d" % number, 0, {"TAGS": tag}, 1_700_000_000_000))
    liar.await_dispatch()
    held = {one.commit_log_offset: one.place for one in liar.held(queue)}
    ranges = [QueueRange(queue, begin, end) for begin, end in pairwise((*cuts[:-1], liar.max_offset(queue)))]
    rows = read(liar, ranges, {"subExpression": TRUE_TAG, "failOnDataLoss": "false"})
    assert [row["body"] for row in rows] == [b"true %d" % number for number in range(90) if number % 3]
    assert [row["queueOffset"] for row in rows] == [held[row["commitLogOffset"]] for row in rows]


@pytest.mark.parametrize("liar", [SHAPES[-1]], indirect=True, ids=str)
@pytest.mark.parametrize("count", [7, 1_100])
def test_a_filter_passes_offsets_that_no_message_has(liar: Lies, count: int) -> None:
    """Where the message in front of them has another tag, the broker answers as if its store had failed."""
    queue = liar.new_queue()
    liar.send(queue, Sent(b"other", 0, {"TAGS": OTHER_TAG}, 1_700_000_000_000))
    liar.send(queue, Sent(b"x", 0x90, {"TAGS": TRUE_TAG, "INNER_NUM": str(count)}, 1_700_000_000_000))
    liar.await_dispatch()
    for number in range(10):
        liar.send(queue, Sent(b"true %d" % number, 0, {"TAGS": TRUE_TAG}, 1_700_000_000_000))
    liar.await_dispatch()
    rows = read(liar, [QueueRange(queue, 0, liar.max_offset(queue))], {"subExpression": TRUE_TAG})
    assert [row["queueOffset"] for row in rows] == [1 + count + number for number in range(10)]


def test_a_made_up_host_of_the_first_message_is_reported_as_deleted(liar: Lies) -> None:
    """A limitation: the min offset is behind that message, as it is after retention."""
    queue = liar.new_queue()
    assert liar.send(queue, Sent(b"x" * 60, 0x10, {}, 1_700_000_000_000)) is not None
    liar.await_dispatch()
    for number in range(3):
        liar.send(queue, Sent(b"true %d" % number, 0, {}, 1_700_000_000_000))
    liar.await_dispatch()
    ranges = [QueueRange(queue, 0, liar.max_offset(queue))]
    with pytest.raises(DataLossError, match=re.escape(f"[0, 1) of {queue}: {RETENTION}")) as lost:
        read(liar, ranges, {})
    assert lost.value.condition == "DATA_LOSS.OFFSETS_UNAVAILABLE"
    rows = read(liar, ranges, {"failOnDataLoss": "false"})
    assert [(row["queueOffset"], row["body"]) for row in rows] == [(1 + at, b"true %d" % at) for at in range(3)]
