from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.queues import queue, queues
from connector_tests.support.simulated_cluster import Reach, SimulatedBroker, SimulatedCluster, SimulatedClusterClient
from connector_tests.support.simulated_group import SimulatedGroup
from connector_tests.support.simulated_query import Lent, SimulatedQuery
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.membership_state import DUPLICATE_CLIENT_ID_LIMIT_MS
from rocketmq_spark.errors import MembershipError, OptionError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset
from rocketmq_spark.source.stream.topic_starts import TopicStarts

A, B = queues(2)
RETRIES = queue(0, topic="%RETRY%g")
NEW = SourceOffset()
KNOWN = SourceOffset({A: QueueProgress(0, 5), B: QueueProgress(0, 7)})


@pytest.fixture(autouse=True)
def all_lines(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "rocketmq_spark.source"):
        yield


class Case:
    """A member alone in a group that has read 5 and 7 of ten messages, and how its topics start."""

    def __init__(self, **given: str | None) -> None:
        self.clock = ManualClock(5_000)
        self.cluster = SimulatedCluster(["broker-a"], self.clock)
        for topic, count in (("orders", 2), (RETRIES.topic, 1)):
            self.cluster.create_topic(topic, {"broker-a": count})
        for one in (A, B, RETRIES):
            self.cluster.produce(one, 10)
        self.broker.offsets = {A: 5, B: 7}
        required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "startingOffsets": "earliest"}
        configured = required | given
        options = ReadOptions.parse({name: text for name, text in configured.items() if text is not None})
        client = SimulatedClusterClient(self.cluster, "our connection")
        self.member = Membership(options, "me", client, self.clock, self.clock, started_ms=1)
        self.starts = TopicStarts(options)

    @property
    def broker(self) -> SimulatedBroker:
        return self.cluster.brokers["broker-a"]

    def start_topics(self, checkpoint: SourceOffset = NEW) -> None:
        self.clock.advance(REQUEST_PAUSES.longest_ms)
        self.starts.start_topics(self.member, checkpoint, self.member.refresh_metadata())


# ------------------------------------------------------------------------------------------------------------- resume


def test_a_new_checkpoint_resumes_where_the_group_is_and_reports_it(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == ({A: 5, B: 7}, {"orders"})
    (line,) = caplog.messages
    assert line == (
        "GROUP_OFFSETS_RESUMED: Checkpoint has no offsets of these queues; resuming from those of the group, start "
        f"options are ignored. To read: 8 of 20 offsets: queue={A} offset=5 bounds=[0, 10), "
        f"queue={B} offset=7 bounds=[0, 10)"
    )


def test_a_checkpoint_that_has_the_topic_has_nothing_to_report(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.start_topics(KNOWN)
    assert (case.starts.topics, caplog.messages) == ({"orders"}, [])


def test_a_group_that_has_read_nothing_begins_where_the_options_define_without_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = Case()
    case.broker.offsets.clear()
    case.start_topics()
    assert (case.broker.offsets, caplog.messages) == ({A: 0, B: 0}, [])


def test_of_many_queues_some_are_named(caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.cluster.grow("orders", "broker-a", 98)
    case.broker.offsets |= dict.fromkeys(queues(100), 0)
    case.start_topics()
    (line,) = caplog.messages
    assert line.endswith(" and 92 more queues")
    assert line.count("@broker-a:") == 8


def test_a_group_without_offsets_is_an_error_if_they_are_the_start() -> None:
    case = Case(startingOffsets="group")
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == ({A: 5, B: 7}, {"orders"})
    case = Case(startingOffsets='{"orders":{"broker-a":{"0":"group","1":3}}}', retryTopic="true")
    case.broker.offsets.clear()
    with pytest.raises(OptionError) as raised:
        case.start_topics()
    assert raised.value.condition == "COMMITTED_OFFSETS_NOT_FOUND"
    assert raised.value.context == {"group": "g", "count": 1, "option": "startingOffsets", "queues": str(A)}
    assert case.broker.offsets == {}


# --------------------------------------------------------------------------------------------------------- not started


def test_incomplete_snapshot_starts_nothing_and_leaves_queues_to_start() -> None:
    case = Case(groupOffsets="ignore")
    case.start_topics()
    for subject in (case, Case(), Case(groupOffsets="ignore")):
        subject.broker.reach = Reach.UNRESPONSIVE
        subject.start_topics()
        assert subject.starts.has_queues


@pytest.mark.parametrize(("missing_queues", "started"), [("wait", set()), ("drop", {"orders"})])
def test_start_without_an_unavailable_queue_depends_on_missing_queues(missing_queues: str, started: set[str]) -> None:
    case = Case(groupOffsets="checkpoint", missingQueues=missing_queues)
    snapshot = case.member.refresh_metadata()
    snapshot = replace(snapshot, bounds={A: snapshot.bounds[A]})
    case.starts.start_topics(case.member, RESTORED, snapshot)
    assert case.starts.topics == started


def test_nothing_starts_without_committed_offsets_of_a_broker() -> None:
    case = Case()
    offsets = Lent(case.member.offsets, stored_offsets=lambda queues: {A: 5})
    membership = cast(Membership, Lent(case.member, offsets=offsets))
    case.starts.start_topics(membership, NEW, case.member.refresh_metadata())
    assert case.starts.topics == set()


def test_unresponsive_search_writes_no_offset() -> None:
    case = Case(startingOffsetsByTimestamp='{"orders":4000}', startingOffsets=None)
    case.broker.offsets.clear()
    case.broker.unresponsive_searches = {B}
    case.start_topics()
    assert (case.starts.topics, case.broker.offsets) == (set(), {})


def test_topic_starts_once_its_start_positions_are_acknowledged() -> None:
    case = Case()
    case.broker.offsets.clear()
    case.broker.unacknowledged_writes = {B}
    case.start_topics()
    assert case.starts.topics == set()
    case.broker.unacknowledged_writes = set()
    for _ in range(2):
        case.start_topics()
    assert (case.starts.topics, case.broker.offsets) == ({"orders"}, {A: 0, B: 0})


# ------------------------------------------------------------------------------------------------------------- ignore


@pytest.mark.parametrize(
    ("point", "moved"),
    [
        ({"startingOffsets": "earliest"}, {A: 0, B: 0}),
        ({"startingOffsets": "latest"}, {A: 10, B: 10}),
        ({"startingOffsets": '{"orders":{"broker-a":{"0":3,"1":-1}}}'}, {A: 3, B: 10}),
    ],
)
def test_a_new_checkpoint_that_ignores_the_group_moves_it_where_the_options_define(
    point: dict[str, str], moved: dict[object, int], caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(groupOffsets="ignore", **point)
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == (moved, {"orders"})
    (line,) = caplog.messages
    assert line == (
        "GROUP_OFFSETS_RESET: Reset the group's offsets as configured by 'groupOffsets': "
        f"queue={A} from=5 to={moved[A]}, queue={B} from=7 to={moved[B]}"
    )


def test_it_is_moved_once_and_then_counts(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(groupOffsets="ignore")
    case.start_topics()
    case.broker.offsets = {A: 2, B: 2}
    case.start_topics()
    assert case.broker.offsets == {A: 2, B: 2}
    assert len(caplog.messages) == 1


def test_a_checkpoint_that_is_not_new_moves_nothing() -> None:
    case = Case(groupOffsets="ignore")
    case.start_topics(KNOWN)
    assert case.broker.offsets == {A: 5, B: 7}


def test_while_others_are_in_the_group_it_is_not_moved() -> None:
    case = Case(groupOffsets="ignore")
    case.cluster.set_others("you")
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == ({A: 5, B: 7}, set())
    case.cluster.set_others()
    case.start_topics()
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == ({A: 0, B: 0}, {"orders"})


def test_others_that_stay_are_an_error_that_names_them() -> None:
    case = Case(groupOffsets="ignore")
    case.cluster.set_others("you", "her")
    case.start_topics()
    case.clock.advance(DUPLICATE_CLIENT_ID_LIMIT_MS)
    with pytest.raises(MembershipError) as raised:
        case.start_topics()
    assert str(raised.value) == (
        "[ROCKETMQ_GROUP_HAS_OTHER_MEMBERS] Cannot reset the offsets of group 'g', because the group has other "
        "members: her, you. Stop them, use another group, or set 'groupOffsets' to 'resume' to start from the "
        "group's committed offsets."
    )


def test_a_broker_that_does_not_confirm_the_move_is_notified_again() -> None:
    case = Case(groupOffsets="ignore")
    case.broker.unacknowledged_writes = {B}
    case.start_topics()
    assert case.starts.topics == set()
    case.broker.unacknowledged_writes = set()
    case.start_topics()
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == ({A: 0, B: 0}, {"orders"})


def test_what_an_operator_has_set_before_does_not_count_any_more() -> None:
    case = Case(groupOffsets="ignore")
    case.broker.reset(A, 3)
    case.start_topics()
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == ({A: 0, B: 0}, {"orders"})
    assert case.member.prune_resets() == {}


def test_the_retry_topic_stays_where_the_group_is() -> None:
    case = Case(groupOffsets="ignore", retryTopic="true")
    case.broker.offsets[RETRIES] = 9
    case.start_topics()
    assert case.broker.offsets == {A: 0, B: 0, RETRIES: 9}
    assert case.starts.topics == {"orders", RETRIES.topic}


def test_a_caller_that_resumes_where_the_group_has_no_offsets_any_more_is_notified_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The same checkpoint at another cluster, whose messages were older, continued without a word."""
    case = Case()
    case.broker.offsets = {A: 5}
    checkpoint = SourceOffset({A: QueueProgress(0, 5), B: QueueProgress(0, 7)})
    for _ in range(2):
        case.start_topics(checkpoint)
    (line,) = caplog.messages
    assert line == (
        "GROUP_OFFSETS_MISSING: Brokers have no committed offsets of the group for queues that the checkpoint has "
        f"read; resuming from the checkpoint: queue={B} offset=7. If 'namesrvAddr' now points to another cluster, its "
        "messages below these offsets are not read: use a new checkpoint location (and, for a file sink, a new path)"
    )


@pytest.mark.parametrize(("at", "offsets"), [(0, {A: 5}), (7, {A: 5, B: 7})])
def test_a_queue_of_which_nothing_was_read_or_whose_offset_is_there_is_no_such_thing(
    at: int, offsets: dict[MessageQueue, int], caplog: pytest.LogCaptureFixture
) -> None:
    case = Case()
    case.broker.offsets = offsets
    case.start_topics(SourceOffset({A: QueueProgress(0, 5), B: QueueProgress(0, at)}))
    assert caplog.messages == []


def test_what_is_there_has_not_been_read_before_the_group_is_moved() -> None:
    """Beside another member an AvailableNow run ended well, and had read nothing: the group had."""
    with SimulatedGroup({"t": {"a": 1}}) as group:
        (only,) = group.cluster.queues()
        group.cluster.produce(only, 10)
        group.cluster.brokers["a"].offsets[only] = 10
        group.cluster.set_others("you")
        rerun = group.start(group.query("A", groupOffsets="ignore"), available_now=True)
        rerun.resume(60)
        has_waited = rerun.is_alive
        group.cluster.set_others()
        for _ in range(3):
            group.pass_time(6_000)
            rerun.resume()
        assert (has_waited, rerun.is_alive, rerun.error) == (True, False, None)
        (end,) = (SourceOffset.from_json(json.loads(text)) for text in rerun.query.checkpoint.offsets)
        assert list(end.ranges()) == [QueueRange(only, 0, 10)]


def test_the_first_batch_begins_there_and_the_next_start_does_not() -> None:
    with SimulatedGroup({"t": {"a": 1}}) as group:
        (only,) = group.cluster.queues()
        group.cluster.produce(only, 10)
        group.cluster.brokers["a"].offsets[only] = 8
        query = group.query("A", groupOffsets="ignore")
        group.start(query).resume()
        group.runners[-1].kill()
        group.cluster.lose_connections(group.runners[-1])
        group.cluster.produce(only, 5)
        group.start(query).resume()
        ends = [SourceOffset.from_json(json.loads(text)) for text in query.checkpoint.offsets]
        assert [one for end in ends for one in end.ranges()] == [QueueRange(only, 0, 10), QueueRange(only, 10, 15)]
        assert group.cluster.group_offset(only) == 15


# --------------------------------------------------------------------------------------------------------- checkpoint

RESTORED = SourceOffset({A: QueueProgress(0, 2), B: QueueProgress(0, 8)})


def test_a_group_ahead_of_the_checkpoint_is_moved_back_to_it(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(groupOffsets="checkpoint")
    case.start_topics(RESTORED)
    assert (case.broker.offsets, case.starts.topics) == ({A: 2, B: 7}, {"orders"})
    assert caplog.messages == [
        f"GROUP_OFFSETS_RESET: Reset the group's offsets as configured by 'groupOffsets': queue={A} from=5 to=2"
    ]
    Case(groupOffsets="checkpoint").start_topics(KNOWN)
    assert caplog.messages[1:] == [
        (
            "GROUP_OFFSETS_KEPT: No committed offset of the group is ahead of this checkpoint; groupOffsets=checkpoint "
            "has no effect. Remove the option."
        )
    ]


def test_a_queue_that_came_after_the_checkpoint_is_moved_back_to_its_begin() -> None:
    case = Case(groupOffsets="checkpoint")
    case.start_topics(SourceOffset({A: QueueProgress(0, 2)}))
    assert case.broker.offsets == {A: 2, B: 0}


def test_a_new_checkpoint_moves_no_group_back() -> None:
    case = Case(groupOffsets="checkpoint")
    case.start_topics()
    assert (case.broker.offsets, case.starts.topics) == ({A: 5, B: 7}, {"orders"})


def test_a_group_with_others_is_not_moved_back() -> None:
    case = Case(groupOffsets="checkpoint")
    case.cluster.set_others("you")
    case.start_topics(RESTORED)
    assert (case.broker.offsets, case.starts.topics) == ({A: 5, B: 7}, set())


def restored(group: SimulatedGroup, **options: str) -> SimulatedQuery:
    """A query whose checkpoint has read 4 messages, and whose group has read 8."""
    (only,) = group.cluster.queues()
    query = group.query("A", **options)
    group.cluster.produce(only, 4)
    group.start(query, available_now=True).resume()
    group.cluster.produce(only, 4)
    group.cluster.brokers["a"].offsets[only] = 8
    return query


def ranges_of(query: SimulatedQuery) -> list[QueueRange]:
    ends = [SourceOffset.from_json(json.loads(text)) for text in query.checkpoint.offsets]
    return [one for end in ends for one in end.ranges()]


def test_a_restored_checkpoint_skips_nothing_without_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with SimulatedGroup({"t": {"a": 1}}) as group:
        query = restored(group)
        (only,) = group.cluster.queues()
        caplog.clear()
        group.start(query, available_now=True).resume()
        assert ranges_of(query) == [QueueRange(only, 0, 4)]
        (line,) = (line for line in caplog.messages if "ahead" in line)
        assert line.startswith(
            "GROUP_AHEAD_OF_CHECKPOINT: Committed offsets of group=g are 4 offsets ahead of this checkpoint; this "
            f"query skips them: {only}[4,8)"
        )


@pytest.mark.parametrize("first", [6, 8])
def test_what_was_deleted_since_a_checkpoint_was_restored_is_reported_as_skipped(
    first: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a backup older than the brokers' retention nothing was reported, and nothing failed."""
    with SimulatedGroup({"t": {"a": 1}}) as group:
        query = restored(group)
        (only,) = group.cluster.queues()
        group.cluster.brokers["a"].min_offsets[only] = first
        group.start(query, available_now=True).resume()
        (line,) = (line for line in caplog.messages if "GROUP_AHEAD_OF_CHECKPOINT" in line)
        assert f"are 4 offsets ahead of this checkpoint; this query skips them: {only}[4,8)" in line


def test_a_restored_checkpoint_wins_wherever_the_start_is_killed() -> None:
    """In each place once: nothing is passed over, and once the batch is logged a start without the option continues."""
    points = 0
    while True:
        with SimulatedGroup({"t": {"a": 1}}) as group:
            query = restored(group, groupOffsets="checkpoint")
            (only,) = group.cluster.queues()
            first = group.start(query, available_now=True)
            first.resume(points)
            was_alive = first.is_alive
            first.kill()
            group.cluster.lose_connections(first)
            group.start(query, available_now=True).resume()
            assert ranges_of(query) == [QueueRange(only, 0, 4), QueueRange(only, 4, 8)], f"killed after {points}"
            assert group.cluster.group_offset(only) == 8
        if not was_alive:
            break
        points += 1
    assert points > 10


@pytest.mark.parametrize("moves", ["ignore", "checkpoint"])
def test_a_mark_of_an_operator_overrules_no_move(moves: str) -> None:
    """It did where something lay behind it: the query began at the mark, and nothing was moved."""
    with SimulatedGroup({"t": {"a": 1}}) as group:
        (only,) = group.cluster.queues()
        if moves == "checkpoint":
            query = restored(group, groupOffsets=moves)
        else:
            query = group.query("A", groupOffsets=moves)
            group.cluster.produce(only, 8)
            group.cluster.brokers["a"].offsets[only] = 8
        group.cluster.brokers["a"].reset(only, 6)
        run = group.start(query, available_now=True)
        for _ in range(10):
            run.resume()
            group.pass_time(11_000)
        assert [offset for one in ranges_of(query) for offset in range(one.begin_offset, one.end_offset)] == [*range(8)]
        assert not run.is_alive


def test_a_move_of_nothing_holds_up_no_run() -> None:
    with SimulatedGroup({"t": {"a": 1}}, options={"missingQueues": "drop", "missingQueuesTimeoutMs": "1000"}) as group:
        query = restored(group, groupOffsets="checkpoint")
        group.cluster.brokers["a"].permission = 2
        run = group.start(query, available_now=True)
        for _ in range(30):
            run.resume()
            group.pass_time(11_000)
        assert not run.is_alive


def test_a_restored_checkpoint_skips_nothing_of_an_unavailable_queue() -> None:
    """The others were reset, and this one resumed from the group's offset: half of its messages never came."""
    with SimulatedGroup({"t": {"a": 1, "b": 1}}) as group:
        query = group.query("A", groupOffsets="checkpoint")
        for one in group.cluster.queues():
            group.cluster.produce(one, 4)
        group.start(query, available_now=True).resume()
        for one in group.cluster.queues():
            group.cluster.produce(one, 4)
            group.cluster.brokers[one.broker_name].offsets[one] = 8
        run = group.start(query)
        for reach in (Reach.UNAVAILABLE, Reach.UP):
            group.cluster.brokers["b"].reach = reach
            for _ in range(4):
                run.resume()
                group.pass_time(11_000)
        assert sorted(map(str, ranges_of(query))) == ["t@a:0[0,4)", "t@a:0[4,8)", "t@b:0[0,4)", "t@b:0[4,8)"]


def test_an_unavailable_queue_is_not_reported_as_behind_the_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    """The advice, at each plan, was to remove the option, while the group was ahead of the checkpoint."""
    with SimulatedGroup({"t": {"a": 1}}, options={"missingQueues": "drop"}) as group:
        query = restored(group, groupOffsets="checkpoint")
        group.cluster.brokers["a"].permission = 2
        run = group.start(query)
        for _ in range(3):
            run.resume()
            group.pass_time(11_000)
        assert not [line for line in caplog.messages if "GROUP_OFFSETS_KEPT" in line]
