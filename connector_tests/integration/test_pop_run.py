"""Spark's calls where messages are shared, made by hand on a real broker: batches, restarts, signals."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from connector_tests.support.spark_pickle import sent as pickled
from connector_tests.support.streams import TIMEOUT_S, Topic, eventually
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import OptionError, TransportError
from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.pop.pop_run import PopRun
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.spark_version import max_rows

pytestmark = pytest.mark.broker

LIMIT = ReadAllAvailable()
SENT = 20
ReaderOf = Callable[..., RocketMQPopReader]
Value = dict[str, Any]


@pytest.fixture
def reader(cluster: EmbeddedCluster, topic: str, group: str) -> Iterator[ReaderOf]:
    """Makes readers that read what is there."""
    options = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic}
    options |= {"loadBalance": "message", "startingOffsets": "earliest", "maxRecordsPerPartition": "10", **PATIENT}
    with ExitStack() as made:

        def make(**more: str) -> RocketMQPopReader:
            one = RocketMQDataSource(options | more).streamReader(default_schema())
            assert isinstance(one, RocketMQPopReader)
            one.prepareForTriggerAvailableNow()
            made.callback(one.stop)
            return one

        yield make


def rows(one: RocketMQPopReader, start: Value, end: Value) -> list[str]:
    """Bodies, as executors read them."""
    partitions = [pickled(partition) for partition in one.partitions(start, end)]
    assert max((batch.num_rows for part in partitions for batch in one.read(part)), default=0) <= 10
    batches = (batch for partition in partitions for batch in pickled(one).read(partition))
    return sorted(body.decode() for batch in batches for body in batch.column("body").to_pylist())


def next_batch(one: RocketMQPopReader, start: Value) -> Value:
    end: Value = json.loads(json.dumps(one.latestOffset(start, LIMIT)))
    return end


def read_to_end(one: RocketMQPopReader, start: Value) -> tuple[list[str], Value]:
    """All bodies, and where that ends."""
    found: list[str] = []
    while (end := next_batch(one, start)) != start:
        found += rows(one, start, end)
        start = end
    return sorted(found), end


def test_a_batch_is_the_same_rows_whenever_it_is_read_and_is_acknowledged_when_the_next_is_requested(
    messages: Topic, reader: ReaderOf
) -> None:
    bodies = messages.send(45)
    one = reader()
    found, end = read_to_end(one, one.initialOffset())
    assert found == sorted(bodies)
    assert one.latestOffset(end, LIMIT) is end
    report = one.reportLatestOffset()
    assert report is not None
    assert {name: report[name] for name in ("received", "acknowledged", "expired", "prefetched", "inFlight")} == {
        "received": 45,
        "acknowledged": 45,
        "expired": 0,
        "prefetched": 0,
        "inFlight": 0,
    }


def test_a_limit_makes_smaller_batches(messages: Topic, reader: ReaderOf) -> None:
    messages.send(8)
    one = reader()
    start = one.initialOffset()
    end = one.latestOffset(start, ReadMaxRows(3))
    first = rows(one, start, end)
    assert 1 <= len(first) <= 3
    assert rows(one, start, end) == first


def test_a_limit_of_bytes_makes_smaller_batches_and_nothing_is_omitted(messages: Topic, reader: ReaderOf) -> None:
    bodies = messages.send(4)
    one = reader(maxBytesPerTrigger="1")
    start, found = one.initialOffset(), []
    while (end := next_batch(one, start)) != start:
        batch = rows(one, start, end)
        assert len(batch) == 1
        found += batch
        start = end
    assert sorted(found) == sorted(bodies)


def test_a_batch_that_a_later_start_reads_is_empty_and_its_messages_come_in_another(
    messages: Topic, reader: ReaderOf
) -> None:
    bodies = messages.send(SENT)
    start, end, _ = stopped_after_a_batch(reader())
    later = reader()
    assert rows(later, start, end) == []
    assert rows(later, start, end) == []
    later_still = again_until(later, end, len(bodies))
    assert later_still == sorted(bodies)


def test_a_batch_that_was_done_is_acknowledged_by_a_later_start(messages: Topic, reader: ReaderOf) -> None:
    bodies = messages.send(SENT)
    _, end, first = stopped_after_a_batch(reader())
    rest = again_until(reader(), end, len(bodies) - len(first))
    assert sorted(first + rest) == sorted(bodies)


def test_with_a_spool_a_later_start_reads_the_same_rows_and_acknowledges_them(
    messages: Topic, reader: ReaderOf, tmp_path: Path
) -> None:
    bodies = messages.send(SENT)
    start, end, first = stopped_after_a_batch(reader(spoolDir=str(tmp_path)))
    later = reader(spoolDir=str(tmp_path))
    assert rows(later, start, end) == first
    assert rows(later, start, end) == first
    rest = again_until(later, end, len(bodies) - len(first))
    assert sorted(first + rest) == sorted(bodies)
    assert files_in(tmp_path) == [], "all is done"
    assert reported(later, "acknowledged") == len(bodies)


def test_of_a_batch_that_was_kept_and_is_in_the_sink_nothing_is_redelivered(
    messages: Topic, reader: ReaderOf, tmp_path: Path
) -> None:
    bodies = messages.send(SENT)
    _, end, first = stopped_after_a_batch(reader(spoolDir=str(tmp_path)))
    rest = again_until(reader(spoolDir=str(tmp_path)), end, len(bodies) - len(first))
    assert sorted(first + rest) == sorted(bodies)
    assert files_in(tmp_path) == []


def test_a_batch_that_was_kept_and_never_logged_is_released(messages: Topic, reader: ReaderOf, tmp_path: Path) -> None:
    """A crash between the two: Spark asks from the batch before it."""
    bodies = messages.send(SENT + 1)
    one = reader(spoolDir=str(tmp_path))
    start = one.initialOffset()
    logged = json.loads(json.dumps(one.latestOffset(start, ReadMaxRows(1))))
    (first,) = rows(one, start, logged)
    eventually(lambda: next_batch(one, logged) != logged, "a batch that is not logged")
    assert len(files_in(tmp_path)) == 1
    stop_when_all_are_received(one, SENT + 1)
    later = reader(spoolDir=str(tmp_path))
    assert sorted([first, *again_until(later, logged, SENT)]) == sorted(bodies)
    assert reported(later, "released") > 0, "else they would have come after five minutes"
    assert files_in(tmp_path) == []


def test_a_first_batch_that_was_kept_and_never_logged_is_released(
    messages: Topic, reader: ReaderOf, tmp_path: Path
) -> None:
    """No checkpoint reports of it."""
    bodies = messages.send(SENT)
    one = reader(spoolDir=str(tmp_path))
    next_batch(one, one.initialOffset())
    stop_when_all_are_received(one, SENT)
    assert len(files_in(tmp_path)) == 1
    later = reader(spoolDir=str(tmp_path))
    assert again_until(later, later.initialOffset(), len(bodies)) == sorted(bodies)
    assert reported(later, "released") > 0, "else they would have come after five minutes"
    assert files_in(tmp_path) == []


def test_without_what_was_kept_a_batch_is_empty_and_its_messages_come_in_another(
    messages: Topic, reader: ReaderOf, tmp_path: Path
) -> None:
    bodies = messages.send(SENT)
    start, end, _ = stopped_after_a_batch(reader(spoolDir=str(tmp_path)))
    (kept,) = files_in(tmp_path)
    kept.write_bytes(kept.read_bytes()[:-1])
    later = reader(spoolDir=str(tmp_path))
    assert rows(later, start, end) == []
    assert again_until(later, end, len(bodies)) == sorted(bodies)
    assert files_in(tmp_path) == []


def stopped_after_a_batch(one: RocketMQPopReader) -> tuple[Value, Value, list[str]]:
    """Where its first batch begins and ends, and the bodies; that it was read, Spark has not said."""
    start = one.initialOffset()
    end = next_batch(one, start)
    first = rows(one, start, end)
    assert first
    stop_when_all_are_received(one, SENT)
    return start, end, first


def stop_when_all_are_received(one: RocketMQPopReader, count: int) -> None:
    """What is on its way to somebody who stops is redelivered much later."""
    eventually(lambda: reported(one, "received") >= count, "all messages")
    one.stop()


def files_in(folder: Path) -> list[Path]:
    return [entry for entry in folder.rglob("*") if entry.is_file()]


def reported(one: RocketMQPopReader, what: str) -> int:
    """By the progress."""
    report = one.reportLatestOffset()
    assert report is not None
    return int(report[what])


def again_until(one: RocketMQPopReader, start: Value, count: int) -> list[str]:
    """Bodies, until there are so many: brokers take some seconds to give out again what was released."""
    found, start = read_to_end(one, start)
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count}"
        more, start = read_to_end(one, start)
        found += more
    return sorted(found)


def test_a_run_that_received_its_end_reports_no_new_offsets_and_calls_no_batch_empty(
    messages: Topic, reader: ReaderOf
) -> None:
    messages.send(5)
    one = reader()
    end = next_batch(one, one.initialOffset())
    ended = reader()
    run = ended._started_run()
    assert isinstance(run, PopRun)
    os.kill(os.getpid(), signal.SIGTERM)
    assert ended.latestOffset(end, LIMIT) is end
    with pytest.raises(TransportError, match="SOURCE_PROCESS_TERMINATED"):
        ended.partitions({}, end)


def test_a_limit_is_a_number_of_rows_or_none() -> None:
    assert (max_rows(ReadMaxRows(7)), max_rows(ReadAllAvailable())) == (7, None)
    with pytest.raises(OptionError, match="read limit"):
        max_rows(ReadMinRows(7))
