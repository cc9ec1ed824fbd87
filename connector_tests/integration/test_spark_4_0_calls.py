"""The calls of Spark 4.0 and 4.1 on a real broker: each message once, whatever is restarted when.

The orders of calls are those that both versions were seen to make; ``unit/test_start_tracking`` has all others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PATIENT
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.source.pop.pop_reader import RocketMQPopReader
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.source.start_tracking_reader import StartTrackingReader
from rocketmq_spark.source.stream.control_folder import EndRequest
from rocketmq_spark.source.stream.drain import Control
from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader

pytestmark = pytest.mark.broker

Offset = dict[str, Any]
SENT = 12


class Query:
    """A checkpoint and what a sink has stored, over the runs of one query. A logged offset is the text that it was."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = ReadOptions.parse(options)
        self.logged: list[str] = []
        self.committed = 0
        self.rows: dict[int, list[str]] = {}
        self.start()

    def start(self) -> None:
        """A run begins: Spark reports the last logged offset, and replays a batch that was not committed."""
        reader = RocketMQPopReader if self._options.is_message_based else RocketMQStreamReader
        self._reader = StartTrackingReader(reader(self._options, default_schema()))
        if self.logged:
            last = json.loads(self.logged[-1])
            assert self._reader.partitions(last, last) == []
            if self.committed < len(self.logged):
                self._run_batch(self._start_of_last(), last)

    def _start_of_last(self) -> Offset:
        before = self.logged[-2:-1]
        return json.loads(before[0]) if before else self._reader.initialOffset()

    def next_batch(self, *, commits: bool = True, meanwhile: Callable[[], object] = lambda: None) -> list[str]:
        """Ask for an offset, log it, run the batch; the bodies of its rows, none where nothing is new."""
        end = self._reader.latestOffset()
        if self.logged and json.loads(self.logged[-1]) == end:
            return []
        self.logged.append(json.dumps(end))
        start = self._start_of_last()
        if len(self.logged) > 1:
            self._reader.commit(start)
        meanwhile()
        return self._run_batch(start, end, commits=commits)

    def _run_batch(self, start: Offset, end: Offset, *, commits: bool = True) -> list[str]:
        batches = (batch for part in self._reader.partitions(start, end) for batch in self._reader.read(part))
        bodies = [body.decode() for batch in batches for body in batch["body"].to_pylist()]
        self.rows[len(self.logged)] = bodies
        self.committed += commits
        return bodies

    def stop(self) -> None:
        self._reader.stop()

    def bodies(self) -> list[str]:
        return sorted(body for rows in self.rows.values() for body in rows)


@pytest.fixture
def query_of(cluster: EmbeddedCluster, topic: str, group: str) -> Iterator[Callable[..., Query]]:
    made: list[Query] = []

    def make(**more: str) -> Query:
        given = {"namesrvAddr": cluster.namesrv_addr, "consumerGroup": group, "subscribe": topic}
        all_options = {**given, "startingOffsets": "earliest", **PATIENT, **more}
        made.append(Query({name: value for name, value in all_options.items() if value}))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_new_query_reads_each_message_once(messages: Topic, query_of: Callable[..., Query], group: str) -> None:
    sent = messages.send(SENT)
    query = query_of()
    assert sorted(query.next_batch()) == sorted(sent)
    assert query.next_batch() == []
    sent += messages.send(SENT)
    query.next_batch()
    assert query.next_batch() == []
    assert query.bodies() == sorted(sent)
    assert messages.lag(group) == 0


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "uncommitted"])
@pytest.mark.parametrize("batches", [1, 2])
def test_restart_after_any_batch_loses_and_repeats_nothing(
    messages: Topic, query_of: Callable[..., Query], group: str, batches: int, commits: bool
) -> None:
    query, sent = query_of(), list[str]()
    for batch in range(batches):
        sent += messages.send(SENT)
        query.next_batch(commits=commits or batch < batches - 1)
    before = dict(query.rows)
    query.stop()
    sent += messages.send(SENT)
    query.start()
    assert {number: sorted(query.rows[number]) for number in before} == {
        number: sorted(rows) for number, rows in before.items()
    }
    query.next_batch()
    assert query.next_batch() == []
    assert query.bodies() == sorted(sent)
    assert messages.lag(group) == 0


def test_new_end_alone_shows_the_progress(messages: Topic, query_of: Callable[..., Query]) -> None:
    """An idle answer that differed from the last end would be a batch of its own."""
    messages.send(SENT)
    query = query_of(maxOffsetsPerTrigger="8")
    query.next_batch()
    shown = json.loads(query.logged[-1])["shown"]
    assert (shown["lag"], set(shown)) == (4, {"clientId", "lag", "completedAfterRebalance", "lost", "control"})
    query.next_batch()
    query.stop()
    query.start()
    assert query.next_batch() == []
    assert len(query.logged) == 2


def test_messages_left_by_a_batch_are_logged_once(
    messages: Topic, query_of: Callable[..., Query], caplog: pytest.LogCaptureFixture
) -> None:
    def logged() -> list[str]:
        return [line.partition(" available")[0] for line in caplog.messages if "SINGLE_BATCH_INCOMPLETE" in line]

    caplog.set_level(logging.INFO)
    query = query_of(maxOffsetsPerTrigger="8", logLevel="INFO")
    messages.send(8)
    query.next_batch()
    assert logged() == []
    for _ in range(2):
        messages.send(SENT)
        query.next_batch()
        assert logged() == ["SINGLE_BATCH_INCOMPLETE: 4"]


@pytest.mark.parametrize("options", [{}, {"loadBalance": "message", "startingOffsets": ""}], ids=["queue", "message"])
def test_restart_is_requested_to_stop_where_the_progress_still_shows(
    messages: Topic, query_of: Callable[..., Query], options: dict[str, str]
) -> None:
    messages.send(SENT)
    query = query_of(**options)
    query.next_batch()
    control = Control.shown_in(json.loads(query.logged[-1])["shown"])
    assert control is not None
    query.stop()
    assert not control.path.exists()
    query.start()
    query.next_batch()
    assert control.path.is_dir()


@pytest.fixture
def query_with_a_completed_batch(messages: Topic, query_of: Callable[..., Query]) -> Query:
    query = query_of()
    messages.send(SENT)
    query.next_batch()
    messages.send(SENT)
    return query


def test_reset_before_a_run_that_only_repeats_a_batch_is_obeyed(
    messages: Topic, query_with_a_completed_batch: Query, group: str
) -> None:
    """``availableNow`` ends after the repeated batch: no plan obeys the reset, and its mark is taken by then."""
    query = query_with_a_completed_batch
    query.next_batch(commits=False)
    query.stop()
    messages.reset_to_the_beginning(group)
    query.start()
    query.committed = len(query.logged)
    query.stop()
    query.start()
    assert len(query.next_batch()) == 2 * SENT
    assert query.next_batch() == []
    assert messages.lag(group) == 0


def test_reset_during_the_last_batch_of_a_run_is_obeyed(
    messages: Topic, query_with_a_completed_batch: Query, group: str
) -> None:
    """The pulls of the batch's tasks take the mark."""
    query = query_with_a_completed_batch
    query.next_batch(meanwhile=lambda: messages.reset_to_the_beginning(group))
    query.stop()
    query.start()
    assert len(query.next_batch()) == 2 * SENT
    assert query.next_batch() == []
    assert messages.lag(group) == 0


def test_row_limit_holds_for_each_batch(messages: Topic, query_of: Callable[..., Query]) -> None:
    sent = messages.send(50)
    query = query_of(maxOffsetsPerTrigger="20")
    assert [len(query.next_batch()) for _ in range(4)] == [20, 20, 10, 0]
    assert query.bodies() == sorted(sent)


def test_limit_of_bytes_holds_for_each_batch(messages: Topic, query_of: Callable[..., Query]) -> None:
    """So for ``availableNow`` and ``once``, which are one batch on these Sparks, too."""
    sent = messages.send(8)
    query = query_of(maxBytesPerTrigger="1")
    assert [len(query.next_batch()) for _ in range(9)] == [1] * 8 + [0]
    assert query.bodies() == sorted(sent)


def test_minimum_delays_each_batch_but_the_first_of_a_start(messages: Topic, query_of: Callable[..., Query]) -> None:
    """So ``once`` and ``availableNow``, one batch on these Sparks, have no minimum."""
    sent = messages.send(SENT)
    query = query_of(minOffsetsPerTrigger="100")
    assert sorted(query.next_batch()) == sorted(sent)
    sent += messages.send(SENT)
    assert query.next_batch() == []
    query.stop()
    query.start()
    assert len(query.next_batch()) == SENT
    assert query.bodies() == sorted(sent)


def test_run_to_the_end_has_maxima_and_no_minimum(messages: Topic, query_of: Callable[..., Query]) -> None:
    messages.send(SENT)
    query = query_of(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="10")
    assert [len(query.next_batch()) for _ in range(2)] == [10, 0]
    control = Control.shown_in(json.loads(query.logged[-1])["shown"])
    assert control is not None
    query.stop()
    messages.send(SENT)
    request = EndRequest.create(control)
    assert request is not None
    query.start()
    assert [len(query.next_batch()) for _ in range(3)] == [10, 4, 0]
    assert request.is_reached
    request.withdraw()
