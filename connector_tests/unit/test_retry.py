from __future__ import annotations

import pytest

from connector_tests.support.refusals import refused
from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError, RouteError, TransportError
from rocketmq_spark.remoting.failures import EXTENDED_QUIET_MS, FailureTracker
from rocketmq_spark.remoting.outage_log import Outage
from rocketmq_spark.remoting.retry import (
    REQUEST_PAUSES,
    RETRYABILITY,
    SEND_BACK_PAUSES,
    Pauses,
    Retryability,
    is_broker_outage,
    requires_route_refresh,
    retryability_of_pull,
    retryability_of_request,
    retryability_of_send,
    retryability_of_write,
)
from rocketmq_spark.wire.remoting.codes import ResponseCode

BROKER = "broker broker-a"
CUT = TransportError("CONNECTION_LOST", address="a:1", reason="cut")
REFUSED = TransportError("CONNECT_FAILED", address="a:1", reason="refused")
NO_TOPIC = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:1")
LIMIT_MS = 60_000


TRANSIENT, UNAVAILABLE, PERMANENT = Retryability.TRANSIENT, Retryability.UNAVAILABLE, Retryability.PERMANENT
MASTER_UNAVAILABLE = RouteError("MASTER_UNAVAILABLE", broker="broker-a", topic="orders")
GARBAGE = RemoteProtocolError("MALFORMED_FRAME", peer="a:1", problem="garbage")
UNREACHABLE = TransportError("CLUSTER_TIMEOUT", subject="a", waited_ms=1, limit_ms=1, cause="cut")


@pytest.mark.parametrize(
    ("error", "request_", "pull", "send", "write"),
    [
        (CUT, TRANSIENT, TRANSIENT, TRANSIENT, TRANSIENT),
        (REFUSED, TRANSIENT, TRANSIENT, TRANSIENT, TRANSIENT),
        (
            TransportError("RESPONSE_TIMED_OUT", address="a:1", request="X", timeout_ms=1),
            TRANSIENT,
            TRANSIENT,
            TRANSIENT,
            TRANSIENT,
        ),
        (refused(ResponseCode.SYSTEM_BUSY), TRANSIENT, TRANSIENT, TRANSIENT, TRANSIENT),
        (refused(ResponseCode.SYSTEM_ERROR), TRANSIENT, TRANSIENT, TRANSIENT, TRANSIENT),
        (refused(ResponseCode.GO_AWAY), TRANSIENT, TRANSIENT, TRANSIENT, TRANSIENT),
        (refused(ResponseCode.FLOW_CONTROL), TRANSIENT, TRANSIENT, PERMANENT, TRANSIENT),
        (refused(ResponseCode.NO_PERMISSION), PERMANENT, UNAVAILABLE, TRANSIENT, UNAVAILABLE),
        (refused(ResponseCode.TOPIC_NOT_EXIST), PERMANENT, UNAVAILABLE, TRANSIENT, UNAVAILABLE),
        (refused(ResponseCode.INVALID_PARAMETER), PERMANENT, UNAVAILABLE, PERMANENT, UNAVAILABLE),
        (refused(ResponseCode.MESSAGE_ILLEGAL), PERMANENT, PERMANENT, PERMANENT, PERMANENT),
        (refused(99_999), PERMANENT, PERMANENT, PERMANENT, PERMANENT),
        (MASTER_UNAVAILABLE, TRANSIENT, UNAVAILABLE, TRANSIENT, TRANSIENT),
        (NO_TOPIC, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE),
        (GARBAGE, PERMANENT, PERMANENT, PERMANENT, PERMANENT),
        (UNREACHABLE, PERMANENT, PERMANENT, PERMANENT, PERMANENT),
    ],
    ids=str,
)
def test_what_another_attempt_can_help_is_decided_by_condition_or_code_and_by_what_was_tried(
    error: RocketMQError, request_: Retryability, pull: Retryability, send: Retryability, write: Retryability
) -> None:
    assert (retryability_of_request(error), retryability_of_pull(error)) == (request_, pull)
    assert (retryability_of_send(error), retryability_of_write(error)) == (send, write)


def test_the_route_is_requested_again_but_for_the_right_broker_that_has_too_much_to_do() -> None:
    """What is not in the table may be what a wrong broker states, too."""
    errors = [refused(row) if isinstance(row, int) else RocketMQError(row) for row in RETRYABILITY]
    assert [str(error) for error in errors if not requires_route_refresh(error)] == [
        str(refused(ResponseCode.FLOW_CONTROL))
    ]
    assert requires_route_refresh(refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST))
    assert requires_route_refresh(GARBAGE)


def test_every_failure_of_the_table_exists() -> None:
    conditions = {failure for failure in RETRYABILITY if isinstance(failure, str)}
    assert conditions <= CONDITIONS.keys()
    assert {failure for failure in RETRYABILITY if isinstance(failure, int)} <= set(ResponseCode)


def test_what_is_in_the_table_is_not_final_for_everything() -> None:
    assert all({row.request, row.pull, row.send, row.write} != {PERMANENT} for row in RETRYABILITY.values())


@pytest.mark.parametrize("condition", ["DATA_LOSS.OFFSETS_UNAVAILABLE", "MALFORMED_FRAME", "UNKNOWN_OPTION"])
def test_what_another_attempt_cannot_help_is_final(condition: str) -> None:
    assert retryability_of_request(RocketMQError(condition)) is PERMANENT


def test_credentials_that_are_refused_are_final_by_whatever_code() -> None:
    """ACL 1.0 refuses with SYSTEM_ERROR, which may pass."""
    error = BrokerError(
        "CREDENTIALS_REJECTED", address="a:1", request="PULL_MESSAGE", code=int(ResponseCode.SYSTEM_ERROR), remark=""
    )
    assert (retryability_of_request(error), retryability_of_pull(error), retryability_of_write(error)) == (
        PERMANENT,
        PERMANENT,
        PERMANENT,
    )


def test_a_pause_is_twice_the_one_before_and_never_longer_than_the_longest() -> None:
    pauses = Pauses(50, 150)
    assert [pauses.after(before) for before in (None, 50, 100, 150)] == [50, 100, 150, 150]


def test_what_a_task_waits_for_is_tried_at_an_even_pace() -> None:
    assert SEND_BACK_PAUSES.after(SEND_BACK_PAUSES.after(None)) == SEND_BACK_PAUSES.after(None) == 250


def failing(*times_ms: int, error: RocketMQError = CUT, limit_ms: int = LIMIT_MS) -> FailureTracker:
    tracker = FailureTracker()
    for now_ms in times_ms:
        tracker.record_failure(BROKER, error, now_ms=now_ms, limit_ms=limit_ms)
    return tracker


def test_what_never_failed_may_be_tried() -> None:
    tracker = FailureTracker()
    assert tracker.may_try(BROKER, now_ms=0)
    assert tracker.next_try_ms is None
    assert not tracker.subjects
    tracker.raise_expired(now_ms=10**9)


def test_what_failed_is_left_alone_for_a_while() -> None:
    tracker = failing(1_000)
    assert not tracker.may_try(BROKER, 1_000 + REQUEST_PAUSES.shortest_ms - 1)
    assert tracker.may_try(BROKER, 1_000 + REQUEST_PAUSES.shortest_ms)


def test_other_subjects_may_be_tried_meanwhile() -> None:
    assert failing(1_000).may_try("broker broker-b", 1_000)


def test_pauses_double_up_to_the_longest() -> None:
    tracker, now_ms, pauses_ms = FailureTracker(), 0, []
    for _ in range(7):
        tracker.record_failure(BROKER, CUT, now_ms=now_ms, limit_ms=LIMIT_MS)
        pause_ms = next(ms for ms in range(REQUEST_PAUSES.longest_ms + 1) if tracker.may_try(BROKER, now_ms + ms))
        pauses_ms.append(pause_ms)
        now_ms += pause_ms
    assert pauses_ms == [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]


def test_the_last_pause_ends_with_the_limit() -> None:
    """A limit of 8 s was kept after 13."""
    tracker, now_ms = FailureTracker(), 0
    while not tracker.record_failure("broker a", CUT, now_ms=now_ms, limit_ms=8_000):
        assert tracker.next_try_ms is not None
        now_ms = tracker.next_try_ms
    assert now_ms == 8_000
    assert tracker.next_try_ms == now_ms + REQUEST_PAUSES.longest_ms


def test_pauses_stay_finite_however_often_something_failed() -> None:
    assert failing(*[0] * 1_000).may_try(BROKER, REQUEST_PAUSES.longest_ms)


def test_success_ends_the_failure() -> None:
    tracker = failing(0, 1_000)
    tracker.record_success(BROKER)
    tracker.record_success("never failed")
    assert not tracker.subjects
    tracker.record_failure(BROKER, CUT, now_ms=LIMIT_MS, limit_ms=LIMIT_MS)
    tracker.raise_expired(LIMIT_MS)
    assert tracker.may_try(BROKER, LIMIT_MS + REQUEST_PAUSES.shortest_ms)


def test_something_is_due_when_any_subject_may_be_tried_again() -> None:
    tracker = failing(0)
    tracker.record_failure("the name servers", CUT, now_ms=10_000, limit_ms=LIMIT_MS)
    assert tracker.next_try_ms == REQUEST_PAUSES.shortest_ms
    assert tracker.subjects == {BROKER, "the name servers"}


def test_the_limit_counts_from_the_first_failure() -> None:
    tracker = failing(1_000, 5_000, 60_999)
    tracker.raise_expired(60_999)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        tracker.raise_expired(61_000)


def test_the_error_reports_what_was_tried_for_how_long_and_the_last_failure() -> None:
    tracker = failing(0)
    tracker.record_failure(BROKER, REFUSED, now_ms=LIMIT_MS, limit_ms=LIMIT_MS)
    with pytest.raises(TransportError) as raised:
        tracker.raise_expired(LIMIT_MS + 5)
    assert raised.value.context == {
        "subject": "broker broker-a",
        "waited_ms": LIMIT_MS + 5,
        "limit_ms": LIMIT_MS,
        "cause": REFUSED.summary,
    }
    assert raised.value.__cause__ is REFUSED


def test_a_limit_of_zero_is_no_retry() -> None:
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        failing(7, limit_ms=0).raise_expired(7)


def test_a_refusal_that_might_have_passed_is_an_unreachable_cluster() -> None:
    """A broker that was busy for the whole limit ended the query with BROKER_ERROR, which reports of no limit."""
    busy = refused(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*clusterTimeoutMs") as raised:
        failing(0, error=busy).raise_expired(LIMIT_MS)
    assert raised.value.__cause__ is busy


def test_what_passes_is_logged_by_the_column_of_what_is_tried() -> None:
    tracker = FailureTracker(retryability_of_pull)
    tracker.record_failure(BROKER, MASTER_UNAVAILABLE, now_ms=0, limit_ms=0)
    with pytest.raises(RouteError, match="MASTER_UNAVAILABLE"):
        tracker.raise_expired(0)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*MASTER_UNAVAILABLE"):
        failing(0, error=MASTER_UNAVAILABLE).raise_expired(LIMIT_MS)


def test_what_is_no_timeout_is_raised_as_it_is() -> None:
    with pytest.raises(RouteError) as raised:
        failing(0, error=NO_TOPIC).raise_expired(LIMIT_MS)
    assert raised.value is NO_TOPIC


def test_each_subject_has_its_own_limit() -> None:
    tracker = failing(0, limit_ms=10**9)
    tracker.record_failure("topic orders", NO_TOPIC, now_ms=0, limit_ms=5)
    with pytest.raises(RouteError):
        tracker.raise_expired(5)


def test_what_has_a_shorter_limit_has_it_from_when_it_began_and_all_of_it_the_longer_one() -> None:
    """A proxy that was away for longer than a topic is waited for, and then does not know the topic yet."""
    tracker = failing(0, limit_ms=300)
    assert not tracker.record_failure(BROKER, NO_TOPIC, now_ms=100, limit_ms=60)
    assert not tracker.record_failure(BROKER, NO_TOPIC, now_ms=159, limit_ms=60)
    (wait,) = tracker.outages()
    assert (wait.since_ms, wait.until_ms) == (0, 160)
    assert not tracker.record_failure(BROKER, CUT, now_ms=200, limit_ms=300)
    assert not tracker.record_failure(BROKER, NO_TOPIC, now_ms=250, limit_ms=60)
    tracker.raise_expired(299)
    assert tracker.record_failure(BROKER, NO_TOPIC, now_ms=300, limit_ms=60)
    with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
        tracker.raise_expired(300)


def test_what_no_limit_is_left_for_is_over_whatever_came_before() -> None:
    tracker = failing(0)
    assert tracker.record_failure(BROKER, CUT, now_ms=1, limit_ms=0)


def test_what_is_exempted_may_fail_for_ever_and_then_has_its_limit_again() -> None:
    tracker = FailureTracker()
    tracker.record_failure(BROKER, CUT, now_ms=0, limit_ms=LIMIT_MS)
    tracker.extend_deadline({BROKER, "broker broker-b"}, 10 * LIMIT_MS)
    tracker.raise_expired(11 * LIMIT_MS - 1)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        tracker.raise_expired(11 * LIMIT_MS)


def test_the_end_of_its_limit_is_logged_again_after_an_extension() -> None:
    tracker = FailureTracker()
    assert tracker.record_failure(BROKER, CUT, now_ms=0, limit_ms=0)
    tracker.extend_deadline({BROKER}, 10)
    assert tracker.record_failure(BROKER, CUT, now_ms=11, limit_ms=0)


def test_excuses_beside_another_limit_end_with_both() -> None:
    tracker = FailureTracker()
    for now_ms in range(0, 2 * LIMIT_MS + 50, 10):
        tracker.record_failure(BROKER, CUT, now_ms=now_ms, limit_ms=LIMIT_MS)
        tracker.extend_deadline({BROKER}, now_ms + 5, other_limit_ms=50)
        tracker.raise_expired(now_ms + 5)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        tracker.raise_expired(2 * LIMIT_MS + 50)


def test_an_extension_is_for_no_other_caller() -> None:
    tracker = FailureTracker()
    tracker.record_failure(BROKER, CUT, now_ms=0, limit_ms=LIMIT_MS)
    tracker.extend_deadline({"broker broker-b"}, LIMIT_MS)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        tracker.raise_expired(LIMIT_MS)


def test_what_is_forgotten_is_neither_due_nor_failing() -> None:
    """A broker that had left the route was due for ever, and never asked: the planner surveyed without a pause."""
    tracker = failing(0)
    tracker.discard(BROKER)
    tracker.discard("never failed")
    assert tracker.next_try_ms is None
    assert not tracker.subjects


def test_the_end_of_its_limit_is_logged_once_and_again_after_a_success() -> None:
    tracker = FailureTracker()
    reported = [
        tracker.record_failure(BROKER, CUT, now_ms=at, limit_ms=LIMIT_MS)
        for at in (0, LIMIT_MS - 1, LIMIT_MS, 2 * LIMIT_MS)
    ]
    assert reported == [False, False, True, False]
    tracker.record_success(BROKER)
    assert tracker.record_failure(BROKER, CUT, now_ms=0, limit_ms=0)


def test_the_limit_counts_from_when_others_began_to_wait() -> None:
    tracker = FailureTracker()
    assert tracker.record_failure(BROKER, CUT, now_ms=LIMIT_MS, limit_ms=LIMIT_MS, since_ms=0)
    tracker.record_failure(BROKER, CUT, now_ms=LIMIT_MS + 9, limit_ms=LIMIT_MS, since_ms=LIMIT_MS)
    assert tracker.since_ms(BROKER) == 0, "the first failure here is the one that counts"


def test_a_limit_is_not_over_before_its_time_however_late_it_is() -> None:
    assert not FailureTracker().record_failure(BROKER, CUT, now_ms=10 * LIMIT_MS, limit_ms=LIMIT_MS)


def test_what_fails_is_distinguished_from_what_does_not() -> None:
    tracker = failing(0)
    assert tracker.is_failing(BROKER)
    assert not tracker.is_failing("broker broker-b")
    assert tracker.is_anything_failing
    assert tracker.record_success(BROKER)
    assert not tracker.record_success(BROKER)
    assert not tracker.is_anything_failing


def test_what_was_due_and_could_not_be_tried_may_be_but_wakes_no_thread_before_its_pause() -> None:
    tracker = failing(0)
    tracker.record_failure("the name servers", CUT, now_ms=200, limit_ms=LIMIT_MS)
    tracker.postpone(REQUEST_PAUSES.shortest_ms)
    assert tracker.may_try(BROKER, REQUEST_PAUSES.shortest_ms)
    assert not tracker.may_try("the name servers", REQUEST_PAUSES.shortest_ms)
    assert tracker.next_try_ms == 200 + REQUEST_PAUSES.shortest_ms, "it was not due, so nothing changes for it"
    tracker.discard("the name servers")
    assert tracker.next_try_ms == 2 * REQUEST_PAUSES.shortest_ms
    tracker.postpone(2 * REQUEST_PAUSES.shortest_ms)
    assert tracker.next_try_ms == 4 * REQUEST_PAUSES.shortest_ms, "twice as long each time"
    assert tracker.since_ms(BROKER) == 0


@pytest.mark.parametrize(
    ("error", "is_one"),
    [(UNREACHABLE, True), (CUT, True), (MASTER_UNAVAILABLE, True), (GARBAGE, False), (refused(99_999), False)],
)
def test_an_outage_is_what_was_tried_for_as_long_as_it_may_be(error: RocketMQError, is_one: bool) -> None:
    assert is_broker_outage(error) is is_one


@pytest.mark.parametrize(("cause", "is_one"), [("CONNECTION_LOST", True), ("NAME_SERVERS_UNAVAILABLE", False)])
def test_name_servers_that_are_unresponsive_for_too_long_report_nothing_of_a_broker(cause: str, is_one: bool) -> None:
    tracker = FailureTracker(retryability_of_pull)
    error = TransportError(cause, topic="orders", addresses="n:1", address="a:1", reason="cut", cause="cut")
    tracker.record_failure(BROKER, error, now_ms=0, limit_ms=LIMIT_MS)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT") as raised:
        tracker.raise_expired(LIMIT_MS)
    assert is_broker_outage(raised.value) is is_one


def test_what_is_waited_for_is_logged_with_how_long_it_stays_quiet() -> None:
    subject = FailureTracker()
    subject.record_failure("name servers", CUT, now_ms=5, limit_ms=100)
    subject.record_failure(BROKER, REFUSED, now_ms=7, limit_ms=200, quiet_ms=30)
    assert subject.outages() == (
        Outage("name servers", 5, 105, str(CUT), CUT.condition, 0),
        Outage(BROKER, 7, 207, str(REFUSED), REFUSED.condition, 30),
    )
    assert subject.outages(explained=[BROKER]) == (Outage("name servers", 5, 105, str(CUT), CUT.condition, 0),)


def test_what_was_exempted_is_reported_only_if_it_continues_for_a_while() -> None:
    tracker = failing(1_000)
    tracker.extend_deadline({BROKER}, now_ms=5_000)
    tracker.record_failure(BROKER, CUT, now_ms=6_000, limit_ms=LIMIT_MS)
    (wait,) = tracker.outages()
    assert (
        wait.since_ms,
        wait.is_loggable(5_000 + EXTENDED_QUIET_MS - 1),
        wait.is_loggable(5_000 + EXTENDED_QUIET_MS),
    ) == (
        5_000,
        False,
        True,
    )
    tracker.record_success(BROKER)
    tracker.record_failure(BROKER, CUT, now_ms=30_000, limit_ms=LIMIT_MS)
    assert tracker.outages()[0].quiet_ms == 0


def test_topic_called_as_a_refusal_is_none() -> None:
    """Brokers quote a missing topic: a row for one with this name failed at once, and others wait."""
    missing = BrokerError(
        "BROKER_ERROR",
        address="a:10911",
        request="SEND_MESSAGE_V2",
        code=ResponseCode.TOPIC_NOT_EXIST,
        remark="topic[PROPERTIES_SIZE_EXCEEDED] not exist, apply first please!",
    )
    assert retryability_of_write(missing) is Retryability.UNAVAILABLE
