"""The plan of a batch read: on the driver's disk, and requested from the right brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from connector_tests.support.group_bodies import topic_stats
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from connector_tests.support.streams import eventually
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.source.batch.batch_plan import LOCAL_DIRS, BatchPlan, QueueLookup, StoredPlan
from rocketmq_spark.source.batch.batch_reader import BatchInputPartition, RocketMQBatchReader
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

QUEUE = MessageQueue("orders", "broker-a", 3)
PLAN = BatchPlan([QueueRange(QUEUE, 2, 9)], {"broker-a": BrokerAddress("a:10911")})
RANGE = '{"ranges": [["orders", "broker-a", 3, %s, %s]], "masters": {}}'
LATER = BatchPlan([QueueRange(QUEUE, 2, 11)], {})


def stored(folder: Path, load_id: str = "one") -> StoredPlan:
    return StoredPlan(load_id, {LOCAL_DIRS: f"{folder},/other"})


def test_plan_is_read_as_it_was_kept(tmp_path: Path) -> None:
    assert stored(tmp_path).read() is None
    assert stored(tmp_path).keep(PLAN) == PLAN
    assert stored(tmp_path).read() == PLAN
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_first_plan_of_a_load_stays(tmp_path: Path) -> None:
    stored(tmp_path).keep(PLAN)
    assert stored(tmp_path).keep(LATER) == PLAN
    assert stored(tmp_path, "two").keep(LATER) == LATER


def test_plan_without_a_directory_is_not_kept(tmp_path: Path) -> None:
    plan = StoredPlan("one", {})
    assert (plan.keep(PLAN), plan.read()) == (PLAN, None)
    assert list(tmp_path.iterdir()) == []


def test_plan_that_cannot_be_stored_is_logged_and_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    for folder in ("missing", "file"):
        caplog.clear()
        assert stored(tmp_path / folder).keep(PLAN) == PLAN
        assert "PLAN_NOT_STORED" in caplog.text


def test_proxied_address_survives(tmp_path: Path) -> None:
    plan = BatchPlan([], {"broker-a": BrokerAddress("p:8080", "broker-a")})
    assert stored(tmp_path).keep(plan) == plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"ranges": [[1]], "masters": {}}',
        "\\ud800",
        '{"ranges": 1, "masters": 2}',
        '{"ranges": [], "masters": []}',
        '{"ranges": [], "masters": 2}',
        RANGE % ("2", "9223372036854775808"),
        RANGE % ("-1", "2"),
        RANGE % ("5", "5"),
        RANGE % ("2", "9.5"),
    ],
)
def test_plan_that_cannot_be_read_is_logged_and_replaced(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored(tmp_path).keep(PLAN)
    (file,) = tmp_path.iterdir()
    file.write_text(text, encoding="utf-8")
    assert stored(tmp_path).read() is None
    assert "PLAN_NOT_STORED" in caplog.text
    assert stored(tmp_path).keep(LATER) == LATER


# ------------------------------------------------------------------------------------------------- what brokers return

AT_A = MessageQueue("orders", "a", 0)


@pytest.fixture
def two() -> Iterator[ScriptedCluster]:
    """Two brokers, each with the first offset 3 or 7 of its queue, which is empty, as the group's offset too."""
    with ScriptedCluster("a", "b") as cluster:
        for (name, broker), first in zip(cluster.brokers.items(), (3, 7), strict=True):
            bounds = {MessageQueue("orders", name, 0): QueueBounds(first, first)}
            pulled = {"nextBeginOffset": str(first), "minOffset": str(first), "maxOffset": str(first)}
            offset = build_response(fields={"offset": str(first)})
            broker.on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(bounds))
            broker.on(RequestCode.PULL_MESSAGE, build_response(ResponseCode.PULL_NOT_FOUND, pulled))
            broker.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, offset)
            broker.on(RequestCode.QUERY_CONSUMER_OFFSET, offset)
        yield cluster


def test_each_task_has_its_ranges_and_the_master_of_its_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LOCAL_DIRS, raising=False)
    with ScriptedCluster("a", "b") as cluster:
        for name, broker in cluster.brokers.items():
            bounds = {MessageQueue("orders", name, 0): QueueBounds(2, 9)}
            broker.on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(bounds))
        given = {"namesrvAddr": cluster.listen(), "subscribe": "orders", "minPartitions": "2"}
        reader = RocketMQBatchReader(BatchReadOptions.parse(given), default_schema(), "one")
        tasks = [one for one in reader.partitions() if isinstance(one, BatchInputPartition)]
        masters = cluster.client().routes
        assert {one.ranges: one.masters for one in tasks} == {
            (QueueRange(queue, 2, 9),): {queue.broker_name: masters.find_master(queue)}
            for queue in (AT_A, MessageQueue("orders", "b", 0))
        }


def is_closed(cluster: ScriptedCluster, address: str) -> bool:
    """The first connection to the address."""
    return cluster.pool.connection_number(address) == 2


QUERIES = pytest.mark.parametrize(
    "query",
    [lambda lookup: lookup.search_offsets({AT_A: 5}), lambda lookup: lookup.query_committed("g", [AT_A])],
    ids=["by time", "of the group"],
)
Query = Callable[[QueueLookup], dict[MessageQueue, int]]


def lookup_with_bounds(two: ScriptedCluster) -> QueueLookup:
    given = {"namesrvAddr": NAME_SERVER, "subscribe": "orders", "clusterTimeoutMs": "10000"}
    lookup = QueueLookup(BatchReadOptions.parse(given), two.pool, lambda _: None)
    assert lookup.query_bounds(lookup.query_queues(["orders"]))[AT_A].min_offset == 3
    return lookup


@QUERIES
def test_offsets_are_requested_over_the_connection_that_bounds_have_verified(
    two: ScriptedCluster, query: Query
) -> None:
    lookup = lookup_with_bounds(two)
    two.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, build_response(ResponseCode.SYSTEM_ERROR))
    assert query(lookup) == {AT_A: 3}


@QUERIES
def test_offsets_received_over_another_connection_are_requested_again(two: ScriptedCluster, query: Query) -> None:
    """A broker that shuts down has the request sent again, and another one has its address by then."""
    lookup, codes = lookup_with_bounds(two), (RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)

    def shut_down(request: RemotingCommand) -> RemotingCommand:
        two.exchange("a", "b")
        two.brokers["b"].next_session().hang_up()
        eventually(partial(is_closed, two, "b:10911"), "a closed connection")
        for code in codes:
            two.brokers["a"].on(code, build_response(fields={"offset": "3"}))
        return build_response(ResponseCode.GO_AWAY)

    for code in codes:
        two.brokers["a"].on(code, shut_down)
    assert query(lookup) == {AT_A: 3}


@QUERIES
def test_offsets_are_those_of_the_queues_broker_though_another_one_has_its_address_now(
    two: ScriptedCluster, query: Query
) -> None:
    """Between the bounds and the offsets, which alone do not show whose they are."""
    lookup = lookup_with_bounds(two)
    two.exchange("a", "b")
    for broker in two.brokers.values():
        broker.next_session().hang_up()
    for address in ("a:10911", "b:10911"):
        eventually(partial(is_closed, two, address), "a closed connection")
    assert query(lookup) == {AT_A: 3}
