"""Ranges that were logged and that the broker cannot give any more as they were: deleted, or damaged on its disk."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from connector_tests.support.cluster_pool import RestingCluster
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.cli import doctor
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.admin import broker_at
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import DataLossError, RemoteProtocolError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import BatchReadOptions, ReadOptions
from rocketmq_spark.pop import retention_check
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.source.batch.batch_reader import BatchInputPartition, RocketMQBatchReader
from rocketmq_spark.source.data_loss import RETENTION, LostRange
from rocketmq_spark.source.partition_reader import read_ranges
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.pop.pop_run import PopRun
from rocketmq_spark.source.schema import default_schema

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("implementation")]

FILE_BYTES = 64 * 1024
COUNT = 1_000
BODY_BYTES = 200
TASK_COUNT = 4


@dataclass(frozen=True)
class Store:
    """A broker with small files, and where they are."""

    cluster: EmbeddedCluster
    folder: Path

    def damage(self, body: str) -> None:
        """Overwrite the length of the one stored body that begins with ``body``, which is right before it."""
        for file in sorted((self.folder / "broker-a" / "commitlog").iterdir()):
            at = file.read_bytes().find(body.encode())
            if at >= 0:
                with file.open("r+b") as stored:
                    stored.seek(at - 4)
                    stored.write(b"\x7f\xff\xff\xff")
                return
        raise AssertionError(f"{body} is not in the commit log")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("stores")
    files = {"mappedFileSizeCommitLog": str(FILE_BYTES)}
    with RestingCluster(store_dir=folder, broker_config=files) as cluster:
        yield Store(cluster, folder)


@pytest.fixture
def stored(store: Store) -> Iterator[Topic]:
    """A topic of one queue that holds ``COUNT`` messages."""
    name = store.cluster.create_topic(unique_name("stored"), 1)
    with closing(Topic(store.cluster, name)) as topic:
        topic.send_batches(COUNT, BODY_BYTES)
        eventually(lambda: topic.bounds()[queue_of(topic)].max_offset == COUNT, "all messages are in the queue")
        yield topic


def queue_of(topic: Topic) -> MessageQueue:
    return MessageQueue(topic.name, "broker-a", 0)


def read(store: Store, topic: Topic, **options: str) -> list[int]:
    """The queue offsets of what an executor gives of the range that was logged: all messages."""
    given = {"namesrvAddr": store.cluster.namesrv_addr, "consumerGroup": "G", "subscribe": topic.name} | options
    ranges = (QueueRange(queue_of(topic), 0, COUNT),)
    batches = read_ranges(ranges, ReadOptions.parse(given), default_schema())
    return [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()]


def expire(store: Store, topic: Topic) -> int:
    """Let the broker delete messages; returns the first offset that is left."""
    store.cluster.expire_messages()
    min_offset = topic.bounds()[queue_of(topic)].min_offset
    assert 0 < min_offset < COUNT, "nothing was deleted, or everything"
    return min_offset


def test_what_was_deleted_after_it_was_planned_is_an_error_with_its_exact_range(store: Store, stored: Topic) -> None:
    min_offset = expire(store, stored)
    with pytest.raises(DataLossError) as raised:
        read(store, stored)
    assert str(raised.value) == (
        f"[ROCKETMQ_DATA_LOSS.OFFSETS_UNAVAILABLE] {min_offset} offsets no longer available in the brokers: [0, "
        f"{min_offset}) of {queue_of(stored)}: the broker deleted them (retention). Set 'failOnDataLoss' to false "
        "to continue without them. To start a batch read over, call load() again. To start a stream over, stop the "
        "other members of its group. Then use a new checkpoint location (for a file sink also a new path), and set "
        "'groupOffsets' to 'ignore': the query resets the group to 'startingOffsets'."
    )


def test_doctor_reports_what_was_deleted_and_is_not_read_by_the_group(
    store: Store, stored: Topic, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--namesrv", store.cluster.namesrv_addr, "--group", group, "--topic", stored.name]
    eventually(lambda: doctor.main(arguments) == 0, "a sound job")  # and the broker has the group
    with broker_at(store.cluster.broker_addr()) as broker:
        assert broker.submit_update_offsets(group, {queue_of(stored): 1}).result() == {}
    eventually(lambda: doctor.main(arguments) == 0, "a sound job")
    min_offset = expire(store, stored)
    capsys.readouterr()

    def first_line() -> str:
        assert doctor.main(arguments) == 1
        return capsys.readouterr().out.splitlines()[0]

    expected = (
        f"problem: Broker 'broker-a' has deleted {min_offset - 1} offsets that group '{group}' has not read: retention "
        f"deleted {queue_of(stored)}[1,{min_offset})."
    )
    eventually(lambda: first_line() == expected, expected)  # a broker that is busy may be the first problem


def test_when_losses_are_allowed_the_rest_is_read_and_the_exact_range_is_logged(
    store: Store, stored: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    min_offset = expire(store, stored)
    with caplog.at_level(logging.WARNING):
        assert read(store, stored, failOnDataLoss="false") == list(range(min_offset, COUNT))
    (line,) = losses(caplog)
    assert line == (
        f"DATA_LOSS.OFFSETS_UNAVAILABLE: Skipping {min_offset} offsets that the query has not read; their messages "
        f"are in no output: [0, {min_offset}) of {queue_of(stored)}: the broker deleted them (retention)"
    )


def losses(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "DATA_LOSS" in line]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_batch_read_names_the_exact_ranges_that_are_deleted_between_its_tasks(
    store: Store, stored: Topic, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    """All tasks were planned before the broker deleted files of its commit log, and one had been read."""
    given = {"namesrvAddr": store.cluster.namesrv_addr, "subscribe": stored.name, "minPartitions": str(TASK_COUNT)}
    options = BatchReadOptions.parse(given | {"failOnDataLoss": fails})
    reader = RocketMQBatchReader(options, default_schema(), unique_name("load"))
    partitions = [one for one in reader.partitions() if isinstance(one, BatchInputPartition)]
    ranges = [one for partition in partitions for one in partition.ranges]
    assert len(partitions) == len(ranges) == TASK_COUNT
    read = offsets_of(reader, partitions[0])
    assert read == list(range(ranges[0].end_offset))
    min_offset = expire(store, stored)
    lost = [
        LostRange(one.queue, one.begin_offset, min(one.end_offset, min_offset), RETENTION)
        for one in ranges[1:]
        if one.begin_offset < min_offset
    ]
    assert lost, "nothing was deleted behind the first task"
    if fails == "true":
        with pytest.raises(DataLossError) as raised:
            offsets_of(reader, partitions[1])
        assert raised.value.condition == "DATA_LOSS.OFFSETS_UNAVAILABLE"
        assert raised.value.context["ranges"] == f"{lost[0]}: {RETENTION}"
        return
    with caplog.at_level(logging.WARNING):
        for partition in partitions[1:]:
            read += offsets_of(reader, partition)
    assert read == [*range(ranges[0].end_offset), *range(max(min_offset, ranges[0].end_offset), COUNT)]
    lines = losses(caplog)
    assert [line.partition(" in no output: ")[2] for line in lines] == [f"{one}: {RETENTION}" for one in lost]
    assert sum(int(line.split()[2]) for line in lines) == sum(map(len, lost))


def offsets_of(reader: RocketMQBatchReader, partition: BatchInputPartition) -> list[int]:
    return [offset for batch in reader.read(partition) for offset in batch.column("queueOffset").to_pylist()]


def test_a_task_reports_what_its_broker_has_lost_of_the_whole_batch(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """An error ends the query, though it comes from a task that reads one queue; a warning is one line a task."""
    name = store.cluster.create_topic(unique_name("two_queues"), 2)
    with closing(Topic(store.cluster, name)) as topic:
        topic.send_batches(2 * COUNT, BODY_BYTES)
        logged = [QueueRange(queue, 0, held.max_offset) for queue, held in sorted(topic.bounds().items(), key=str)]
        store.cluster.expire_messages()
        lost = [(queue, held.min_offset) for queue, held in sorted(topic.bounds().items(), key=str)]
        ranges = ", ".join(f"[0, {min_offset}) of {queue}" for queue, min_offset in lost)
        assert all(min_offset > 0 for _, min_offset in lost)
        given = {"namesrvAddr": store.cluster.namesrv_addr, "consumerGroup": "G", "subscribe": name}
        with pytest.raises(DataLossError) as raised:
            list(read_ranges(logged[:1], ReadOptions.parse(given), default_schema(), logged=logged))
        assert raised.value.context["ranges"] == f"{ranges}: the broker deleted them (retention)"
        careless = ReadOptions.parse({**given, "failOnDataLoss": "false"})
        with caplog.at_level(logging.WARNING):
            list(read_ranges(logged, careless, default_schema(), logged=logged))
        (line,) = losses(caplog)
        assert line.endswith(f" in no output: {ranges}: the broker deleted them (retention)")
        caplog.clear()
        reported = [LostRange(queue, 0, min_offset, RETENTION) for queue, min_offset in lost]
        list(read_ranges(logged, careless, default_schema(), logged=logged, reported_losses=reported))
        assert caplog.messages == []


@pytest.mark.parametrize("number", [0, 500, COUNT - 1])
def test_a_message_that_is_damaged_on_disk_is_an_error_with_its_place(store: Store, stored: Topic, number: int) -> None:
    """Never a batch without it: what follows a message is found by its length, so the rest would be lost with it."""
    store.damage(f"{stored.name}-{number}.")
    with pytest.raises(RemoteProtocolError) as raised:
        read(store, stored)
    reported = str(raised.value)
    assert "CORRUPT_MESSAGE.QUEUE" in reported
    assert str(queue_of(stored)) in reported
    place = re.search(r"pulled from offset (\d+): .*message (\d+) \(from 0\) of a response", reported)
    assert place is not None
    assert int(place[1]) + int(place[2]) == number


def test_failing_on_data_loss_or_not_a_damaged_message_is_never_skipped(store: Store, stored: Topic) -> None:
    store.damage(f"{stored.name}-10.")
    with pytest.raises(RemoteProtocolError, match=r"CORRUPT_MESSAGE\.QUEUE"):
        read(store, stored, failOnDataLoss="false")


def test_shared_messages_that_were_deleted_undelivered_are_an_error_with_their_range(
    store: Store, stored: Topic, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_check, "CONFIRM_DELAY_S", 1.0)
    options = {"namesrvAddr": store.cluster.namesrv_addr, "consumerGroup": group, "subscribe": stored.name}
    options |= {"loadBalance": "message", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "5"}
    queue = queue_of(stored)
    with closing(_Sharing(options)) as first:
        assert first.next_batch()
        eventually(first.is_full, "no open polls: what such a poll brings later is delivered, and was not received")
    begin = first.received
    eventually(lambda: stored.committed(group)[queue] == begin, "the group's offset says all that was delivered")
    end = expire(store, stored)
    with closing(_Sharing(options)) as second, pytest.raises(DataLossError) as raised:
        second.next_batch()
    assert raised.value.condition == "DATA_LOSS.UNDELIVERED_MESSAGES"
    assert raised.value.context["ranges"] == f"[{begin}, {end}) of {queue}: the broker deleted them (retention)"
    with closing(_Sharing(options | {"failOnDataLoss": "false"})) as third:
        assert third.next_batch()


class _Sharing:
    """A query whose group shares messages, as Spark's calls have it."""

    def __init__(self, options: dict[str, str]) -> None:
        self._run = PopRun(ReadOptions.parse(options), is_available_now=False)
        self._start = PopOffset(options["consumerGroup"])
        self.received = 0

    def next_batch(self) -> int:
        """How many messages it has."""
        while (end := self._run.latest_offset(self._start, None)) is self._start:
            pass
        self._start = end
        return len(end.handles)

    def is_full(self) -> bool:
        """Polls for nothing more."""
        receiver = self._run._receiver
        return receiver.count(MessageState.PREFETCHED) >= 5 and not receiver._receive_scheduler.pending_requests

    def close(self) -> None:
        self._run._receiver.stop()
        self.received = self._run._receiver.counts.received
        self._run.stop()
