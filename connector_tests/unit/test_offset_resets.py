"""An operator's resets: how a member learns of them, and what it takes for none."""

from __future__ import annotations

import pytest

from connector_tests.support.one_broker_group import QUEUES, Group, committed_to
from connector_tests.support.refusals import refused
from rocketmq_spark.errors import BrokerError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.codes import ResponseCode

KEYS = {"accessKey": "me", "secretKey": "s"}


@pytest.mark.parametrize(("given", "pending"), [({}, {}), (KEYS, {QUEUES[0]: 3})])
def test_a_caller_that_signs_searches_for_its_own_group_and_keeps_the_resets_that_it_receives(
    given: dict[str, str], pending: dict[MessageQueue, int]
) -> None:
    """Else the mark stays, for the first pull."""
    group = Group()
    group.cluster.produce(QUEUES[0], 9)
    member = group.member(**given)
    member.refresh_metadata()
    group.broker.reset(QUEUES[0], 3)
    assert member.client.probe_store_times({QUEUES[0]: 8}).keys() == {QUEUES[0]}
    assert member.prune_resets() == pending
    assert group.broker.marks == ({} if pending else {QUEUES[0]: 3})


def test_a_refused_commit_reports_where_the_operator_has_reset_the_queue_to() -> None:
    group = Group()
    group.broker.reset(QUEUES[0], 7)
    member = group.member()
    member.refresh_metadata()
    assert member.offsets.raise_to({QUEUES[0]: 50, QUEUES[1]: 50}) == {QUEUES[1]}
    assert member.prune_resets() == {QUEUES[0]: 7}
    assert member.offsets.raise_to({QUEUES[0]: 50}) == set(), "nor while it is pending and the mark is gone"
    assert group.broker.offsets[QUEUES[0]] == 7
    assert member.offsets.replace_offsets({QUEUES[0]: 7}) == {QUEUES[0]}


@pytest.mark.parametrize("offset", [3, 10, 15])
def test_a_reset_during_a_batch_is_learned_with_its_completion_and_wins_over_it(offset: int) -> None:
    group = Group()
    member = committed_to(group, 10)
    group.broker.reset(QUEUES[0], offset)
    before = member.log_and_snapshot().changes
    member.mark_completed({QUEUES[0]: 20}, {})
    assert (group.broker.offsets, group.broker.marks) == ({QUEUES[0]: offset}, {})
    assert member.log_and_snapshot().changes > before
    assert member.prune_resets() == {QUEUES[0]: offset}
    assert member.offsets.persist(), "what was proven above it needs no telling any more"
    assert member.offsets.replace_offsets({QUEUES[0]: offset}) == {QUEUES[0]}
    member.offsets.persist()
    assert group.broker.offsets == {QUEUES[0]: offset}


def test_a_lower_offset_over_an_unbroken_connection_is_a_reset_whose_mark_another_client_has_received() -> None:
    """A pull of an executor was told, and the proof of its batch used to be written over the operator's word."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.reset(QUEUES[0], 3)
    group.broker.marks.clear()
    before = member.log_and_snapshot().changes
    member.mark_completed({QUEUES[0]: 20}, {})
    assert group.broker.offsets == {QUEUES[0]: 3}
    assert member.log_and_snapshot().changes > before
    assert member.prune_resets() == {QUEUES[0]: 3}


def test_a_lower_offset_after_the_connection_was_lost_is_no_reset() -> None:
    """A broker that was killed forgets what was committed in its last seconds."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.restart()
    group.broker.offsets[QUEUES[0]] = 3
    member.mark_completed({QUEUES[0]: 20}, {})
    assert group.broker.offsets == {QUEUES[0]: 20}
    assert member.prune_resets() == {}


def test_a_lower_offset_that_was_never_confirmed_to_us_is_no_reset() -> None:
    """It is how far the last owner has come."""
    group = Group()
    group.broker.offsets[QUEUES[0]] = 3
    member = group.member()
    member.refresh_metadata()
    assert member.offsets.raise_to({QUEUES[0]: 10}) == {QUEUES[0]}
    assert group.broker.offsets == {QUEUES[0]: 10}


def test_a_reset_is_forgotten_with_its_queue() -> None:
    group = Group()
    member = group.member()
    member.refresh_metadata()
    member.resets.record(QUEUES[3], 3)
    group.cluster.set_others("you")
    assert QUEUES[3] not in member.refresh_metadata().owned
    group.cluster.set_others()
    assert QUEUES[3] in member.refresh_metadata().owned
    assert member.prune_resets() == {}


def test_a_recovering_member_finds_marks_before_it_owns_anything() -> None:
    group = Group()
    group.broker.reset(QUEUES[0], 3)
    member = group.member()
    member.resets.consume_marks(QUEUES)
    assert group.broker.marks == {}
    member.refresh_metadata()
    assert member.prune_resets() == {QUEUES[0]: 3}


@pytest.mark.parametrize(
    "code", [ResponseCode.INVALID_PARAMETER, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION]
)
def test_a_queue_that_a_broker_does_not_serve_has_no_mark(code: int) -> None:
    """A restart failed at once where a logged queue was gone, and could be told by no option to give it up."""
    group = Group()
    group.broker.pull_refusal = refused(code)
    member = group.member()
    member.resets.consume_marks(QUEUES)
    assert member.prune_resets() == {}
    group.broker.pull_refusal = refused(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(BrokerError, match=str(ResponseCode.MESSAGE_ILLEGAL.value)):
        member.resets.consume_marks(QUEUES)


@pytest.mark.parametrize("has_mark", [True, False], ids=["mark", "no mark"])
def test_reset_that_no_plan_came_after_is_marked_again_by_a_member_that_leaves(
    has_mark: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """On Spark 4.0 and 4.1 a run may end after its batch, whose pulls have taken the mark."""
    group = Group()
    member = committed_to(group, 10)
    group.broker.reset(QUEUES[0], 3)
    if not has_mark:
        group.broker.marks.clear()
    with caplog.at_level("INFO"):
        member.leave(restores_resets=True)
    assert (group.broker.marks, group.broker.offsets) == ({QUEUES[0]: 3}, {QUEUES[0]: 3})
    assert f"OFFSET_RESET_DEFERRED: Reset of queue={QUEUES[0]} to offset=3 applies at the next start" in caplog.text


def test_later_reset_is_not_overwritten_by_the_one_before() -> None:
    group = Group()
    member = committed_to(group, 10)
    member.resets.record(QUEUES[0], 3)
    group.broker.reset(QUEUES[0], 5)
    member.leave(restores_resets=True)
    assert group.broker.marks == {QUEUES[0]: 5}


def test_member_of_a_newer_spark_marks_nothing_again() -> None:
    group = Group()
    member = committed_to(group, 10)
    member.resets.record(QUEUES[0], 3)
    member.leave()
    assert group.broker.marks == {}


def test_reset_that_the_broker_does_not_take_back_is_named(caplog: pytest.LogCaptureFixture) -> None:
    group = Group()
    member = committed_to(group, 10)
    group.broker.reset(QUEUES[0], 3)
    group.broker.reset_refusal = refused(ResponseCode.NO_PERMISSION)
    member.leave(restores_resets=True)
    assert f"OFFSET_RESET_LOST: Reset of queue={QUEUES[0]} to offset=3 is lost" in caplog.text
    assert "Reset the group again" in caplog.text
