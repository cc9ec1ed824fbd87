"""Streaming queries of the tests: start one, let it finish, read what it wrote, ask the broker what it knows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

import rocketmq_spark
from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.timeouts import END_TO_END_S, PATIENT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import Message, MessageQueue, QueueBounds
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.producer import Producer

TIMEOUT_S = END_TO_END_S
SHORT_TIMEOUT_MS = 5_000
"""Of a request to a broker that may not answer at all."""
TIMEOUT_MS = PATIENT_MS
SETTLING_S = 1.0
SHORTEST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 0.25
PAUSE_FACTOR = 1.3
STARTS = frozenset(
    {
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "consumeFromWhere",
        "consumeTimestamp",
        "endpoints",
    }
)
"""Of who states by one of them where it begins, or cannot state."""


def eventually(is_so: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until ``is_so``; AssertionError that states ``what`` when it does not come to be. The longer it takes, the
    longer are the pauses: most looks are requests to servers that are busy with what is waited for."""
    deadline = time.monotonic() + timeout_s
    pause_s = SHORTEST_PAUSE_S
    while not is_so():
        assert time.monotonic() < deadline, f"did not come to be within {timeout_s} s: {what}"
        time.sleep(pause_s)
        pause_s = min(pause_s * PAUSE_FACTOR, LONGEST_PAUSE_S)


def await_resumed_dispatch(cluster: EmbeddedCluster) -> None:
    """Until a broker puts into its queues what it stores, behind a message that it cannot read: it passes over some of
    what comes next, which then is in no queue."""
    with closing(Topic(cluster, cluster.create_topic(unique_name("settling"), 1))) as settling:

        def is_dispatched() -> bool:
            before = settling.held()
            settling.send_unseen([Message(settling.name, b"is this in a queue?")])
            deadline = time.monotonic() + SETTLING_S
            while time.monotonic() < deadline:
                if settling.held() > before:
                    return True
            return False

        eventually(is_dispatched, "a broker that dispatches what it stores")


class Topic:
    """A topic of the embedded cluster, with what a test wants to do to it and know of it."""

    def __init__(self, cluster: EmbeddedCluster, name: str) -> None:
        self.name = name
        self._pool = ConnectionPool(TIMEOUT_MS, security=cluster.security)
        default_cluster, short_cluster = (
            ClusterClient((cluster.namesrv_addr,), self._pool, timeout_ms)
            for timeout_ms in (TIMEOUT_MS, SHORT_TIMEOUT_MS)
        )
        self._name_servers = default_cluster.name_servers
        self._producer = Producer(default_cluster, group="tests", initial_queue_index=lambda: 0)
        self._short_routes = short_cluster.routes
        self._short_producer = Producer(short_cluster, group="tests", initial_queue_index=lambda: 0)
        self.sent = 0

    def send(self, count: int, tag: str | None = None) -> list[str]:
        """Send ``count`` messages, each with a body that no other has; returns the bodies once they are in the
        queues."""
        before = self.held()
        bodies = [f"{self.name}-{self.sent + index}" for index in range(count)]
        for body in bodies:
            self._producer.send(Message(self.name, body.encode(), tags=tag, keys=f"key-{body}"))
        self.sent += count
        eventually(lambda: self.held() >= before + count, f"{count} messages in the queues of {self.name}")
        return bodies

    def send_to_queue(self, queue_id: int, bodies: Sequence[str]) -> None:
        """Send ``bodies`` to one queue, in order, and wait until they are in it."""
        before = self.held()
        (queue,) = (queue for queue in self.queues if queue.queue_id == queue_id)
        for body in bodies:
            self._producer.send(Message(self.name, body.encode()), queue)
        eventually(lambda: self.held() >= before + len(bodies), f"{len(bodies)} messages in {queue}")

    def held(self) -> int:
        """Return the sum of the queues' max offsets; a message is counted a moment after it was sent."""
        return sum(held.max_offset for held in self.bounds().values())

    def send_batches(self, count: int, size_bytes: int = 100) -> list[str]:
        """Send many messages fast: ``count`` bodies of ``size_bytes``, numbered; returns the bodies."""
        before = self.held()
        bodies = [f"{self.name}-{self.sent + index}".ljust(size_bytes, ".") for index in range(count)]
        for start in range(0, count, 100):
            batch = [Message(self.name, body.encode()) for body in bodies[start : start + 100]]
            self._producer.send_batch(batch)
        self.sent += count
        eventually(lambda: self.held() >= before + count, f"{count} messages in the queues of {self.name}")
        return bodies

    def send_as_they_are(self, messages: Sequence[Message]) -> None:
        """Send ``messages`` in one batch: brokers store the properties of such messages unseen."""
        before = self.held()
        self.send_unseen(messages)
        eventually(lambda: self.held() >= before + len(messages), f"{len(messages)} messages in {self.name}")

    def send_unseen(self, messages: Sequence[Message]) -> None:
        """The same, without waiting until they are in the queues."""
        self._producer.send_batch(messages)
        self.sent += len(messages)

    def send_to_responding_broker(self, count: int) -> list[str]:
        """``send`` while servers fall and rise: return the bodies of which a broker has confirmed that it stored them.

        Others may be stored too, and a body whose confirmation was late may be stored twice. Each call requests the
        route: a producer does not while its sends succeed, and would never send to a broker that has returned.
        """
        self._short_routes.refresh([self.name])
        bodies = [f"{self.name}-{self.sent + index}" for index in range(count)]
        self.sent += count
        return [body for body in bodies if self._is_confirmed(body)]

    def _is_confirmed(self, body: str) -> bool:
        try:
            self._short_producer.send(Message(self.name, body.encode()))
        except RocketMQError:
            return False
        return True

    def _brokers(self) -> dict[MessageQueue, AdminBroker]:
        """The broker of each queue, by one request for the route."""
        route = self._name_servers.query_topic_route(self.name)
        found: dict[MessageQueue, AdminBroker] = {}
        for queue in route.read_queues():
            address = route.master_address(queue.broker_name)
            assert address is not None
            found[queue] = AdminBroker(address, self._pool, TIMEOUT_MS)
        return found

    def _first_broker(self) -> AdminBroker:
        return next(iter(self._brokers().values()))

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        return self._name_servers.query_topic_route(self.name).read_queues()

    def bounds(self) -> dict[MessageQueue, QueueBounds]:
        found: dict[MessageQueue, QueueBounds] = {}
        for queue, broker in self._brokers().items():
            if queue not in found:
                found |= broker.query_topic_stats(self.name)
        return found

    def await_dispatch(self) -> None:
        """Until all that brokers have confirmed is in the queues: for a test that has not sent by this object."""
        for broker in {queue.broker_name: broker for queue, broker in self._brokers().items()}.values():
            broker.await_dispatch()

    def bounds_are_empty(self) -> bool:
        self.await_dispatch()
        return all(held.max_offset == 0 for held in self.bounds().values())

    def committed(self, group: str) -> dict[MessageQueue, int | None]:
        """The group's offsets at the brokers."""
        return {queue: broker.query_offset(group, queue) for queue, broker in self._brokers().items()}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Store the group's offsets as a member does."""
        brokers = self._brokers()
        for queue, offset in offsets.items():
            brokers[queue].ensure_group(group)
            brokers[queue].update_offset(group, queue, offset)

    def lag(self, group: str) -> int:
        """Return how many offsets the group has not committed; a queue without a committed one counts as a whole."""
        committed = self.committed(group)
        return sum(
            held.max_offset - (held.min_offset if (at := committed[queue]) is None else at)
            for queue, held in self.bounds().items()
        )

    def members(self, group: str) -> list[str]:
        return self._first_broker().submit_consumer_ids(group).result()

    def owners(self, group: str) -> dict[str, set[MessageQueue]]:
        """The queues of this topic that each member of the group states to have, as the admin tools see them."""
        infos = self._first_broker().query_running_infos(group, set(self.members(group)))
        return {
            client_id: {queue for queue in info.process_queues if queue.topic == self.name}
            for client_id, info in infos.items()
        }

    def is_shared(self, group: str, member_count: int) -> bool:
        """Whether so many members answer, and own each queue once."""
        owners = self.owners(group)
        owned = [queue for queues in owners.values() for queue in queues]
        return len(owners) == member_count and sorted(owned, key=MessageQueue.sort_key) == list(self.queues)

    def reset_to_the_beginning(self, group: str) -> None:
        """What an operator does with ``mqadmin resetOffsetByTime``."""
        self._first_broker().reset_offsets_to_time(group, self.name, 0)

    def lockable(self, group: str) -> set[MessageQueue]:
        """Return the queues of which no member holds the lock: a stranger locks them, and unlocks them again."""
        broker = self._first_broker()
        locked = broker.submit_lock_batch(group, "stranger", self.queues).result()
        broker.submit_unlock_batch(group, "stranger", locked).result()
        return locked

    def close(self) -> None:
        self._pool.close()


@contextmanager
def steady_messages(topic: Topic, *, any_broker: bool = False) -> Iterator[list[str]]:
    """Send about 100 messages a second while the test does something else, to servers too of which some are away."""
    sent: list[str] = []
    is_over = threading.Event()
    send_some = topic.send_to_responding_broker if any_broker else topic.send

    def send() -> None:
        while not is_over.wait(0.1):
            sent.extend(send_some(10))

    sender = threading.Thread(target=send, name="sender")
    sender.start()
    try:
        yield sent
    finally:
        is_over.set()
        sender.join()


@dataclass
class Stream:
    """A query to be: one source, one sink that keeps each batch under its number, one checkpoint."""

    spark: SparkSession
    cluster: EmbeddedCluster
    topic: str
    group: str
    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | StructType | None = None
    before_each_batch: Callable[[], None] = lambda: None
    """Called when a batch is planned and logged, and nothing of it has been pulled yet."""

    def load(self) -> DataFrame:
        reader = self.spark.readStream.format("rocketmq")
        reader = reader.option("consumerGroup", self.group)
        if not {"assign", "subscribePattern"} & self.options.keys():
            reader = reader.option("subscribe", self.topic)
        server = {} if "endpoints" in self.options else {"namesrvAddr": self.cluster.namesrv_addr}
        start = {} if STARTS.intersection(self.options) else {"startingOffsets": "earliest"}
        reader = reader.options(**(server | start | self.cluster.security_options | dict(self.options)))
        if self.schema is not None:
            reader = reader.schema(self.schema)
        return reader.load()

    def writer(self) -> DataStreamWriter:
        """Of batches to ``folder``, one sub-folder a batch, so that a replayed batch replaces itself."""
        out = str(self.folder / "out")

        def write(batch: DataFrame, batch_id: int) -> None:
            self.before_each_batch()
            batch.write.mode("overwrite").parquet(f"{out}/batch={batch_id}")

        writer = self.load().writeStream.foreachBatch(write)
        return writer.option("checkpointLocation", str(self.folder / "checkpoint"))

    def start(self, **trigger: bool | str) -> StreamingQuery:
        writer = self.writer()
        if trigger:
            writer = writer.trigger(**trigger)  # type: ignore[arg-type]  # one of several kinds
        return writer.start()

    def run_to_end(self) -> None:
        """Read, write and commit what is there, on each Spark."""
        error = rocketmq_spark.run_available_now(self.writer()).exception()
        assert error is None, error

    @contextmanager
    def running(self, **trigger: bool | str) -> Iterator[StreamingQuery]:
        """A query that runs until the test is done with it; a test that fails states how the query is."""
        query = self.start(**trigger)
        try:
            yield query
        except AssertionError as failure:
            failure.add_note(f"the query's error: {query.exception()}")
            failure.add_note(f"its progress: {[progress.json for progress in query.recentProgress]}")
            raise
        finally:
            query.stop()

    def batches_done(self) -> int:
        """How many batches the checkpoint has as committed; the rows of one more may be in the sink."""
        return sum(path.name.isdigit() for path in self.folder.glob("checkpoint/commits/*"))

    def rows(self) -> list[Row]:
        """Everything that was written, in no particular order, by a Spark job."""
        if not any(self.folder.glob("out/batch=*/*.parquet")):
            return []
        return self.spark.read.option("mergeSchema", "true").parquet(str(self.folder / "out")).drop("batch").collect()

    def written(self, *columns: str) -> list[tuple[int, dict[str, Any]]]:
        """(batch ID, these columns) of every row, in the order in which Spark wrote them, without a Spark job, which
        takes half a second of a processor: for tests that look often. It lacks a batch that Spark is just replacing."""
        while True:
            try:
                return [
                    (batch_id, row)
                    for batch_id, file in sorted(map(numbered, self.folder.glob("out/batch=*/*.parquet")))
                    for row in pq.ParquetFile(file).read(columns).to_pylist()
                ]
            except FileNotFoundError:  # a replayed batch replaces its files
                time.sleep(SHORTEST_PAUSE_S)

    def batches_queues_and_offsets(self) -> list[tuple[int, int, int]]:
        """(batch ID, queue ID, queue offset) of every row, in the order in which Spark wrote them."""
        rows = self.written("queueId", "queueOffset")
        return [(batch_id, row["queueId"], row["queueOffset"]) for batch_id, row in rows]

    def places_and_bodies(self) -> list[tuple[MessageQueue, int, str]]:
        """(queue, offset, body) of every row."""
        return [
            (MessageQueue(row["topic"], row["brokerName"], row["queueId"]), row["queueOffset"], row["body"].decode())
            for _, row in self.written("topic", "brokerName", "queueId", "queueOffset", "body")
        ]

    def places(self) -> list[tuple[int, int]]:
        """(queue id, queue offset) of every row, see ``places_and_bodies``."""
        return [(queue.queue_id, offset) for queue, offset, _ in self.places_and_bodies()]

    def bodies(self) -> list[str]:
        return sorted(row["body"].decode() for _, row in self.written("body"))


def numbered(file: Path) -> tuple[int, Path]:
    """The batch ID in the name of its folder, and the file."""
    return int(file.parent.name.partition("=")[2]), file


def owned_queues(query: StreamingQuery) -> set[str]:
    """Which queues the query states are its own, in its last progress."""
    progress = query.lastProgress
    if progress is None or progress.sources[0].latestOffset is None:
        return set()
    offset = json.loads(progress.sources[0].latestOffset)
    return {
        f"{broker}:{queue}"
        for brokers in offset["maxOffsets"].values()
        for broker in brokers
        for queue in brokers[broker]
    }
