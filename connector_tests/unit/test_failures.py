"""Failures: what is tried again, for how long, and what is logged of it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from connector_tests.support.log_lines import outage_text
from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.remoting.failures import Failures
from rocketmq_spark.remoting.retry import (
    Pauses,
    Policy,
    message_mode_policy,
    request_policy,
    retryability_of_write,
    send_back_policy,
)
from rocketmq_spark.wire.remoting.codes import ResponseCode

MISSING = RouteError("TOPIC_NOT_FOUND", topic="T", address="ns:9876")
UNROUTED = TransportError("NAME_SERVERS_UNAVAILABLE", topic="T", addresses="ns:9876", cause="refused")
LOST = TransportError("CONNECTION_LOST", address="a:1", reason="reset")
ILLEGAL = BrokerError(
    "BROKER_ERROR",
    address="a:1",
    request="SEND_BATCH_MESSAGE",
    code=int(ResponseCode.MESSAGE_ILLEGAL),
    code_name="MESSAGE_ILLEGAL",
    remark="no",
)


def _refusal(code: ResponseCode) -> BrokerError:
    return BrokerError("BROKER_ERROR", address="a:1", request="X", code=int(code), code_name=code.name, remark="")


CLUSTER_MS, TOPIC_MS = 2_000, 1_000
LIMITS_MS = [
    (LOST, CLUSTER_MS, CLUSTER_MS),
    (UNROUTED, CLUSTER_MS, CLUSTER_MS),
    (RouteError("TOPIC_UNAVAILABLE.NO_ROUTE", topic="T", address="n:1", brokers="a (a:1)"), CLUSTER_MS, CLUSTER_MS),
    (RouteError("MASTER_UNAVAILABLE", topic="T", broker="a"), CLUSTER_MS, CLUSTER_MS),
    (MISSING, TOPIC_MS, TOPIC_MS),
    (RouteError("STATIC_TOPIC_NOT_SUPPORTED", topic="T"), TOPIC_MS, TOPIC_MS),
    (RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic="T"), TOPIC_MS, CLUSTER_MS),
    (_refusal(ResponseCode.NO_PERMISSION), 0, CLUSTER_MS),
    (_refusal(ResponseCode.TOPIC_NOT_EXIST), 0, CLUSTER_MS),
    (_refusal(ResponseCode.INVALID_PARAMETER), 0, CLUSTER_MS),
    (ILLEGAL, 0, 0),
]
"""An error, and its limit in ms in queue mode and in message mode: docs/dev/unavailable-servers.md."""


@pytest.mark.parametrize(("error", "request_ms", "message_mode_ms"), LIMITS_MS, ids=str)
def test_policy_has_one_limit_for_each_error(error: RocketMQError, request_ms: int, message_mode_ms: int) -> None:
    policies = [policy(CLUSTER_MS, TOPIC_MS) for policy in (request_policy, send_back_policy, message_mode_policy)]
    assert [policy.limit_ms_of(error) for policy in policies] == [request_ms, request_ms, message_mode_ms]


class Subject:
    """Failures at a time of their own, which pauses move. ``record_failure`` is of the broker a and the topic T."""

    def __init__(self, *, limit_ms: int = 300_000, unserved_ms: int = 60_000) -> None:
        self.clock = ManualClock(0)
        self.failures = Failures(Policy(retryability_of_write, Pauses(100, 400), limit_ms, unserved_ms), self.clock)
        self.pauses_ms: list[int] = []

    def sleep(self, seconds: float) -> None:
        self.pauses_ms.append(round(seconds * 1000))
        self.clock.advance(self.pauses_ms[-1])

    def record_failure(
        self, error: RocketMQError, *, at_ms: int, subject: str = "a", topic: str = "T"
    ) -> RocketMQError | None:
        self.clock.advance(at_ms - self.clock())
        return self.failures.record_failure(subject, topic, error)

    def retry_until_success(self, *outcomes: RocketMQError | None) -> int:
        """How many calls it takes; the last outcome stays."""
        made: list[RocketMQError | None] = []

        def call() -> None:
            made.append(outcomes[min(len(made), len(outcomes) - 1)])
            if made[-1] is not None:
                raise made[-1]

        self.failures.retry_until_success(call, "a", "T", self.sleep)
        return len(made)


def test_a_call_is_retried_with_growing_pauses_until_it_succeeds() -> None:
    subject = Subject()
    assert subject.retry_until_success(LOST, LOST, LOST, LOST, None) == 5
    assert subject.pauses_ms == [100, 200, 400, 400]
    assert subject.retry_until_success(LOST, None) == 2
    assert subject.pauses_ms[4:] == [100], "pauses begin with the call"


def test_a_call_that_succeeds_is_made_once_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    subject = Subject()
    assert subject.retry_until_success(None) == 1
    assert (subject.pauses_ms, caplog.messages) == ([], [])


def test_a_call_ends_with_the_error_that_another_attempt_would_not_change() -> None:
    subject = Subject()
    with pytest.raises(BrokerError) as raised:
        subject.retry_until_success(LOST, ILLEGAL)
    assert raised.value is ILLEGAL
    assert subject.pauses_ms == [100]


def test_a_call_that_fails_for_the_whole_limit_ends_with_its_last_failure() -> None:
    subject = Subject(limit_ms=1_000)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT\] No successful response from a for 11") as raised:
        subject.retry_until_success(LOST)
    assert raised.value.__cause__ is LOST
    assert subject.clock() == 1_100


class Attempts:
    """Outcomes of keys by attempt, the last of which stay; each key is its own subject."""

    def __init__(self, subject: Subject, **outcomes: list[RocketMQError | None]) -> None:
        self.made: list[list[str]] = []
        self._outcomes = outcomes
        self.rounds = subject.failures.retry_each(tuple(outcomes), self._attempt, lambda key: (key, "T"), subject.sleep)

    def _attempt(self, keys: Collection[str]) -> dict[str, RocketMQError]:
        self.made.append(list(keys))
        outcomes = {key: self._outcomes[key][min(len(self.made), len(self._outcomes[key])) - 1] for key in keys}
        return {key: error for key, error in outcomes.items() if error is not None}


def test_keys_that_failed_are_retried_together_until_none_is_left() -> None:
    subject = Subject()
    attempts = Attempts(subject, a=[None], b=[LOST, LOST, None], c=[LOST, ILLEGAL], d=[LOST, None])
    assert list(attempts.rounds) == [({}, ["b", "c", "d"]), ({"c": ILLEGAL}, ["b"]), ({}, [])]
    assert attempts.made == [["a", "b", "c", "d"], ["b", "c", "d"], ["b"]]
    assert subject.pauses_ms == [100, 200]


def test_each_key_ends_with_the_error_of_its_own_limit() -> None:
    subject = Subject(limit_ms=700, unserved_ms=300)
    rounds = list(Attempts(subject, a=[LOST], b=[MISSING]).rounds)
    ended = [
        (number, key, error.condition) for number, (errors, _) in enumerate(rounds) for key, error in errors.items()
    ]
    assert ended == [(2, "b", "TOPIC_NOT_FOUND"), (3, "a", "CLUSTER_TIMEOUT")]
    assert subject.pauses_ms == [100, 200, 400]


def test_success_of_one_key_comes_before_failures_of_others() -> None:
    """A failure restarted an outage of the name servers that another key's route had ended, by the order of keys."""
    subject = Subject(limit_ms=1_000)
    assert subject.record_failure(UNROUTED, at_ms=0) is None
    subject.clock.advance(5_000)
    assert next(Attempts(subject, a=[UNROUTED], b=[None]).rounds) == ({}, ["a"])


def test_without_keys_nothing_is_attempted() -> None:
    attempts = Attempts(Subject())
    assert (list(attempts.rounds), attempts.made) == ([], [])


def test_a_caller_that_stops_early_causes_no_further_attempt() -> None:
    attempts = Attempts(Subject(), a=[LOST], b=[None])
    for _, pending in attempts.rounds:
        assert pending == ["a"]
        break
    assert attempts.made == [["a", "b"]]


def test_outages_are_logged_when_they_last_and_when_they_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert Subject(limit_ms=10_000).retry_until_success(*[LOST] * 6, None) == 7
    begun, over = caplog.messages
    assert outage_text(begun).startswith("Waiting for a (fails in 9 s): [ROCKETMQ_CONNECTION_LOST] ")
    assert over == "CONNECTION_LOST: Recovered after 1.9 s: a"


@pytest.mark.parametrize(("error", "limit_ms"), [(LOST, 2_000), (MISSING, 1_000)])
def test_what_no_broker_serves_has_a_limit_of_its_own(error: RocketMQError, limit_ms: int) -> None:
    subject = Subject(limit_ms=2_000, unserved_ms=1_000)
    assert subject.record_failure(error, at_ms=0) is None
    assert subject.record_failure(error, at_ms=limit_ms - 1) is None
    assert subject.record_failure(error, at_ms=limit_ms) is not None


def test_each_subject_has_its_own_time() -> None:
    subject = Subject(limit_ms=1_000)
    assert subject.record_failure(LOST, at_ms=0) is None
    assert subject.record_failure(LOST, at_ms=1_000) is not None
    assert subject.record_failure(LOST, at_ms=1_000, subject="b") is None, "a's time is not b's"
    assert subject.record_failure(LOST, at_ms=1_999, subject="b") is None
    assert subject.record_failure(LOST, at_ms=2_000, subject="b") is not None


def test_a_success_begins_the_time_again() -> None:
    subject = Subject(limit_ms=1_000)
    assert subject.record_failure(LOST, at_ms=0) is None
    subject.failures.record_success("a", "T")
    assert subject.record_failure(LOST, at_ms=900) is None
    assert subject.record_failure(LOST, at_ms=1_899) is None
    assert subject.record_failure(LOST, at_ms=1_900) is not None


def test_name_servers_that_are_unresponsive_for_the_limit_are_what_it_ends_with() -> None:
    subject = Subject(limit_ms=1_000)
    assert subject.record_failure(UNROUTED, at_ms=0) is None
    over = subject.record_failure(UNROUTED, at_ms=1_000, subject="b")
    assert over is not None
    assert over.context["subject"] == "the name servers"


def test_a_subject_s_time_begins_when_a_name_server_responds() -> None:
    subject = Subject(unserved_ms=1_000)
    assert subject.record_failure(MISSING, at_ms=0) is None
    assert subject.record_failure(UNROUTED, at_ms=900) is None
    assert subject.record_failure(UNROUTED, at_ms=5_000) is None
    assert subject.record_failure(MISSING, at_ms=5_000) is None
    assert subject.record_failure(MISSING, at_ms=5_999) is None
    assert subject.record_failure(MISSING, at_ms=6_000) is MISSING


@pytest.mark.parametrize("failure", [MISSING, LOST])
def test_flapping_name_servers_do_not_extend_the_limit_endlessly(failure: RocketMQError) -> None:
    """A caller meets the one failure and then the other, each time."""
    subject, at_ms = Subject(limit_ms=1_000, unserved_ms=1_000), 0
    over: RocketMQError | None = None
    while over is None and at_ms < 3_400:
        for error in (failure, UNROUTED):
            at_ms += 100
            over = over or subject.record_failure(error, at_ms=at_ms)
    assert over is not None
    assert at_ms >= 3_000, "one outage of the name servers counts for nothing"


def record_route(subject: Subject) -> None:
    subject.failures.record_success("a", "T")


def failing_otherwise(subject: Subject) -> None:
    subject.failures.record_failure("a", "T", LOST)


@pytest.mark.parametrize("report", [record_route, failing_otherwise])
def test_name_servers_respond_again_once_a_topic_that_lacked_a_route_has_one(report: Callable[[Subject], None]) -> None:
    subject = Subject(limit_ms=1_000)
    subject.record_failure(UNROUTED, at_ms=0)
    subject.clock.advance(900)
    report(subject)
    assert subject.record_failure(UNROUTED, at_ms=1_800) is None, "an outage of its own"
    assert subject.record_failure(UNROUTED, at_ms=2_800) is not None


def test_a_route_that_was_known_before_shows_nothing_of_name_servers() -> None:
    subject = Subject(limit_ms=1_000)
    subject.record_failure(UNROUTED, at_ms=0)
    subject.failures.record_success("a", "KNOWN")
    subject.failures.record_failure("a", "KNOWN", LOST)
    assert subject.record_failure(UNROUTED, at_ms=1_000) is not None


def test_a_server_that_is_tried_without_a_route_is_exempted_while_name_servers_are_unresponsive() -> None:
    subject = Subject(limit_ms=1_000)
    subject.record_failure(UNROUTED, at_ms=0)
    for at_ms in (100, 900, 1_800):
        subject.clock.advance(at_ms - subject.clock())
        assert subject.failures.record_failure("a", None, LOST) is None
        assert subject.failures.are_name_servers_unresponsive
    subject.failures.record_route("T")
    assert not subject.failures.are_name_servers_unresponsive
    subject.clock.advance(999)
    assert subject.failures.record_failure("a", None, LOST) is None
    subject.clock.advance(1)
    assert subject.failures.record_failure("a", None, LOST) is not None


class Notes:
    """What attempts before have noted, and what this one does."""

    def __init__(self, since_ms: int | None) -> None:
        self._since_ms = since_ms
        self.noted: list[int | str] = []

    def since_ms(self, now_ms: int) -> int | None:
        return self._since_ms

    def record(self, since_ms: int) -> None:
        self.noted.append(since_ms)

    def clear(self) -> None:
        self.noted.append("answered")


def test_what_others_have_waited_counts_until_something_succeeds() -> None:
    notes, clock = Notes(100), ManualClock(1_000)
    failures = Failures(Policy(retryability_of_write, Pauses(100, 400), 1_000, 1_000), clock, lambda _: notes)
    assert failures.record_failure("a", "T", LOST) is None
    clock.advance(100)
    assert failures.record_failure("a", "T", LOST) is not None
    assert notes.noted == [100]
    failures.record_success("a", "T")
    failures.record_success("a", "T")
    assert notes.noted[1:] == ["answered"]
    assert failures.record_failure("a", "T", LOST) is None
    clock.advance(1_000)
    assert failures.record_failure("a", "T", LOST) is not None
    assert notes.noted[2:] == [1_100], "its own time"
