"""Queues that are not the ones that were read: re-created, truncated, emptied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from connector_tests.support.simulated_cluster import (
    OLD_VERSION,
    Reach,
)
from connector_tests.support.steady_member import (
    ADDRESS,
    ELSEWHERE,
    A,
    B,
    DrainRequest,
    LateRouteMember,
    SteadyMember,
    holding,
    planner,
    read,
)
from rocketmq_spark.errors import BrokerError, DataLossError
from rocketmq_spark.model import MessageQueue, QueueRange
from rocketmq_spark.remoting.retry import REQUEST_PAUSES
from rocketmq_spark.source.stream.offsets import QueueProgress, SourceOffset


def test_a_recreated_topic_is_recognised_though_it_has_outgrown_the_checkpoint() -> None:
    """Its message before our position was stored later than that position was planned."""
    member = SteadyMember({A: holding(100, stored_at_ms=9_000)}, stored={A: 40}, stored_after={A: 0})
    start = SourceOffset({A: QueueProgress(30, 40, 5_000)})
    with pytest.raises(
        DataLossError, match=r"re-created or emptied queues no longer exist: \[0, 40\) .* created again"
    ):
        planner(member).latest_offset(start, None)
    _, ranges = read(planner(member, failOnDataLoss="false"), start)
    assert ranges == [QueueRange(A, 0, 100)]
    assert member.stored == {A: 0}


def test_what_was_stored_since_the_checkpoint_is_no_sign_of_another_topic() -> None:
    member = SteadyMember({A: holding(100, stored_at_ms=9_000)}, stored={A: 40}, stored_after={A: 40})
    _, ranges = read(planner(member), SourceOffset({A: QueueProgress(30, 40, 5_000)}))
    assert ranges == [QueueRange(A, 40, 100)]


@pytest.mark.parametrize("count", [4, 10, 14])
def test_a_recreated_topic_while_the_query_runs_is_read_from_its_first_message(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether or not it has outgrown our position by then. The first messages used to be skipped, without a word."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.recreate(A, count)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, count)]
    assert member.stored == {A: 0}
    assert f"[0, 10) of {A}" in caplog.text
    assert "created again" in caplog.text


@pytest.mark.parametrize(("count", "reported"), [(4, "QUEUE_EMPTIED"), (10, "QUEUE_EMPTIED"), (14, "created again")])
def test_on_rocketmq_4_a_recreated_topic_while_the_query_runs_is_read_from_its_first_message(
    count: int, reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It keeps the group's offset of a topic that is deleted: 8 of 24 messages were once skipped, without a word. One
    that is not longer than before looks as after ``cleanExpiredCQ``, which loses nothing."""
    member = SteadyMember({A: holding(10)}, has_news=True, version=OLD_VERSION)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}
    member.recreate(A, count)
    assert member.stored == {A: 10}
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, count)]
    assert member.stored == {A: 0}
    assert reported in caplog.text


@pytest.mark.parametrize("count", [4, 14])
def test_broadcasting_a_recreated_topic_while_the_query_runs_is_read_from_its_first_message(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The query's own file keeps the offset of a topic that is deleted: 8 of 24 messages were once skipped."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false", messageModel="BROADCASTING", instanceName="one")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.recreate(A, count)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, count)]
    assert "created again" in caplog.text


@pytest.mark.parametrize("count", [4, 10, 14])
def test_a_recreated_topic_while_the_query_runs_fails_it_where_that_is_required(count: int) -> None:
    """And nobody finds the old number at the broker, to take it for a place in the new topic."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.recreate(A, count)
    with pytest.raises(DataLossError, match=r"\[0, 10\) .* created again"):
        subject.latest_offset(end, None)
    assert member.stored == {}


def test_what_was_confirmed_of_the_old_topic_keeps_no_completion_of_the_new_one_back() -> None:
    """Another member had begun the new one, so there was nothing to be lowered: the group stood at 0 until 10 was
    passed, and its next owner read all of it again."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.recreate(A, 4)
    member.restart()
    member.store(A, 0)
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 4)]
    subject.latest_offset(end, None)
    assert member.stored == {A: 4}


def test_a_tail_that_was_lost_and_got_again_is_read_from_where_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    """An unclean fail-over. The group's offset is still there, and the queue is longer than before."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.restart(lost_messages=4)
    member.hold(A, holding(12, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 6, 12)]
    assert member.stored == {A: 6}
    assert f"[6, 10) of {A}" in caplog.text
    assert "lost the end" in caplog.text


def test_tail_written_over_while_idle_is_read_without_a_change() -> None:
    """The queue is as long as before: it was noticed with the next message."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.has_news = False
    assert subject.latest_offset(end, None) is end
    member.restart(lost_messages=4)
    member.hold(A, holding(10, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 6, 10)]
    assert member.stored == {A: 6}


def test_lost_connection_of_an_idle_query_costs_one_refresh() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.has_news = False
    assert subject.latest_offset(end, None) is end
    refresh_count = member.observed.refresh_count
    member.restart()
    for _ in range(5):
        assert subject.latest_offset(end, None) is end
    assert member.observed.refresh_count == refresh_count + 1


def test_a_tail_that_was_lost_and_got_again_since_the_refresh_is_read_from_where_it_begins() -> None:
    """The survey saw a queue without its end, so there was nothing to look at; and a moment later it was as long."""
    member = SteadyMember({A: holding(95)}, stored={A: 100})
    subject = planner(member, failOnDataLoss="false")
    member.observed.after_refresh = lambda: member.hold(A, holding(110, stored_at_ms=9_000))
    _, ranges = read(subject, SourceOffset({A: QueueProgress(90, 100, 1_000)}))
    assert ranges == [QueueRange(A, 95, 110)]


def test_a_recreated_topic_begins_with_its_first_message_though_that_came_a_moment_later() -> None:
    member = SteadyMember({A: holding(14)}, stored={A: 10})
    member.store_times(A, 5_001, *[9_000] * 13)
    subject = planner(member, failOnDataLoss="false")
    _, ranges = read(subject, SourceOffset({A: QueueProgress(0, 10, 5_000)}))
    assert ranges == [QueueRange(A, 0, 14)]


@pytest.mark.parametrize("is_unavailable", [False, True])
def test_a_recreated_topic_before_its_last_batch_was_completed_is_found_though_others_have_begun_it(
    is_unavailable: bool,
) -> None:
    """Nothing but the proof shows it: the bounds have only grown, and the group has an offset. It may be away then."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.recreate(B, 14)
    member.store(B, 3)
    if is_unavailable:
        member.unavailable = {B}
        assert subject.latest_offset(end, None) is end
        member.unavailable = set()
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 0, 14)]


def test_a_queue_that_comes_back_from_another_member_is_probed_again() -> None:
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.not_owned = {B}
    assert subject.latest_offset(end, None) is end
    member.recreate(B, 14)
    member.store(B, 12)
    member.not_owned = set()
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(B, 0, 14)]


def test_a_broker_that_becomes_unresponsive_while_its_queue_is_probed_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = SteadyMember({A: holding(10), ELSEWHERE: holding(9)}, stored={A: 4, ELSEWHERE: 12})
    subject = planner(member, failOnDataLoss="false")
    store = member.observed.offsets.store
    call = store.stored_offsets
    calls: list[set[MessageQueue]] = []

    def call_at_last(those: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """The first question is where the topic begins."""
        calls.append(set(those))
        responses = call(calls[-1])
        if calls.count({A, ELSEWHERE}) == 2:
            member.cluster.brokers["broker-b"].reach = Reach.UNRESPONSIVE
        return responses

    monkeypatch.setattr(store, "stored_offsets", call_at_last)
    _, ranges = read(subject, SourceOffset({A: QueueProgress(0, 4, 1_000), ELSEWHERE: QueueProgress(0, 12, 1_000)}))
    assert calls.count({A, ELSEWHERE}) == 2
    assert ranges == [QueueRange(A, 4, 10)]


def test_a_queue_that_could_not_be_probed_is_not_planned_beside_one_that_has_lost_its_end() -> None:
    member = SteadyMember({A: holding(95), ELSEWHERE: holding(14)}, stored={A: 100, ELSEWHERE: 9})
    subject = planner(member, failOnDataLoss="false")
    member.observed.after_refresh = lambda: member.hold(A, holding(110, stored_at_ms=9_000))
    member.cluster.brokers["broker-b"].pull_refusal = BrokerError(
        "BROKER_ERROR", address="b:1", request="PULL_MESSAGE", code=1, code_name="SYSTEM_ERROR", remark="later"
    )
    start = SourceOffset({A: QueueProgress(90, 100, 1_000), ELSEWHERE: QueueProgress(0, 9, 1_000)})
    _, ranges = read(subject, start)
    assert ranges == [QueueRange(A, 95, 110)]


def test_a_tail_that_was_lost_and_is_shorter_than_before_is_read_from_where_it_begins() -> None:
    """It used to be mistaken for another topic, and read from its first message."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.restart(lost_messages=4)
    member.hold(A, holding(8, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 6, 8)]


def test_a_recreated_topic_is_found_after_queues_were_unavailable_or_unresponsive() -> None:
    """Its offset need not have vanished: another member may have written one since."""
    for failure in ({"unavailable": {A}}, {"unresponsive": {"broker-a"}}):
        member = SteadyMember({A: holding(10)}, has_news=True)
        subject = planner(member, failOnDataLoss="false")
        end, _ = read(subject, SourceOffset())
        for name, value in failure.items():
            setattr(member, name, value)
            assert subject.latest_offset(end, None) is end
            setattr(member, name, set())
        member.recreate(A, 14)
        member.store(A, 10)
        _, ranges = read(subject, end)
        assert ranges == [QueueRange(A, 0, 14)]


def test_queues_whose_broker_did_not_have_them_are_searched_for_again_without_any_change() -> None:
    """Brokers had exchanged addresses and were back where they were a moment later; the query stood still until the
    limit of 300 s, because nothing had changed since."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.unavailable = {A}
    assert subject.latest_offset(end, None) is end
    member.unavailable = set()
    member.hold(A, holding(14))
    member.has_news = False
    assert subject.latest_offset(end, None) is end
    member.clock.advance(REQUEST_PAUSES.longest_ms)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 14)]


def test_a_queue_is_not_planned_before_it_is_known_whether_it_is_the_same() -> None:
    member = LateRouteMember({A: holding(20)}, stored={A: 10}, not_searching={A})
    subject, start = planner(member), SourceOffset({A: QueueProgress(0, 10, 1_000)})
    _, ranges = read(subject, start)
    assert member.stored_before == {A: 10}
    assert ranges == [QueueRange(A, 10, 20)]


def test_a_queue_is_not_planned_before_it_is_known_where_the_other_one_begins() -> None:
    class SearchesLater(SteadyMember):
        def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            return True

    member = SearchesLater({A: holding(10)})
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.recreate(A, 4)
    member.not_searching = {A}
    assert subject.latest_offset(end, None) is end
    assert member.stored == {}
    member.not_searching = set()
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 4)]


@pytest.mark.parametrize(("is_other", "begin"), [(False, 10), (True, 6)])
def test_where_the_last_message_that_was_read_cannot_be_seen_a_search_decides(is_other: bool, begin: int) -> None:
    """Compaction takes single messages; nor may a queue wait for ever for what is not there."""
    member = SteadyMember({A: holding(20)}, stored={A: 10})
    member.store_times(A, *[1_000] * (6 if is_other else 10), *[9_000] * (14 if is_other else 10))
    member._broker(A).compacted.add((A, 9))
    start = SourceOffset({A: QueueProgress(0, 10, 1_000)})
    _, ranges = read(planner(member, failOnDataLoss="false"), start)
    assert ranges == [QueueRange(A, begin, 20)]


def lose_master(member: SteadyMember, broker_name: str) -> None:
    member.cluster.brokers[broker_name].master_id = 1
    member.observed.rebalance()


def test_queue_at_slave_is_planned_beside_one_that_may_be_recreated() -> None:
    """Bounds were requested again from masters only: the queue was not planned as long as the other one grew."""
    member = SteadyMember({A: holding(10), ELSEWHERE: holding(10)}, has_news=True, version=OLD_VERSION)
    subject = planner(member, readFrom="auto")
    end, _ = read(subject, SourceOffset())
    lose_master(member, "broker-b")
    for count in (20, 30):
        for one in (A, ELSEWHERE):
            member.hold(one, holding(count, stored_at_ms=1_000 + count))
        member._broker(A).compacted.add((A, count - 11))
        end, ranges = read(subject, end)
        assert ranges == [QueueRange(one, count - 10, count) for one in (A, ELSEWHERE)]


def test_queue_at_slave_that_may_be_recreated_waits_for_its_master() -> None:
    member = SteadyMember({A: holding(10), ELSEWHERE: holding(10)}, has_news=True)
    end, _ = read(planner(member), SourceOffset())
    subject = planner(member, readFrom="auto", failOnDataLoss="false")
    lose_master(member, "broker-b")
    member.hold(A, holding(20))
    member.recreate(ELSEWHERE, 15)
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 20)]
    member.cluster.brokers["broker-b"].master_id = 0
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(ELSEWHERE, 0, 15)]


def test_a_broker_that_refuses_pulls_is_waited_for_and_then_named() -> None:
    class TimePasses(SteadyMember):
        def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
            self.clock.advance(1_000)
            return super().wait_for_change(positions, timeout_ms)

    member = TimePasses({A: holding(20)}, stored={A: 10}, has_news=True)
    member.cluster.brokers["broker-a"].pull_refusal = BrokerError(
        "BROKER_ERROR", address=str(ADDRESS), request="PULL_MESSAGE", code=16, code_name="NO_PERMISSION", remark="no"
    )
    subject, start = planner(member, clusterTimeoutMs="60000"), SourceOffset({A: QueueProgress(0, 10, 1_000)})
    began_ms = member.clock()
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        subject.latest_offset(start, None)
    assert member.clock() - began_ms >= 60_000


def test_a_broker_that_was_killed_and_forgot_commits_is_no_other_one() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.restart()
    member.store(A, 4)
    member.hold(A, holding(12, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 12)]


def test_offsets_that_an_operator_has_deleted_are_no_sign_of_another_topic() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member._broker(A).offsets.clear()
    member.hold(A, holding(12, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 12)]
    assert member.stored == {A: 10}


@pytest.mark.parametrize("is_available_now", [False, True])
def test_an_offset_that_has_vanished_is_written_again_though_nothing_new_comes(is_available_now: bool) -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    if is_available_now:
        subject.stop_at_current_end()
    end, _ = read(subject, SourceOffset())
    member._broker(A).offsets.clear()
    assert subject.latest_offset(end, None) is end
    assert member.stored == {A: 10}


def test_offsets_that_have_vanished_are_written_again_before_a_graceful_stop() -> None:
    member, drain = SteadyMember({A: holding(10)}, has_news=True), DrainRequest()
    subject = planner(member, drain=drain)
    end, _ = read(subject, SourceOffset(), limit=4)
    end, _ = read(subject, end, limit=4)
    member._broker(A).offsets.clear()
    drain.is_wanted = True
    for _ in range(2):
        assert subject.latest_offset(end, None) is end
    assert (member.stored, drain.is_answered) == ({A: 8}, True)


@pytest.mark.parametrize("has_restarted", [False, True])
def test_what_retention_has_deleted_after_it_was_read_is_no_sign_of_another_topic(has_restarted: bool) -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    if has_restarted:
        member.restart()
    member.hold(A, holding(10, min_offset=10, stored_at_ms=0))
    assert subject.latest_offset(end, None) is end
    member.hold(A, holding(13, min_offset=10, stored_at_ms=9_000))
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 10, 13)]


def test_what_is_known_of_a_queue_outlives_retention() -> None:
    """It used to be forgotten with the last message, and the next start missed the first messages of a new topic."""
    member = SteadyMember({A: holding(10), B: holding(10)}, has_news=True)
    subject = planner(member, failOnDataLoss="false")
    end, _ = read(subject, SourceOffset())
    member.hold(A, holding(10, min_offset=10, stored_at_ms=0))
    member.hold(B, holding(12, stored_at_ms=2_000))
    end, _ = read(subject, end)
    assert end.queues[A] == QueueProgress(10, 10, 1_000)
    member.recreate(A, 14)
    _, ranges = read(planner(member, failOnDataLoss="false"), end)
    assert ranges == [QueueRange(A, 0, 14)]


def test_a_queue_that_was_empty_when_it_was_met_is_known_from_another_of_its_name() -> None:
    """No broker reports a store time of it: the next start took the new topic's first messages for what retention had
    deleted."""
    member = SteadyMember({A: holding(10, min_offset=10, stored_at_ms=-1), B: holding(10)}, has_news=True)
    end, _ = read(planner(member, failOnDataLoss="false"), SourceOffset())
    assert end.queues[A][:2] == (10, 10)
    member.recreate(A, 14)
    _, ranges = read(planner(member, failOnDataLoss="false"), end)
    assert ranges == [QueueRange(A, 0, 14)]


def test_a_queue_that_was_empty_when_it_was_met_is_the_same_when_it_has_grown() -> None:
    member = SteadyMember({A: holding(10, min_offset=10, stored_at_ms=-1), B: holding(10)}, has_news=True)
    end, _ = read(planner(member), SourceOffset())
    member.hold(A, holding(13, min_offset=10, stored_at_ms=9_000))
    end, ranges = read(planner(member), end)
    assert ranges == [QueueRange(A, 10, 13)]
    assert end.queues[A] == QueueProgress(10, 13, 9_000)


@pytest.mark.parametrize("is_new_start", [False, True])
def test_a_clock_that_was_set_back_is_no_sign_of_another_topic(is_new_start: bool) -> None:
    """It was, at each restart; or everything was read twice."""
    member = SteadyMember({A: holding(10, stored_at_ms=5_000)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    for count, stored_ms in (
        (15, [2_000] * 5),
        (18, [2_000] * 5 + [2_500] * 3),
        (20, [2_000] * 5 + [2_500] * 3 + [6_000] * 2),
    ):
        member.store_times(A, *[5_000] * 10, *stored_ms)
        subject = planner(member) if is_new_start else subject
        end, ranges = read(subject, end)
        assert [one.end_offset for one in ranges] == [count]


def test_a_backlog_in_which_a_clock_was_set_back_is_no_sign_of_another_topic() -> None:
    member = SteadyMember({A: holding(20)}, has_news=True)
    member.store_times(A, *[5_000] * 10, *[2_000] * 10)
    end, _ = read(planner(member), SourceOffset(), limit=5)
    _, ranges = read(planner(member), end)
    assert ranges == [QueueRange(A, 5, 20)]


def test_a_queue_that_was_emptied_after_it_had_been_read_begins_again_without_a_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """``mqadmin cleanExpiredCQ`` lets a queue begin at 0 again once retention has deleted all of it. The group's offset
    stays what it was."""
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    assert subject.latest_offset(end, None) is end
    member.hold(A, holding(10, min_offset=10, stored_at_ms=0))
    assert subject.latest_offset(end, None) is end
    member.store_times(A)
    member.hold(A, holding(0))
    end, ranges = read(subject, end)
    assert (ranges, end.queues[A], member.stored) == ([], QueueProgress(0, 0, 1_000), {A: 0})
    assert "QUEUE_EMPTIED: Queue=orders@broker-a:0 was emptied by its broker. No message is lost" in caplog.text
    member.hold(A, holding(3, stored_at_ms=9_000))
    end, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 3)]


def test_a_queue_that_was_emptied_and_filled_again_begins_again_without_a_loss() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.store_times(A, 9_000, 9_000)
    _, ranges = read(subject, end)
    assert ranges == [QueueRange(A, 0, 2)]


def test_a_queue_that_was_emptied_before_it_had_been_read_has_lost_something() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset(), limit=6)
    member.store_times(A)
    with pytest.raises(DataLossError, match=r"\[0, 6\)"):
        subject.latest_offset(end, None)


def test_a_loss_that_ends_the_query_leaves_the_group_s_offset_to_the_operator() -> None:
    member = SteadyMember({A: holding(10, stored_at_ms=9_000)}, stored={A: 40})
    with pytest.raises(DataLossError):
        planner(member).latest_offset(SourceOffset({A: QueueProgress(40, 40, 5_000)}), None)
    assert member.stored == {A: 40}


def test_a_queue_that_was_emptied_while_the_broker_was_unavailable_may_have_lost_something() -> None:
    member = SteadyMember({A: holding(10)}, has_news=True)
    subject = planner(member)
    end, _ = read(subject, SourceOffset())
    member.restart()
    member.store_times(A)
    with pytest.raises(DataLossError, match=r"\[0, 10\)"):
        subject.latest_offset(end, None)
