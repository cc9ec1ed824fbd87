"""What does not answer: since when, for how long it may, and what of that is said."""

from __future__ import annotations

import threading

import pytest

from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceivedMessage
from rocketmq_spark.pop.receive_failures import AWAIT_POLL_AFTER_MS, ReceiveFailures
from rocketmq_spark.pop.receive_scheduler import Target
from rocketmq_spark.pop.transport import IncompleteResponse, ReceiveOutcome
from rocketmq_spark.wire.remoting.codes import ResponseCode

UNRESPONSIVE = TransportError("RESPONSE_TIMED_OUT", address="a:10911", request="POP_MESSAGE", timeout_ms=3_000)
UNFOUND = TransportError("NAME_SERVERS_UNAVAILABLE", topic="T", addresses="n:9876", cause="silent")
UNCONVERTIBLE = BrokerError(
    "PROXY_UNAVAILABLE", address="p:8081", request="ReceiveMessage", code=50001, code_name="X", remark="no number"
)
MISSING = RouteError("TOPIC_NOT_FOUND", topic="T", address="n:9876")
OPTIONS = ReadOptions.parse(
    {
        "namesrvAddr": "n:9876",
        "consumerGroup": "g",
        "subscribe": "T,U",
        "loadBalance": "message",
        "clusterTimeoutMs": "60000",
        "missingTopicTimeoutMs": "90000",
    }
)


class Scenario:
    """Troubles by a clock that stands still."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.probes = 0
        self.receive_failures = ReceiveFailures(OPTIONS, threading.Condition(), self._refresh_soon, self.clock)

    def _refresh_soon(self) -> None:
        self.probes += 1

    def outages(self) -> dict[str, int]:
        """What is waited for, and until when."""
        return {
            wait.resource: wait.until_ms - wait.since_ms
            for wait in self.receive_failures.outages
            if wait.until_ms is not None
        }


@pytest.fixture
def scenario() -> Scenario:
    return Scenario()


def test_a_broker_that_fails_is_called_after_a_pause_and_others_at_once(scenario: Scenario) -> None:
    scenario.receive_failures.record_outcome("a", UNRESPONSIVE)
    assert (scenario.receive_failures.may_send("a"), scenario.receive_failures.may_send("b")) == (False, True)
    assert (scenario.receive_failures.is_failing("a"), scenario.receive_failures.is_failing("b")) == (True, False)
    scenario.clock.advance(1_000)
    assert scenario.receive_failures.may_send("a")
    scenario.receive_failures.record_outcome("a", None)
    assert not scenario.receive_failures.is_failing("a")
    assert scenario.probes == 1, "it may be elsewhere"


def test_response_that_a_proxy_cannot_convert_delays_polls_of_its_target_only(scenario: Scenario) -> None:
    """It was a failure of the broker: a producer's messages stopped acknowledgements and extensions of true ones."""
    failures, target, other = scenario.receive_failures, Target("T", "a"), Target("U", "a")
    failures.record_outcome("a", UNRESPONSIVE)
    failures.record_poll(target, IncompleteResponse((), UNCONVERTIBLE))
    assert (failures.may_send("a"), failures.is_failing("a")) == (True, False), "the broker has responded"
    assert (failures.may_receive(target), failures.may_receive(other)) == (False, True)
    assert scenario.outages() == {"convertible messages of topic T at broker a": 60_000}
    scenario.clock.advance(1_000)
    assert failures.may_receive(target)
    failures.record_poll(target, ())
    assert scenario.outages() == {}


@pytest.mark.parametrize("outcome", [UNRESPONSIVE, IncompleteResponse((), UNCONVERTIBLE)])
def test_target_awaits_poll_after_a_failed_one(scenario: Scenario, outcome: ReceiveOutcome) -> None:
    failures, target, other = scenario.receive_failures, Target("T", "a"), Target("U", "a")
    failures.record_poll(target, outcome)
    assert (failures.awaits_poll(target), failures.awaits_poll(other)) == (True, False)
    failures.record_poll(target, ())
    assert not failures.awaits_poll(target)


def test_target_awaits_poll_if_other_requests_do_not_end_the_failure_of_its_broker(scenario: Scenario) -> None:
    """Each failed extension added a message beyond the limit. Without any, the failure of one whose messages have all
    expired would end the query."""
    failures, target = scenario.receive_failures, Target("T", "a")
    failures.record_poll(target, ())
    failures.record_outcome("a", UNRESPONSIVE)
    scenario.clock.advance(AWAIT_POLL_AFTER_MS - 1)
    assert not failures.awaits_poll(target)
    scenario.clock.advance(1)
    assert (failures.awaits_poll(target), failures.awaits_poll(Target("T", "b"))) == (True, False)


def test_poll_that_ended_by_a_bug_ends_the_query(scenario: Scenario) -> None:
    """It counted as a success of the broker, had it come this far."""
    scenario.receive_failures.record_outcome("a", UNRESPONSIVE)
    scenario.receive_failures.record_poll(Target("T", "a"), error := LookupError("by the test"))
    assert scenario.receive_failures.is_failing("a")
    with pytest.raises(LookupError) as raised:
        scenario.receive_failures.raise_failure()
    assert raised.value is error


def test_converted_messages_end_the_failure_to_convert(scenario: Scenario) -> None:
    failures, target = scenario.receive_failures, Target("T", "a")
    failures.record_poll(target, IncompleteResponse((), UNCONVERTIBLE))
    failures.record_poll(target, UNRESPONSIVE)
    assert len(scenario.outages()) == 2
    handle = BrokerHandle.parse("T", "0 1795445135749 60000 3 0 a 0 0")
    failures.record_poll(target, IncompleteResponse([ReceivedMessage(handle, memoryview(b""))], UNCONVERTIBLE))
    assert scenario.outages() == {}


def test_target_that_left_the_route_is_no_failure_to_convert(scenario: Scenario) -> None:
    failures, removed, kept = scenario.receive_failures, Target("T", "a"), Target("T", "b")
    for target in (removed, kept):
        failures.record_poll(target, IncompleteResponse((), UNCONVERTIBLE))
    failures.retain_targets([kept])
    assert scenario.outages().keys() == {"convertible messages of topic T at broker b"}


def test_a_broker_that_reports_that_it_has_too_much_is_the_right_one(scenario: Scenario) -> None:
    busy = BrokerError("BROKER_ERROR", code=ResponseCode.FLOW_CONTROL, address="a", request="POP_MESSAGE", remark="")
    scenario.receive_failures.record_outcome("a", busy)
    assert (scenario.probes, scenario.receive_failures.is_failing("a")) == (0, True)


def test_where_no_name_server_reports_where_a_broker_is_it_is_these_that_are_waited_for(scenario: Scenario) -> None:
    scenario.receive_failures.record_outcome("a", UNFOUND)
    assert scenario.outages() == {"the name servers": 60_000}
    assert scenario.receive_failures.is_failing("a"), "nobody can ask it"
    assert not scenario.receive_failures.may_refresh_routes()
    assert list(map(str, scenario.receive_failures.take_lines())) == [
        f"{UNFOUND.condition}: Waiting for the name servers (fails in 60 s): {UNFOUND}"
    ]


def test_a_probe_reports_the_state_of_each_topic_unless_no_name_server_responds(scenario: Scenario) -> None:
    scenario.receive_failures.record_route_refresh({"T": MISSING})
    assert scenario.outages() == {"topic T": 90_000}
    scenario.receive_failures.record_route_refresh({"T": UNFOUND, "U": UNFOUND})
    assert scenario.outages() == {"topic T": 90_000, "the name servers": 60_000}
    scenario.receive_failures.record_route_refresh({"U": MISSING})
    assert scenario.outages() == {"topic U": 90_000}
    scenario.receive_failures.record_route_refresh({})
    assert (scenario.outages(), scenario.receive_failures.may_refresh_routes()) == ({}, True)


def test_a_topic_that_had_a_route_is_waited_for_as_its_brokers_are(scenario: Scenario) -> None:
    unavailable = RouteError("TOPIC_UNAVAILABLE.NO_ROUTE", topic="T", address="n:9876", brokers="a (a:10911)")
    scenario.receive_failures.record_route_refresh({"T": unavailable})
    assert scenario.outages() == {"topic T": 60_000}


def test_static_topic_has_the_limit_of_missing_topics(scenario: Scenario) -> None:
    """It had that of brokers, unlike the same topic in queue mode, and unlike the page of limitations."""
    scenario.receive_failures.record_route_refresh({"T": RouteError("STATIC_TOPIC_NOT_SUPPORTED", topic="T")})
    assert scenario.outages() == {"topic T": 90_000}


def test_unreadable_topic_has_the_limit_of_brokers(scenario: Scenario) -> None:
    """It has a route. A query that was reading it would otherwise end after a minute."""
    unreadable = RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic="T")
    scenario.receive_failures.record_route_refresh({"T": unreadable})
    assert scenario.outages() == {"topic T": 60_000}


@pytest.mark.parametrize(
    "code", [ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST, ResponseCode.INVALID_PARAMETER]
)
def test_refused_poll_has_the_limit_of_brokers_and_is_raised_itself(scenario: Scenario, code: ResponseCode) -> None:
    refusal = BrokerError("BROKER_ERROR", code=code, address="a", request="POP_MESSAGE", code_name="X", remark="")
    scenario.receive_failures.record_poll(Target("T", "a"), refusal)
    assert scenario.outages() == {"broker a": 60_000}
    scenario.clock.advance(60_000)
    with pytest.raises(BrokerError) as raised:
        scenario.receive_failures.raise_failure()
    assert raised.value is refusal


def test_what_lasts_too_long_is_raised(scenario: Scenario) -> None:
    scenario.receive_failures.record_outcome("a", UNRESPONSIVE)
    scenario.clock.advance(59_999)
    scenario.receive_failures.raise_failure()
    scenario.clock.advance(1)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*No successful response from broker a for 60000 ms"):
        scenario.receive_failures.raise_failure()


def test_what_cannot_pass_is_raised_at_once_and_nothing_else_is_logged(scenario: Scenario) -> None:
    final = BrokerError("BROKER_ERROR", code=ResponseCode.NO_BUYER_ID, address="a", request="POP_MESSAGE", remark="")
    scenario.receive_failures.record_outcome("a", final)
    scenario.receive_failures.fail(LookupError("later"))
    with pytest.raises(RocketMQError) as raised:
        scenario.receive_failures.raise_failure()
    assert raised.value is final
    assert scenario.receive_failures.has_fatal_error
    assert scenario.receive_failures.take_lines() == []
