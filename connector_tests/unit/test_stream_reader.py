"""Spark's calls before the first one for an offset cost nothing, and what it pickles arrives as it was."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connector_tests.support.queues import queue
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from connector_tests.support.spark_pickle import sent
from connector_tests.support.timeouts import PROCESS_S, WAIT_S
from rocketmq_spark.errors import BrokerError, OptionError, RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, QueueRange
from rocketmq_spark.pull.outage_notes import OutageNotes
from rocketmq_spark.remoting.read_checks import NO_QUEUE
from rocketmq_spark.source.data_loss import RETENTION, LostRange
from rocketmq_spark.source.datasource import FailingReader, RocketMQDataSource
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.source.stream.offsets import PlannedWith, QueueProgress, SourceOffset
from rocketmq_spark.source.stream.stream_reader import RocketMQInputPartition, RocketMQStreamReader
from rocketmq_spark.spark_version import MAX_ROWS, max_rows
from rocketmq_spark.wire.body.task_report import Recipient
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

NO_SERVER = "127.0.0.1:1"
"""An address that refuses connections at once."""

OPTIONS = {"namesrvAddr": NO_SERVER, "consumerGroup": "g", "subscribe": "orders", "clusterTimeoutMs": "0"}
END = SourceOffset({queue(0): QueueProgress(3, 9, 5), queue(1): QueueProgress(7, 7, 6), queue(2): QueueProgress(0, 4)})
PARTITION = RocketMQInputPartition(
    (QueueRange(queue(0), 3, 9),),
    {"broker-a": BrokerAddress("a:10911")},
    (QueueRange(queue(0), 3, 9),),
    "a batch",
    Recipient("me", "0f"),
    (LostRange(queue(0), 3, 5, RETENTION),),
)


def reader(**options: str) -> RocketMQStreamReader:
    made = RocketMQDataSource(OPTIONS | options).streamReader(default_schema())
    assert isinstance(made, RocketMQStreamReader)
    return made


def run_of(one: RocketMQStreamReader) -> object:
    return vars(one)["_run"]


# ------------------------------------------------------------------------------------------- nothing is touched

REPORT_ON = """
import json, sys, threading
from pyspark.serializers import CloudPickleSerializer
import rocketmq_spark.source.datasource
WORLD = ("socket.", "subprocess.", "os.fork", "os.posix_spawn", "os.mkdir", "tempfile.", "os.kill")
seen = []
sys.addaudithook(lambda event, arguments: seen.append(event) if event.startswith(WORLD) else None)
begin = threading.Thread.start
threading.Thread.start = lambda thread: (seen.append("thread"), begin(thread))
sent = lambda value: CloudPickleSerializer().loads(CloudPickleSerializer().dumps(value))
"""
"""Audit events of Python by which a process reaches for the world, and threads, which have none."""

AS_SPARK_PLANS = """
source = sent(rocketmq_spark.source.datasource.RocketMQDataSource({options}))
schema = source.schema()
reader = sent(source.streamReader(schema))
sent(reader.read)
reader.getDefaultReadLimit()
reader.prepareForTriggerAvailableNow()
start = reader.initialOffset()
assert reader.reportLatestOffset() is None
reader.commit(start)
assert sent(reader)._run is None and reader._run is None
reader.stop()
"""

THE_FIRST_OFFSET = """
try:
    reader.latestOffset(start, reader.getDefaultReadLimit())
except rocketmq_spark.errors.TransportError:
    pass
reader.stop()
"""


def world_events(*steps: str) -> set[str]:
    """Of a process of its own, as Spark's planner is one: audit hooks cannot be taken away."""
    script = "\n".join((REPORT_ON, *steps, "print(json.dumps(seen))")).replace("{options}", repr(OPTIONS))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PROCESS_S)
    return set(json.loads(run.stdout))


def test_until_the_first_offset_is_required_nothing_is_opened_started_or_joined() -> None:
    assert world_events(AS_SPARK_PLANS) == set()


def test_the_first_offset_makes_the_member_and_this_is_noticed() -> None:
    assert world_events(AS_SPARK_PLANS, THE_FIRST_OFFSET) >= {"socket.connect", "thread", "os.mkdir"}


PLANNED = replace(END, planned_with=PlannedWith("g", "CLUSTERING", "*")).to_json()


def test_a_checkpoint_of_another_group_is_refused_before_anything_is_joined() -> None:
    one = reader(consumerGroup="another")
    for make_call in (
        lambda: one.latestOffset(PLANNED, one.getDefaultReadLimit()),
        lambda: one.partitions({}, PLANNED),
    ):
        with pytest.raises(
            OptionError,
            match=r"CHECKPOINT_OPTION_CHANGED.*consumerGroup='g'; the query now has consumerGroup='another'\.",
        ):
            make_call()
        assert run_of(one) is None


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, None),
        ({"maxOffsetsPerTrigger": "7"}, 7),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "7"}, 7),
        ({"minOffsetsPerTrigger": "5"}, MAX_ROWS),
        ({"maxBytesPerTrigger": "5"}, MAX_ROWS),
        ({"maxBytesPerTrigger": "5", "maxOffsetsPerTrigger": "7"}, 7),
    ],
)
def test_read_limit_differs_from_that_of_once_if_there_is_another_limit(
    given: dict[str, str], limit: int | None
) -> None:
    assert max_rows(reader(**given).getDefaultReadLimit()) == limit


# ------------------------------------------------------------------------------------------- what travels

CARRIED = pytest.mark.parametrize(
    "carried", [lambda value: pickle.loads(pickle.dumps(value)), sent], ids=["pickle", "PySpark's"]
)


@CARRIED
def test_a_source_arrives_with_its_options(carried: Callable[[Any], Any]) -> None:
    source = RocketMQDataSource(OPTIONS)
    assert carried(source).read_options() == source.read_options()


@CARRIED
def test_a_refused_source_arrives_with_its_refusal(carried: Callable[[Any], Any]) -> None:
    refused = carried(RocketMQDataSource({"namesrvAddr": NO_SERVER}).streamReader(default_schema()))
    assert isinstance(refused, FailingReader)
    planning = (refused.getDefaultReadLimit, refused.initialOffset, refused.latestOffset)
    for call in (*planning, lambda: refused.partitions({}, {}), lambda: refused.read(PARTITION)):
        with pytest.raises(OptionError, match="MISSING_OPTION"):
            call()


@CARRIED
def test_a_partition_arrives_as_it_was(carried: Callable[[Any], Any]) -> None:
    assert carried(PARTITION) == PARTITION


@CARRIED
def test_a_reader_arrives_with_what_executors_need_and_no_member(carried: Callable[[Any], Any]) -> None:
    arrived = carried(reader())
    assert (arrived._options, arrived._schema) == (reader()._options, default_schema())
    assert run_of(arrived) is None


@CARRIED
def test_a_reader_whose_member_runs_arrives_without_it(carried: Callable[[Any], Any]) -> None:
    """The member's locks and sockets cannot travel, and a second one of its id would take the queues from it."""
    running = reader()
    assert run_of(running) is None
    try:
        with pytest.raises(TransportError):
            running.latestOffset(running.initialOffset(), running.getDefaultReadLimit())
        assert run_of(running) is not None
        arrived = carried(running)
        assert run_of(arrived) is None
        assert arrived._options == running._options
        assert arrived.reportLatestOffset() is None
    finally:
        running.stop()
    assert run_of(running) is None


@CARRIED
def test_a_reader_that_has_planned_arrives_as_a_new_one(carried: Callable[[Any], Any]) -> None:
    """A batch of thousands of queues would travel to each of its tasks."""
    planner = reader()
    try:
        planner.partitions(SourceOffset().to_json(), END.to_json())
        assert len(pickle.dumps(carried(planner))) == len(pickle.dumps(planner)) == len(pickle.dumps(reader()))
    finally:
        planner.stop()


# ------------------------------------------------------------------------------------------- partitions


def ranges_of(end: dict[str, Any], **options: str) -> list[tuple[QueueRange, ...]]:
    """Of a batch that a restart reads again."""
    planner = reader(**options)
    try:
        partitions = planner.partitions(SourceOffset().to_json(), end)
    finally:
        planner.stop()
    return [one.ranges for one in partitions if isinstance(one, RocketMQInputPartition)]


def turned_round(value: Any) -> Any:
    """The same JSON with the names of each table in the opposite order."""
    return {key: turned_round(value[key]) for key in reversed(value)} if isinstance(value, dict) else value


@pytest.mark.parametrize("count", ["1", "5"])
@pytest.mark.parametrize("longest", ["2", "100"])
def test_partitions_are_the_same_whichever_planner_creates_them_and_hold_each_offset_once(
    count: str, longest: str
) -> None:
    options = {"minPartitions": count, "maxRecordsPerPartition": longest}
    end = END.to_json()
    assert json.dumps(turned_round(end)) != json.dumps(end)
    planned = ranges_of(end, **options)
    assert planned == ranges_of(turned_round(end), **options)
    assert sorted(offsets_of(one for task in planned for one in task)) == sorted(offsets_of(END.ranges()))


def offsets_of(ranges: Iterable[QueueRange]) -> list[tuple[int, int]]:
    return [(one.queue.queue_id, offset) for one in ranges for offset in range(one.begin_offset, one.end_offset)]


def test_skipped_ranges_are_of_the_replayed_batch_only() -> None:
    """After an operator's reset the same offsets were planned again in the same run, and skipped again."""
    one, end = reader(skipRanges=str(QueueRange(queue(0), 3, 9))), END.to_json()

    def read_queues() -> set[int]:
        parts = one.partitions(SourceOffset().to_json(), end)
        planned = [part.ranges for part in parts if isinstance(part, RocketMQInputPartition)]
        return {one.queue.queue_id for ranges in planned for one in ranges}

    try:
        assert [read_queues(), read_queues()] == [{2}, {2}]
        with pytest.raises(TransportError):
            one.latestOffset(end, one.getDefaultReadLimit())
        assert read_queues() == {0, 2}
    finally:
        one.stop()


def test_notes_of_a_batch_are_kept_while_it_is_planned_again_and_removed_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query remembered the notes of every batch until it was stopped: 36 MB after 200,000."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    one, end = reader(), END.to_json()

    def notes_left_by_a_task_of(planned: dict[str, Any]) -> int:
        partition = one.partitions(SourceOffset().to_json(), planned)[0]
        assert isinstance(partition, RocketMQInputPartition)
        for subject in ("broker broker-a", "the name servers"):
            OutageNotes(partition.batch_id, subject).record(0)
        return len(list(tmp_path.glob("rocketmq-spark-outages-*/*")))

    try:
        assert [notes_left_by_a_task_of(end) for _ in range(3)] == [2, 4, 6]
        assert notes_left_by_a_task_of(SourceOffset({queue(0): QueueProgress(9, 12, 5)}).to_json()) == 2
    finally:
        one.stop()
    assert not list(tmp_path.glob("rocketmq-spark-outages-*"))


def test_a_limit_that_spark_would_make_up_is_an_error() -> None:
    one = reader()
    try:
        with pytest.raises(RocketMQError, match="INVALID_OPTION_VALUE"):
            one.latestOffset(one.initialOffset(), object())  # type: ignore[arg-type]  # another kind of limit
    finally:
        one.stop()


def test_what_ends_a_query_is_shown_once_and_without_the_way_to_it() -> None:
    """Of an address where nobody is, Spark used to show three tracebacks, with the same text in two of them."""
    one = reader(clusterTimeoutMs="1", brokerTimeoutMs="100")
    try:
        with pytest.raises(TransportError) as raised:
            one.latestOffset(one.initialOffset(), one.getDefaultReadLimit())
    finally:
        one.stop()
    shown = "".join(traceback.format_exception(raised.value))
    assert "CLUSTER_TIMEOUT" in shown
    assert shown.count("CONNECT_FAILED") == 1
    assert "membership.py" not in shown


def test_a_refused_option_is_shown_without_the_way_to_it() -> None:
    source = RocketMQDataSource(OPTIONS | {"consumerGroup": "TOOLS_CONSUMER"})
    with pytest.raises(OptionError) as raised:
        source.schema()
    shown = "".join(traceback.format_exception(raised.value))
    assert "INVALID_OPTION_VALUE" in shown
    assert "table.py" not in shown


# -------------------------------------------------------------------------------------------- rejected pulls


def reject_pull(request: RemotingCommand) -> RemotingCommand:
    """As brokers with ``rejectPullConsumerEnable=true`` do, which also ignore heartbeats of pull consumers."""
    if request.fields["queueId"] == str(NO_QUEUE):
        return build_response(ResponseCode.SYSTEM_ERROR, remark="queueId[2147483647] is illegal")
    return build_response(24, remark="the consumer's group info not exist, or the pull consumer is rejected by server.")


@pytest.mark.parametrize(
    "which", [{"subscribe": "orders"}, {"assign": '{"orders":{"broker-a":[0]}}'}], ids=["member", "assigned"]
)
def test_a_query_at_a_broker_that_rejects_pulls_fails_at_once(which: dict[str, str]) -> None:
    """It failed after ``clusterTimeoutMs``, with an error that did not name the broker's setting."""
    with ScriptedCluster("broker-a") as cluster:
        broker = cluster.brokers["broker-a"]
        broker.on(RequestCode.HEART_BEAT, build_response())
        broker.on(RequestCode.UNREGISTER_CLIENT, build_response())
        broker.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, build_response(1, remark="no consumer for this group, g"))
        bounds = b'{"lastUpdateTimestamp":1,"maxOffset":9,"minOffset":0}'
        table = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:%s}}' % bounds
        broker.on(RequestCode.GET_TOPIC_STATS_INFO, build_response(body=table))
        broker.on(RequestCode.PULL_MESSAGE, reject_pull)
        required = {"namesrvAddr": cluster.listen(), "consumerGroup": "g", "clusterTimeoutMs": "300000"}
        source = RocketMQDataSource(required | which).streamReader(default_schema())
        begin_s = time.monotonic()
        try:
            with pytest.raises(BrokerError, match=r"PULL_REJECTED.*'rejectPullConsumerEnable' is true"):
                source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())
        finally:
            source.stop()
        assert time.monotonic() - begin_s < WAIT_S
