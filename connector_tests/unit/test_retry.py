from __future__ import annotations

from collections.abc import Callable

import pytest

from connector_tests.support.refusals import refused
from rocketmq_spark.conditions import CONDITIONS
from rocketmq_spark.errors import BrokerError, RemoteProtocolError, RocketMQError, RouteError, TransportError
from rocketmq_spark.remoting import retry
from rocketmq_spark.remoting.failures import EXCUSED_QUIET_MS, FailureTracker
from rocketmq_spark.remoting.retry import (
    ASKING,
    OUTLOOKS,
    SENDING_BACK,
    Outlook,
    Pauses,
    is_outage_of_broker,
    outlook_of_pull,
    outlook_of_request,
    outlook_of_send,
    outlook_of_write,
    refreshes_route,
)
from rocketmq_spark.remoting.waits import Wait
from rocketmq_spark.wire.remoting.codes import ResponseCode

BROKER = "broker broker-a"
CUT = TransportError("CONNECTION_LOST", address="a:1", reason="cut")
REFUSED = TransportError("CONNECT_FAILED", address="a:1", reason="refused")
NO_TOPIC = RouteError("TOPIC_NOT_FOUND", topic="orders", address="n:1")
LIMIT_MS = 60_000


PASSES, UNSERVED, FINAL = Outlook.PASSES, Outlook.UNSERVED, Outlook.FINAL
MASTER_UNAVAILABLE = RouteError("MASTER_UNAVAILABLE", broker="broker-a", topic="orders")
GARBAGE = RemoteProtocolError("MALFORMED_FRAME", peer="a:1", problem="garbage")
UNREACHABLE = TransportError("CLUSTER_TIMEOUT", subject="a", waited_ms=1, limit_ms=1, cause="cut")


@pytest.mark.parametrize(
    ("error", "request_", "pull", "send", "write"),
    [
        (CUT, PASSES, PASSES, PASSES, PASSES),
        (REFUSED, PASSES, PASSES, PASSES, PASSES),
        (
            TransportError("RESPONSE_TIMED_OUT", address="a:1", request="X", timeout_ms=1),
            PASSES,
            PASSES,
            PASSES,
            PASSES,
        ),
        (refused(ResponseCode.SYSTEM_BUSY), PASSES, PASSES, PASSES, PASSES),
        (refused(ResponseCode.SYSTEM_ERROR), PASSES, PASSES, PASSES, PASSES),
        (refused(ResponseCode.GO_AWAY), PASSES, PASSES, PASSES, PASSES),
        (refused(ResponseCode.FLOW_CONTROL), PASSES, PASSES, FINAL, PASSES),
        (refused(ResponseCode.NO_PERMISSION), FINAL, UNSERVED, PASSES, UNSERVED),
        (refused(ResponseCode.TOPIC_NOT_EXIST), FINAL, UNSERVED, PASSES, UNSERVED),
        (refused(ResponseCode.INVALID_PARAMETER), FINAL, UNSERVED, FINAL, UNSERVED),
        (refused(ResponseCode.MESSAGE_ILLEGAL), FINAL, FINAL, FINAL, FINAL),
        (refused(99_999), FINAL, FINAL, FINAL, FINAL),
        (MASTER_UNAVAILABLE, PASSES, UNSERVED, PASSES, PASSES),
        (NO_TOPIC, UNSERVED, UNSERVED, UNSERVED, UNSERVED),
        (GARBAGE, FINAL, FINAL, FINAL, FINAL),
        (UNREACHABLE, FINAL, FINAL, FINAL, FINAL),
    ],
    ids=str,
)
def test_what_another_attempt_can_help_is_decided_by_condition_or_code_and_by_what_was_tried(
    error: RocketMQError, request_: Outlook, pull: Outlook, send: Outlook, write: Outlook
) -> None:
    assert (outlook_of_request(error), outlook_of_pull(error)) == (request_, pull)
    assert (outlook_of_send(error), outlook_of_write(error)) == (send, write)


def test_where_to_go_is_asked_anew_but_for_the_right_broker_that_has_too_much_to_do() -> None:
    """What is not in the table may be what a wrong broker says, too."""
    errors = [refused(row) if isinstance(row, int) else RocketMQError(row) for row in OUTLOOKS]
    assert [str(error) for error in errors if not refreshes_route(error)] == [str(refused(ResponseCode.FLOW_CONTROL))]
    assert refreshes_route(refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST))
    assert refreshes_route(GARBAGE)


def test_every_failure_of_the_table_exists() -> None:
    conditions = {failure for failure in OUTLOOKS if isinstance(failure, str)}
    assert conditions <= CONDITIONS.keys()
    assert {failure for failure in OUTLOOKS if isinstance(failure, int)} <= set(ResponseCode)


def test_what_is_in_the_table_is_not_final_for_everything() -> None:
    assert all({row.request, row.pull, row.send, row.write} != {FINAL} for row in OUTLOOKS.values())


@pytest.mark.parametrize("condition", ["DATA_LOSS.OFFSETS_UNAVAILABLE", "MALFORMED_FRAME", "UNKNOWN_OPTION"])
def test_what_another_attempt_cannot_help_is_final(condition: str) -> None:
    assert outlook_of_request(RocketMQError(condition)) is FINAL


def test_credentials_that_are_refused_are_final_by_whatever_code() -> None:
    """ACL 1.0 refuses with SYSTEM_ERROR, which may pass."""
    error = BrokerError(
        "CREDENTIALS_REJECTED", address="a:1", request="PULL_MESSAGE", code=int(ResponseCode.SYSTEM_ERROR), remark=""
    )
    assert (outlook_of_request(error), outlook_of_pull(error), outlook_of_write(error)) == (FINAL, FINAL, FINAL)


def test_a_pause_is_twice_the_one_before_and_never_longer_than_the_longest() -> None:
    pauses = Pauses(50, 150)
    assert [pauses.after(before) for before in (None, 50, 100, 150)] == [50, 100, 150, 150]


def test_what_a_task_waits_for_is_tried_at_an_even_pace() -> None:
    assert SENDING_BACK.after(SENDING_BACK.after(None)) == SENDING_BACK.after(None) == 250


def failing(*times_ms: int, error: RocketMQError = CUT, limit_ms: int = LIMIT_MS) -> FailureTracker:
    patience = FailureTracker()
    for now_ms in times_ms:
        patience.failed(BROKER, error, now_ms=now_ms, limit_ms=limit_ms)
    return patience


def test_what_never_failed_may_be_tried() -> None:
    patience = FailureTracker()
    assert patience.may_try(BROKER, now_ms=0)
    assert patience.next_try_ms is None
    assert not patience.subjects
    patience.check(now_ms=10**9)


def test_what_failed_is_left_alone_for_a_while() -> None:
    patience = failing(1_000)
    assert not patience.may_try(BROKER, 1_000 + ASKING.shortest_ms - 1)
    assert patience.may_try(BROKER, 1_000 + ASKING.shortest_ms)


def test_other_subjects_may_be_tried_meanwhile() -> None:
    assert failing(1_000).may_try("broker broker-b", 1_000)


def test_pauses_double_up_to_the_longest() -> None:
    patience, now_ms, pauses_ms = FailureTracker(), 0, []
    for _ in range(7):
        patience.failed(BROKER, CUT, now_ms=now_ms, limit_ms=LIMIT_MS)
        pause_ms = next(ms for ms in range(ASKING.longest_ms + 1) if patience.may_try(BROKER, now_ms + ms))
        pauses_ms.append(pause_ms)
        now_ms += pause_ms
    assert pauses_ms == [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]


def test_the_last_pause_ends_with_the_limit() -> None:
    """A limit of 8 s was kept after 13."""
    patience, now_ms = FailureTracker(), 0
    while not patience.failed("broker a", CUT, now_ms=now_ms, limit_ms=8_000):
        assert patience.next_try_ms is not None
        now_ms = patience.next_try_ms
    assert now_ms == 8_000
    assert patience.next_try_ms == now_ms + ASKING.longest_ms


def test_pauses_stay_finite_however_often_something_failed() -> None:
    assert failing(*[0] * 1_000).may_try(BROKER, ASKING.longest_ms)


def test_success_ends_the_trouble() -> None:
    patience = failing(0, 1_000)
    patience.succeeded(BROKER)
    patience.succeeded("never failed")
    assert not patience.subjects
    patience.failed(BROKER, CUT, now_ms=LIMIT_MS, limit_ms=LIMIT_MS)
    patience.check(LIMIT_MS)
    assert patience.may_try(BROKER, LIMIT_MS + ASKING.shortest_ms)


def test_something_is_due_when_any_subject_may_be_tried_again() -> None:
    patience = failing(0)
    patience.failed("the name servers", CUT, now_ms=10_000, limit_ms=LIMIT_MS)
    assert patience.next_try_ms == ASKING.shortest_ms
    assert patience.subjects == {BROKER, "the name servers"}


def test_the_limit_counts_from_the_first_failure() -> None:
    patience = failing(1_000, 5_000, 60_999)
    patience.check(60_999)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        patience.check(61_000)


def test_the_error_says_what_was_tried_for_how_long_and_the_last_failure() -> None:
    patience = failing(0)
    patience.failed(BROKER, REFUSED, now_ms=LIMIT_MS, limit_ms=LIMIT_MS)
    with pytest.raises(TransportError) as raised:
        patience.check(LIMIT_MS + 5)
    assert raised.value.context == {
        "subject": "broker broker-a",
        "waited_ms": LIMIT_MS + 5,
        "limit_ms": LIMIT_MS,
        "cause": REFUSED.summary,
    }
    assert raised.value.__cause__ is REFUSED


def test_a_limit_of_zero_is_no_patience() -> None:
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        failing(7, limit_ms=0).check(7)


def test_a_refusal_that_might_have_passed_is_an_unreachable_cluster() -> None:
    """A broker that was busy for the whole limit ended the query with BROKER_ERROR, which tells of no limit."""
    busy = refused(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*clusterTimeoutMs") as raised:
        failing(0, error=busy).check(LIMIT_MS)
    assert raised.value.__cause__ is busy


def test_what_passes_is_said_by_the_column_of_what_is_tried() -> None:
    patience = FailureTracker(outlook_of_pull)
    patience.failed(BROKER, MASTER_UNAVAILABLE, now_ms=0, limit_ms=0)
    with pytest.raises(RouteError, match="MASTER_UNAVAILABLE"):
        patience.check(0)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*MASTER_UNAVAILABLE"):
        failing(0, error=MASTER_UNAVAILABLE).check(LIMIT_MS)


def test_what_is_no_silence_is_raised_as_it_is() -> None:
    with pytest.raises(RouteError) as raised:
        failing(0, error=NO_TOPIC).check(LIMIT_MS)
    assert raised.value is NO_TOPIC


def test_each_subject_has_its_own_limit() -> None:
    patience = failing(0, limit_ms=10**9)
    patience.failed("topic orders", NO_TOPIC, now_ms=0, limit_ms=5)
    with pytest.raises(RouteError):
        patience.check(5)


def test_what_has_a_shorter_limit_has_it_from_when_it_began_and_all_of_it_the_longer_one() -> None:
    """A proxy that was away for longer than a topic is waited for, and then does not know the topic yet."""
    patience = failing(0, limit_ms=300)
    assert not patience.failed(BROKER, NO_TOPIC, now_ms=100, limit_ms=60)
    assert not patience.failed(BROKER, NO_TOPIC, now_ms=159, limit_ms=60)
    (wait,) = patience.waits()
    assert (wait.since_ms, wait.until_ms) == (0, 160)
    assert not patience.failed(BROKER, CUT, now_ms=200, limit_ms=300)
    assert not patience.failed(BROKER, NO_TOPIC, now_ms=250, limit_ms=60)
    patience.check(299)
    assert patience.failed(BROKER, NO_TOPIC, now_ms=300, limit_ms=60)
    with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
        patience.check(300)


def test_what_no_limit_is_left_for_is_over_whatever_came_before() -> None:
    patience = failing(0)
    assert patience.failed(BROKER, CUT, now_ms=1, limit_ms=0)


def test_what_is_excused_may_fail_for_ever_and_then_has_its_limit_again() -> None:
    patience = FailureTracker()
    patience.failed(BROKER, CUT, now_ms=0, limit_ms=LIMIT_MS)
    patience.excuse({BROKER, "broker broker-b"}, 10 * LIMIT_MS)
    patience.check(11 * LIMIT_MS - 1)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        patience.check(11 * LIMIT_MS)


def test_the_end_of_its_limit_is_said_again_after_an_excuse() -> None:
    patience = FailureTracker()
    assert patience.failed(BROKER, CUT, now_ms=0, limit_ms=0)
    patience.excuse({BROKER}, 10)
    assert patience.failed(BROKER, CUT, now_ms=11, limit_ms=0)


def test_excuses_beside_another_limit_end_with_both() -> None:
    patience = FailureTracker()
    for now_ms in range(0, 2 * LIMIT_MS + 50, 10):
        patience.failed(BROKER, CUT, now_ms=now_ms, limit_ms=LIMIT_MS)
        patience.excuse({BROKER}, now_ms + 5, beside_ms=50)
        patience.check(now_ms + 5)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        patience.check(2 * LIMIT_MS + 50)


def test_an_excuse_is_for_nobody_else() -> None:
    patience = FailureTracker()
    patience.failed(BROKER, CUT, now_ms=0, limit_ms=LIMIT_MS)
    patience.excuse({"broker broker-b"}, LIMIT_MS)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        patience.check(LIMIT_MS)


def test_what_is_forgotten_is_neither_due_nor_failing() -> None:
    """A broker that had left the route was due for ever, and never asked: the planner surveyed without a pause."""
    patience = failing(0)
    patience.forget(BROKER)
    patience.forget("never failed")
    assert patience.next_try_ms is None
    assert not patience.subjects


def test_the_end_of_its_limit_is_said_once_and_again_after_a_success() -> None:
    patience = FailureTracker()
    told = [
        patience.failed(BROKER, CUT, now_ms=at, limit_ms=LIMIT_MS) for at in (0, LIMIT_MS - 1, LIMIT_MS, 2 * LIMIT_MS)
    ]
    assert told == [False, False, True, False]
    patience.succeeded(BROKER)
    assert patience.failed(BROKER, CUT, now_ms=0, limit_ms=0)


def test_the_limit_counts_from_when_others_began_to_wait() -> None:
    patience = FailureTracker()
    assert patience.failed(BROKER, CUT, now_ms=LIMIT_MS, limit_ms=LIMIT_MS, since_ms=0)
    patience.failed(BROKER, CUT, now_ms=LIMIT_MS + 9, limit_ms=LIMIT_MS, since_ms=LIMIT_MS)
    assert patience.since_ms(BROKER) == 0, "the first failure here is the one that counts"


def test_a_limit_is_not_over_before_its_time_however_late_it_is() -> None:
    assert not FailureTracker().failed(BROKER, CUT, now_ms=10 * LIMIT_MS, limit_ms=LIMIT_MS)


def test_what_fails_is_told_from_what_does_not() -> None:
    patience = failing(0)
    assert patience.is_failing(BROKER)
    assert not patience.is_failing("broker broker-b")
    assert patience.is_anything_failing
    assert patience.succeeded(BROKER)
    assert not patience.succeeded(BROKER)
    assert not patience.is_anything_failing


def test_what_was_due_and_could_not_be_tried_may_be_but_wakes_nobody_before_its_pause() -> None:
    patience = failing(0)
    patience.failed("the name servers", CUT, now_ms=200, limit_ms=LIMIT_MS)
    patience.postpone(ASKING.shortest_ms)
    assert patience.may_try(BROKER, ASKING.shortest_ms)
    assert not patience.may_try("the name servers", ASKING.shortest_ms)
    assert patience.next_try_ms == 200 + ASKING.shortest_ms, "it was not due, so nothing changes for it"
    patience.forget("the name servers")
    assert patience.next_try_ms == 2 * ASKING.shortest_ms
    patience.postpone(2 * ASKING.shortest_ms)
    assert patience.next_try_ms == 4 * ASKING.shortest_ms, "twice as long each time"
    assert patience.since_ms(BROKER) == 0


@pytest.mark.parametrize(
    ("error", "is_one"),
    [(UNREACHABLE, True), (CUT, True), (MASTER_UNAVAILABLE, True), (GARBAGE, False), (refused(99_999), False)],
)
def test_an_outage_is_what_was_tried_for_as_long_as_it_may_be(error: RocketMQError, is_one: bool) -> None:
    assert is_outage_of_broker(error) is is_one


@pytest.mark.parametrize(("cause", "is_one"), [("CONNECTION_LOST", True), ("NAME_SERVERS_UNAVAILABLE", False)])
def test_name_servers_that_are_silent_for_too_long_say_nothing_of_a_broker(cause: str, is_one: bool) -> None:
    patience = FailureTracker(outlook_of_pull)
    error = TransportError(cause, topic="orders", addresses="n:1", address="a:1", reason="cut", cause="cut")
    patience.failed(BROKER, error, now_ms=0, limit_ms=LIMIT_MS)
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT") as raised:
        patience.check(LIMIT_MS)
    assert is_outage_of_broker(raised.value) is is_one


def test_what_is_waited_for_is_said_with_how_long_it_stays_quiet() -> None:
    subject = FailureTracker()
    subject.failed("name servers", CUT, now_ms=5, limit_ms=100)
    subject.failed(BROKER, REFUSED, now_ms=7, limit_ms=200, quiet_ms=30)
    assert subject.waits() == (
        Wait("name servers", 5, 105, str(CUT), CUT.condition, 0),
        Wait(BROKER, 7, 207, str(REFUSED), REFUSED.condition, 30),
    )
    assert subject.waits(excused=[BROKER]) == (Wait("name servers", 5, 105, str(CUT), CUT.condition, 0),)


def test_what_was_excused_is_told_only_if_it_goes_on_for_a_while() -> None:
    patience = failing(1_000)
    patience.excuse({BROKER}, now_ms=5_000)
    patience.failed(BROKER, CUT, now_ms=6_000, limit_ms=LIMIT_MS)
    (wait,) = patience.waits()
    assert (wait.since_ms, wait.is_told(5_000 + EXCUSED_QUIET_MS - 1), wait.is_told(5_000 + EXCUSED_QUIET_MS)) == (
        5_000,
        False,
        True,
    )
    patience.succeeded(BROKER)
    patience.failed(BROKER, CUT, now_ms=30_000, limit_ms=LIMIT_MS)
    assert patience.waits()[0].quiet_ms == 0


@pytest.mark.parametrize(
    ("is_it", "conditions"),
    [
        (retry.is_refusal, {"BROKER_ERROR"}),
        (retry.is_without_route, {"NAME_SERVERS_UNAVAILABLE"}),
        (retry.is_no_name_server, {"NOT_A_NAME_SERVER"}),
        (retry.is_unknown_topic, {"TOPIC_NOT_FOUND"}),
        (retry.is_unknown_group, {"GROUP_NOT_FOUND.PROXY"}),
        (retry.is_away, {"TOPIC_UNAVAILABLE.NO_ROUTE"}),
        (retry.is_topic_unrouted, {"TOPIC_NOT_FOUND", "TOPIC_UNAVAILABLE.NO_ROUTE"}),
        (retry.is_unknown_broker, {"UNKNOWN_BROKER"}),
        (retry.is_pull_rejected, {"PULL_REJECTED"}),
        (retry.is_reset_pending, {"OFFSET_RESET_PENDING"}),
        (retry.is_disconnected, {"CONNECT_FAILED", "CONNECTION_LOST"}),
        (retry.is_timed_out, {"RESPONSE_TIMED_OUT"}),
        (retry.is_answer_too_large, {"RESPONSE_TOO_LARGE"}),
    ],
)
def test_failures_are_told_apart_by_their_conditions(
    is_it: Callable[[RocketMQError], bool], conditions: set[str]
) -> None:
    assert {condition for condition in CONDITIONS if is_it(RocketMQError(condition))} == conditions
