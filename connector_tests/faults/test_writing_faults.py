"""Rows on their way to a broker that is busy, that is killed, and whose link is cut: none is lost.

Each test writes with a task's own code, most of them to a broker that stores one request at a time, lets a few more
wait, and refuses the others. In the long form they are 200,000.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from connector_tests.support.cluster_pool import ClusterPool, RestingCluster
from connector_tests.support.fault_proxy import Direction, FaultProxy
from connector_tests.support.streams import TIMEOUT_S, eventually
from connector_tests.support.timeouts import PATIENT_MS
from connector_tests.support.written_rows import SCHEMA, arrow, ends, stored_batches, write
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.sink.write_task import WriteTask

pytestmark = [pytest.mark.broker, pytest.mark.full]

PROXY_HOST = "127.0.0.2"
ONE_AT_A_TIME = {"sendMessageThreadPoolNums": "1", "sendThreadPoolQueueCapacity": "1"}
BUSY = b'"code":2,'
BATCH_ROWS = 5_000
FAULT_AT = 4
"""The Arrow batch at which the fault comes; some before it are on their way then."""
KEYS = 4
"""Odd rows have a sharding key, one of so many; even ones go anywhere."""
VICTIM, OTHER = "broker-a", "broker-b"
SOON = {"brokerTimeoutMs": "3000"}
"""The default: what a fault has swallowed is sent again as soon as a user's would be."""
UNAVAILABLE = {
    "killed": (EmbeddedCluster.kill_broker, EmbeddedCluster.start_broker),
    "frozen": (EmbeddedCluster.pause_broker, EmbeddedCluster.resume_broker),
}
"""How a broker goes away, and how it comes back."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Instead of the session's: these tests break it."""
    with RestingCluster(separate_jvms=True, advertised_host=PROXY_HOST, broker_config=ONE_AT_A_TIME) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def link(cluster: EmbeddedCluster) -> Iterator[FaultProxy]:
    """Between us and the broker."""
    with FaultProxy(cluster.broker_addr(), PROXY_HOST, int(cluster.broker_addr().rpartition(":")[2])) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def pair(clusters: ClusterPool) -> EmbeddedCluster:
    """Two brokers, of which one goes away."""
    return clusters.get(brokers=2, separate_jvms=True)


@pytest.fixture(params=[40_000, pytest.param(200_000, marks=pytest.mark.long)])
def row_count(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(PATIENT_MS)
    yield pool
    pool.close()


def batches(row_count: int, fault: Callable[[], None], *, keyed: bool = True) -> Iterator[pa.RecordBatch]:
    """All rows; ``fault`` comes while some of them are on their way. If not ``keyed``, no row has a key."""
    for batch, first in enumerate(range(0, row_count, BATCH_ROWS)):
        if batch == FAULT_AT:
            fault()
        numbers = np.arange(first, first + BATCH_ROWS)
        columns = {
            "body": pa.array(numbers).cast(pa.string()).cast(pa.binary()),
            "shardingKey": pa.array([f"k{number // 2 % KEYS}" if number % 2 else None for number in numbers.tolist()]),
        }
        given = columns if keyed else {"body": columns["body"]}
        empty = {field.name: pa.nulls(BATCH_ROWS, field.type) for field in SCHEMA}
        yield pa.record_batch({**empty, **given}, schema=SCHEMA)


def read_until_each_is_there(cluster: EmbeddedCluster, topic: str, pool: ConnectionPool, row_count: int) -> pa.Table:
    """All that is stored, once it has as many ids as there are rows.

    Not once the queues are as long: copies count there too, and what is stored is in its queue a moment later.
    """
    read = pa.table({"msgId": []})

    def holds_each() -> bool:
        nonlocal read
        read = pa.Table.from_batches(stored_batches(cluster, topic, pool))
        return len(set(read["msgId"].to_pylist())) >= row_count

    eventually(holds_each, f"{row_count} rows, each in its queue")
    return read


def assert_nothing_is_lost(
    cluster: EmbeddedCluster, pool: ConnectionPool, row_count: int, fault: Callable[[], None]
) -> None:
    """Every row is stored, copies have the id of the first, and rows of one key keep their order."""
    topic = cluster.create_topic(unique_name("faults"))
    task = WriteTask("faults", 0)
    assert write(cluster.namesrv_addr, topic, batches(row_count, fault), task, pool, **SOON) == row_count

    read = read_until_each_is_there(cluster, topic, pool, row_count)
    numbers = [int(body) for body in read["body"].to_pylist()]
    ids, queues = read["msgId"].to_pylist(), read["queueId"].to_pylist()
    first_of: dict[str, int] = {}
    for place, id_ in enumerate(ids):
        first_of.setdefault(id_, place)
    once = list(first_of.values())
    assert sorted(numbers[place] for place in once) == list(range(row_count))
    assert all(numbers[place] == numbers[first_of[id_]] for place, id_ in enumerate(ids))
    for key in range(KEYS):
        of_key = [place for place in once if numbers[place] % 2 and numbers[place] // 2 % KEYS == key]
        assert len({queues[place] for place in of_key}) == 1
        assert [numbers[place] for place in of_key] == list(range(2 * key + 1, row_count, 2 * KEYS))


def test_a_busy_broker_is_given_time(
    cluster: EmbeddedCluster, link: FaultProxy, pool: ConnectionPool, row_count: int
) -> None:
    refused = 0

    def count(data: bytes, where: Direction) -> None:
        nonlocal refused
        refused += data.count(BUSY) if where is Direction.TO_CLIENT else 0

    link.observe(count)
    try:
        assert_nothing_is_lost(cluster, pool, row_count, lambda: None)
    finally:
        link.pass_through()
    assert refused > 0


@pytest.mark.parametrize("direction", Direction)
def test_a_link_that_is_cut_in_mid_frame_costs_copies_at_most(
    cluster: EmbeddedCluster, link: FaultProxy, pool: ConnectionPool, row_count: int, direction: Direction
) -> None:
    cuts = link.cut_count

    def heal() -> None:
        eventually(lambda: link.cut_count > cuts, "a cut")
        link.pass_through()

    healer = threading.Thread(target=heal, name="healer")

    def cut_soon() -> None:
        link.cut_after(300_000 if direction is Direction.TO_SERVER else 1_000, direction)
        healer.start()

    assert_nothing_is_lost(cluster, pool, row_count, cut_soon)
    healer.join()
    assert link.cut_count > cuts


def test_a_broker_that_is_killed_and_comes_back_costs_copies_at_most(
    cluster: EmbeddedCluster, link: FaultProxy, pool: ConnectionPool, row_count: int
) -> None:
    restarting = threading.Thread(target=cluster.start_broker, name="restarting")

    def kill() -> None:
        cluster.kill_broker()
        restarting.start()

    assert_nothing_is_lost(cluster, pool, row_count, kill)
    restarting.join()


def stored_at(pair: EmbeddedCluster, broker: str, topic: str, pool: ConnectionPool) -> int:
    return sum(end for queue, end in ends(pair, topic, pool).items() if queue.broker_name == broker)


@pytest.mark.parametrize("unavailable", UNAVAILABLE)
def test_rows_for_any_queue_go_to_the_other_broker_where_one_is_unavailable(
    pair: EmbeddedCluster, pool: ConnectionPool, row_count: int, unavailable: str
) -> None:
    """One that is killed takes no connection; one that is frozen keeps its own, and the name server names it still."""
    go, come_back = UNAVAILABLE[unavailable]
    topic = pair.create_topic(unique_name("away"))
    went = 0.0

    def take_down() -> None:
        nonlocal went
        eventually(lambda: stored_at(pair, VICTIM, topic, pool) > 0, "rows at the broker that is to go away")
        go(pair, VICTIM)
        went = time.monotonic()

    rows = batches(row_count, take_down, keyed=False)
    limit = str(int(TIMEOUT_S * 1000))
    try:
        assert (
            write(pair.namesrv_addr, topic, rows, WriteTask(unavailable, 0), pool, clusterTimeoutMs=limit, **SOON)
            == row_count
        )
        took = time.monotonic() - went
    finally:
        come_back(pair, VICTIM)

    read = read_until_each_is_there(pair, topic, pool, row_count)
    places = zip(read["brokerName"].to_pylist(), map(int, read["body"].to_pylist()), strict=True)
    of: dict[str, set[int]] = {VICTIM: set(), OTHER: set()}
    for broker, number in places:
        of[broker].add(number)
    assert of[VICTIM] & set(range(FAULT_AT * BATCH_ROWS))
    assert of[OTHER] >= set(range(FAULT_AT * BATCH_ROWS, row_count))
    assert of[VICTIM] | of[OTHER] == set(range(row_count))
    assert took < TIMEOUT_S / 2


def test_rows_that_name_a_queue_of_a_broker_that_was_killed_before_their_task_began_wait_for_it(
    pair: EmbeddedCluster, pool: ConnectionPool
) -> None:
    """The name server names it no more: they became dead letters, as those of a broker that there never was."""
    topic, dead = pair.create_topic(unique_name("named")), pair.create_topic(unique_name("dead"))
    rows = arrow([{"body": b"named", "brokerName": VICTIM, "queueId": 0}, {"body": b"any"}])
    pair.kill_broker(VICTIM)
    eventually(lambda: {queue.broker_name for queue in ends(pair, topic, pool)} == {OTHER}, "a route without it")
    restarting = threading.Timer(3, pair.start_broker, [VICTIM])
    restarting.start()
    assert write(pair.namesrv_addr, topic, [rows], WriteTask("named", 0), pool, deadLetterTopic=dead) == 2
    restarting.join()
    eventually(lambda: ends(pair, topic, pool).get(MessageQueue(topic, VICTIM, 0), 0) >= 1, "the row in its queue")
    assert sum(ends(pair, dead, pool).values()) == 0
