"""The life of a query whose group shares messages, over scripted brokers: what real ones do rarely, at will."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connector_tests.support.running_query import RunningQuery
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.sharing_servers import SharingServers, handle_of
from connector_tests.support.streams import eventually
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import DataLossError, LocalProtocolError, MembershipError, TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop import retention_check
from rocketmq_spark.pop.receipt_handles import ReceivedMessage
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.spool import Spool
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.pop.unacked_messages import MessageState
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.pop.pop_reader import MessagesPartition, RocketMQPopReader
from rocketmq_spark.source.pop.pop_run import EarlierBatch, PopRun
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.source.stream.drain import CONTROL, FILES, Control, DrainState
from rocketmq_spark.source.stream.graceful_stop import stop
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

ALL = 1_000


@contextmanager
def running(options: ReadOptions) -> Iterator[PopRun]:
    run = PopRun(options, is_available_now=False)
    try:
        yield run
    finally:
        run.stop()


def control_of(run: PopRun) -> Control:
    report = run.report(0)
    assert report is not None
    return Control(**report[CONTROL])


def control_file(run: PopRun, state: DrainState) -> Path:
    """That shows ``state`` to whoever stops the query."""
    return Path(control_of(run).folder) / FILES[state]


def assert_no_batch(run: PopRun, start: PopOffset) -> None:
    assert run.latest_offset(start, ALL) is start


def batch_after(run: PopRun, start: PopOffset) -> PopOffset:
    """The end of the next batch, once there is one."""
    ends = [start]

    def has_one() -> bool:
        ends.append(run.latest_offset(start, ALL))
        return ends[-1] is not start

    eventually(has_one, "a batch")
    return ends[-1]


@pytest.mark.parametrize("has_one_before", [False, True])
def test_a_second_batch_from_one_start_is_an_error(has_one_before: bool) -> None:
    """Its end would complete the first as well, whose messages would be acknowledged in no sink."""
    with SharingServers("a") as servers, running(servers.options(maxOffsetsPerTrigger="3")) as run:
        broker = servers.brokers["a"]
        broker.messages = 9
        start = batch_after(run, PopOffset("g")) if has_one_before else PopOffset("g")
        end = batch_after(run, start)
        with pytest.raises(LocalProtocolError) as raised:
            run.latest_offset(start, ALL)
        skipped = 1 + has_one_before
        assert str(raised.value) == (
            f"[ROCKETMQ_BATCH_SKIPPED] Spark requested the next batch before batch {skipped} of this run was "
            "completed. The query stopped, because to acknowledge that batch now would lose its messages. Restart the "
            "query from its checkpoint: no data is lost. Report this error with the version of Spark."
        )
        assert in_batch(run) == len(end.handles), "none was acknowledged"


def test_a_terminated_run_reports_the_time_since_the_signal() -> None:
    """It reported 0 ms."""
    with SharingServers("a") as servers, running(servers.options()) as run:
        run.stop()
        run._ended_ms = monotonic_ms() - 5_000
        with pytest.raises(TransportError, match="SOURCE_PROCESS_TERMINATED") as raised:
            run.batch(PopOffset("g", "another start", 1, (handle_of("a", 0),)))
        assert 5_000 <= int(raised.value.context["ended_for_ms"]) < 3_600_000


def offset(value: int) -> RemotingCommand:
    return build_response(fields={"offset": str(value)})


def stats(min_offset: int) -> RemotingCommand:
    queue = '{"brokerName":"a","queueId":0,"topic":"T"}'
    bounds = f'{{"lastUpdateTimestamp":1,"maxOffset":100,"minOffset":{min_offset}}}'
    return build_response(body=f'{{"offsetTable":{{{queue}:{bounds}}}}}'.encode())


@pytest.fixture
def retaining(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharingServers]:
    """A broker that has deleted [30, 40) of its queue, which the group was not delivered."""
    monkeypatch.setattr(retention_check, "CONFIRM_DELAY_S", 0.1)
    with SharingServers("a") as servers:
        servers.brokers["a"].messages = 3
        servers.brokers["a"].server.on(RequestCode.QUERY_CONSUMER_OFFSET, offset(30))
        servers.brokers["a"].server.on(RequestCode.GET_TOPIC_STATS_INFO, stats(40))
        yield servers


def test_undelivered_messages_that_retention_deleted_end_the_query(retaining: SharingServers) -> None:
    """They were passed over in silence."""
    with running(retaining.options()) as run:
        with pytest.raises(DataLossError) as raised:
            batch_after(run, PopOffset("g"))
        assert str(raised.value) == (
            "[ROCKETMQ_DATA_LOSS.UNDELIVERED_MESSAGES] Brokers deleted 10 messages before delivery to group 'g': [30, "
            "40) of T@a:0: the broker deleted them (retention). Set 'failOnDataLoss' to false to continue "
            "without them. Set the brokers' retention ('fileReservedTime') above the longest downtime of the query."
        )
        assert retaining.brokers["a"].messages == 3, "a pop moves the group on"


def test_undelivered_messages_that_retention_deleted_are_logged_once(
    retaining: SharingServers, caplog: pytest.LogCaptureFixture
) -> None:
    with running(retaining.options(failOnDataLoss="false")) as run:
        batch_after(run, PopOffset("g"))
    (line,) = (line for line in caplog.messages if "deleted" in line)
    reported = "[30, 40) of T@a:0: the broker deleted them (retention)"
    assert line == (
        "DATA_LOSS.UNDELIVERED_MESSAGES: Brokers deleted 10 messages before delivery to group=g; they are in no "
        f"output: {reported}"
    )


def test_a_poll_is_born_after_its_retention_check(retaining: SharingServers) -> None:
    """A broker rejects a poll that is older than its polling time, so a slow check ended with an error."""
    broker = retaining.brokers["a"]
    checked_ms: list[int] = []
    born_ms: list[int] = []

    def group_offset(_request: RemotingCommand) -> RemotingCommand:
        checked_ms.append(int(time.time() * 1000))
        return offset(30)

    def pop(request: RemotingCommand) -> RemotingCommand | None:
        born_ms.append(int(request.fields["bornTime"]))
        return broker.given(1, 60_000) if len(born_ms) == 1 else None

    broker.server.on(RequestCode.QUERY_CONSUMER_OFFSET, group_offset)
    broker.server.on(RequestCode.POP_MESSAGE, pop)
    with running(retaining.options(failOnDataLoss="false")) as run:
        batch_after(run, PopOffset("g"))
    assert checked_ms[1] - checked_ms[0] >= 50, "the check confirms what it finds after a pause"
    assert born_ms[0] >= checked_ms[1]


def in_batch(run: PopRun) -> int:
    report = run.report(0)
    assert report is not None
    return int(report["inFlight"])


def test_a_graceful_stop_waits_for_unanswered_acknowledgements() -> None:
    """Else it reports success, and another member gets the whole batch again."""
    with SharingServers("a") as servers, running(servers.options()) as run:
        broker = servers.brokers["a"]
        broker.messages = 3
        end = batch_after(run, PopOffset("g"))
        broker.server.unresponsive_on(RequestCode.BATCH_ACK_MESSAGE)
        query = RunningQuery([control_of(run)], lambda: assert_no_batch(run, end))
        with pytest.raises(MembershipError, match="GRACEFUL_STOP_TIMEOUT"):
            stop(query, 1.0)  # type: ignore[arg-type]  # a query of the test
        assert not query.is_stopped
        control_file(run, DrainState.REQUESTED).touch()
        for _ in range(3):
            assert run.latest_offset(end, ALL) is end
        assert not control_file(run, DrainState.DRAINED).exists()
        assert control_file(run, DrainState.REQUESTED).exists(), "who asks may still withdraw"
        broker.server.on(RequestCode.BATCH_ACK_MESSAGE, build_response())

        def has_stopped() -> bool:
            assert run.latest_offset(end, ALL) is end
            return control_file(run, DrainState.DRAINED).exists()

        eventually(has_stopped, "all acknowledged, and said so")
        report = run.report(0)
        assert report is not None
        assert report["acknowledged"] == 3


def test_reader_returns_the_end_of_each_new_batch() -> None:
    with SharingServers("a") as servers:
        servers.brokers["a"].messages = 3
        reader = RocketMQPopReader(servers.options(), default_schema())
        start = reader.initialOffset()
        try:
            ends = [start]

            def has_batch() -> bool:
                ends.append(reader.latestOffset(start, reader.getDefaultReadLimit()))
                return ends[-1] != start

            eventually(has_batch, "a batch")
            (task,) = reader.partitions(start, ends[-1])
            assert isinstance(task, MessagesPartition)
            assert reader.latestOffset(ends[-1], reader.getDefaultReadLimit()) is ends[-1]
        finally:
            reader.stop()


def test_the_progress_shows_by_the_clock_since_when_a_broker_is_unavailable() -> None:
    began = datetime.now(UTC)
    with SharingServers("a", "b") as servers:
        servers.brokers["a"].messages = 3
        servers.move("b", "127.0.0.1:1")
        reader = RocketMQPopReader(servers.options(), default_schema())
        try:
            reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())

            def outages() -> list[dict[str, str]]:
                report = reader.reportLatestOffset()
                assert report is not None
                outages: list[dict[str, str]] = report["outages"]
                return outages

            eventually(lambda: bool(outages()), "an outage")
            (outage,) = outages()
        finally:
            reader.stop()
    assert outage["resource"] == "broker b"
    second = timedelta(seconds=1)  # a clock may be set while the test runs
    assert began - second < datetime.fromisoformat(outage["since"]) < datetime.now(UTC) + second


START = "6f0c"
LONG_AGO_MS = 1_763_712_000_000
LINE = (
    "RECEIPT_HANDLES_EXPIRED: 2 messages of an earlier batch are neither acknowledged nor released, because their "
    "invisible durations expired long ago: broker=a count=1, broker=gone count=1. Brokers redeliver those that were "
    "not acknowledged."
)


def end_of_a_batch() -> PopOffset:
    """Of two messages whose invisible durations are long over, and one that was delivered just now."""
    return PopOffset(
        "g", START, 1, (handle_of("gone", 0, LONG_AGO_MS), handle_of("a", 1, LONG_AGO_MS), handle_of("a", 2))
    )


def kept_messages(end: PopOffset) -> tuple[ReceivedMessage, ...]:
    return tuple(ReceivedMessage(handle, memoryview(b"x")) for handle in end.handles)


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Of a cluster that has broker a only."""
    with SharingServers("a") as servers:
        servers.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, build_response(body=b'{"brokerAddrTable":{}}'))
        options = servers.options(clusterTimeoutMs=str(int(1_000 * WAIT_S)))
        one = Receiver(options, transport_of(options))
        try:
            yield one
        finally:
            one.stop()


def assert_all_is_well(one: Receiver, lines: list[str]) -> None:
    one.check()
    assert [line for line in lines if "RECEIPT_HANDLES_EXPIRED" in line] == [LINE]


def test_overdue_handles_of_an_absent_broker_are_not_released(caplog: pytest.LogCaptureFixture) -> None:
    """A producer may have made one of them up; each restart from such a checkpoint ended after clusterTimeoutMs."""
    with receiver() as one:
        assert EarlierBatch(one, None).messages(end_of_a_batch()) == ()
        assert one.counts.released == 1
        assert_all_is_well(one, caplog.messages)


def test_overdue_handles_of_an_absent_broker_are_not_acknowledged(caplog: pytest.LogCaptureFixture) -> None:
    with receiver() as one:
        EarlierBatch(one, None).mark_completed(end_of_a_batch())
        eventually(lambda: one.counts.acknowledged == 1, "the other is acknowledged")
        assert_all_is_well(one, caplog.messages)


def test_a_kept_batch_is_read_again_without_overdue_handles(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    spool, end = Spool(tmp_path), end_of_a_batch()
    kept = kept_messages(end)
    spool.store(START, 1, kept)
    with receiver() as one:
        earlier = EarlierBatch(one, spool)
        assert earlier.messages(end) == kept
        assert one.count(MessageState.IN_FLIGHT) == 1
        earlier.mark_completed(end)
        eventually(lambda: one.counts.acknowledged == 1, "the other is acknowledged")
        assert_all_is_well(one, caplog.messages)


def test_abandoned_messages_are_released_without_overdue_handles(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    spool = Spool(tmp_path)
    spool.store(START, 1, kept_messages(end_of_a_batch()))
    spool.close()
    with receiver() as one:
        EarlierBatch(one, spool).release_abandoned()
        eventually(lambda: one.counts.released == 1, "the other is released")
        assert_all_is_well(one, caplog.messages)
