"""Messages one by one, over each protocol and at each door: received, acknowledged, renewed, released and moved to
the dead letters, each seen by a second look."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.datasource import ReadAllAvailable

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.message_group import (
    LONG_MS,
    MOMENT_S,
    REMOTING,
    SHORT_MS,
    WAYS,
    MessageGroup,
    Row,
    acknowledge,
    bodies,
    receive_batch,
)
from connector_tests.support.security_shapes import SECURITY_SHAPES
from connector_tests.support.streams import TIMEOUT_S, eventually
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.schema import default_schema

pytestmark = pytest.mark.broker

SENT = 10


@pytest.fixture(scope="module", params=SECURITY_SHAPES)
def cluster(request: pytest.FixtureRequest, grpc_library: None, clusters: ClusterPool) -> Iterator[EmbeddedCluster]:
    with clusters.using(proxy=True, **request.param) as cluster:
        yield cluster


# --------------------------------------------------------------------------------------------------- what is to be seen


def received(desk: MessageGroup) -> None:
    """Nobody else has any of it."""
    sent = desk.messages.send(SENT)
    one = desk.member(LONG_MS)
    rows = desk.rows(receive_batch(one, SENT))
    assert bodies(rows) == sorted(sent)
    assert {(row["topic"], row["reconsumeTimes"]) for row in rows} == {(desk.topic, 0)}
    one.stop()
    desk.assert_only_unacknowledged_redelivered()


def mark_acknowledged(desk: MessageGroup) -> None:
    """When their time is over they are not redelivered."""
    sent = desk.messages.send(SENT)
    one = desk.member()
    assert bodies(desk.rows(receive_batch(one, SENT))) == sorted(sent)
    acknowledge(one)
    assert (one.counts.acknowledged, one.counts.expired) == (SENT, 0)
    one.stop()
    desk.assert_only_unacknowledged_redelivered()


def mark_extended(desk: MessageGroup) -> None:
    """When the time is over for which they were received, nobody gets them; and who holds them acknowledges them by
    what they are known by then."""
    left = desk.leave_unacknowledged(3 * SHORT_MS)["body"].decode()
    sent = desk.messages.send(SENT)
    one = desk.member()
    assert bodies(desk.rows(receive_batch(one, SENT))) == sorted(sent)
    other = desk.member()
    eventually(lambda: one.counts.received + other.counts.received > SENT, "what was left")
    time.sleep(MOMENT_S)
    assert one.counts.received + other.counts.received == SENT + 1
    again = [*receive_batch(one, 0), *receive_batch(other, 0)]
    assert bodies(desk.rows(again)) == [left]
    assert (one.counts.expired, one.counts.extended >= SENT) == (0, True)
    for member in (one, other):
        acknowledge(member)
        member.stop()
    assert one.counts.acknowledged + other.counts.acknowledged == SENT + 1
    desk.assert_only_unacknowledged_redelivered()


def mark_released(desk: MessageGroup) -> None:
    """Another member gets them long before their time is over, that counts as no attempt, and it acknowledges them."""
    sent = desk.messages.send(SENT)
    one = desk.member(LONG_MS)
    eventually(lambda: one.count(MessageState.PREFETCHED) == SENT, "all messages")
    kept = one.start_batch(1, 1)
    one.stop()
    assert one.counts.released == SENT - 1
    other = desk.member()
    again = receive_batch(other, SENT - 1)
    assert bodies(desk.rows([*kept, *again])) == sorted(sent)
    assert {row["reconsumeTimes"] for row in desk.rows(again)} == {0}
    acknowledge(other)
    assert (other.counts.acknowledged, other.counts.expired) == (SENT - 1, 0)
    other.stop()
    desk.assert_only_unacknowledged_redelivered()


def moved_to_the_dead_letters(desk: MessageGroup) -> None:
    """Tried as often as the group allows, by us over brokers and by a proxy itself; nobody gets them any more."""
    desk.set_retry_max_times(1)
    sent = desk.messages.send(SENT)
    for times_before in range(2):
        rows = desk.fail_attempt(SENT)
        assert [(row["body"].decode(), row["reconsumeTimes"]) for row in by_body(rows)] == [
            (body, times_before) for body in sorted(sent)
        ]
    one = desk.member()
    assert sorted(desk.dead_letters(SENT)) == sorted(sent)
    one.check()
    expected_counts = (SENT, SENT, SENT) if desk.way == REMOTING else (0, 0, 0)
    eventually(
        lambda: (one.counts.received, one.counts.dead_letters, one.counts.acknowledged) == expected_counts, "its counts"
    )
    one.stop()
    desk.assert_only_unacknowledged_redelivered()


def by_body(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["body"])


Act = Callable[[MessageGroup], None]
ACTS: tuple[Act, ...] = (received, mark_acknowledged, mark_extended, mark_released, moved_to_the_dead_letters)

# ---------------------------------------------------------------------------------------------------------- the table


@pytest.fixture(scope="module")
def table(cluster: EmbeddedCluster) -> Iterator[Mapping[tuple[str, Act], Future[None]]]:
    """What came of each, all at once: most of it is waiting."""
    with ExitStack() as made, ThreadPoolExecutor(len(WAYS) * len(ACTS)) as threads:
        desks = {(way, act): MessageGroup(cluster, way) for way in WAYS for act in ACTS}
        for desk in desks.values():
            made.callback(desk.close)
        yield {(way, act): threads.submit(act, desk) for (way, act), desk in desks.items()}


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_a_message_is(way: str, act: Act, table: Mapping[tuple[str, Act], Future[None]]) -> None:
    table[way, act].result(TIMEOUT_S)


# ----------------------------------------------------------------------------------------------------- what is secret


@pytest.mark.parametrize("way", WAYS)
def test_no_secret_is_in_anything_that_a_driver_shows(
    way: str, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Lines, texts of values and of errors, the progress, what goes into the checkpoint, and the messages that go to
    executors. A whole job: spark/test_secrets.py."""
    if cluster.security.credentials is None:
        pytest.skip("nobody asks for one")
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, "py4j")  # the cluster's own, which makes users
    with ExitStack() as made:
        desk = MessageGroup(cluster, way)
        made.callback(desk.close)
        desk.messages.send(SENT)
        secret = desk.options["secretKey"]
        one, guessing = (reader_of({**desk.options, "secretKey": key}) for key in (secret, secret + "x"))
        made.callback(one.stop)
        made.callback(guessing.stop)
        start = one.initialOffset()
        end = one.latestOffset(start, ReadAllAvailable())
        partitions = one.partitions(start, end)
        with pytest.raises(RocketMQError, match="CREDENTIALS_REJECTED") as refused:
            guessing.latestOffset(guessing.initialOffset(), ReadAllAvailable())
        options = ReadOptions.parse(desk.options)
        values = [one, one._run, options, vars(options), transport_of(options), vars(transport_of(options))]
        shown = [caplog.text, *map(repr, values), *map(str, values)]
        shown += [*traceback.format_exception(refused.value), json.dumps(end), json.dumps(one.reportLatestOffset())]
    serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]  # PySpark has no types for it
    shown += [str(serializer.dumps(partition)) for partition in partitions]
    assert partitions
    assert desk.options["accessKey"] in str(shown), "else there is nothing that a secret could be in"
    assert [text for text in shown if secret in text] == []


def reader_of(options: Mapping[str, str]) -> RocketMQPopReader:
    one = RocketMQDataSource(dict(options)).streamReader(default_schema())
    assert isinstance(one, RocketMQPopReader)
    one.prepareForTriggerAvailableNow()
    return one
