"""What becomes of a message that is sent back by its handle, by what its server answers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from connector_tests.support.log_lines import outage_text
from connector_tests.support.refusals import refused
from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.failed_rows import pop_send_back_client
from rocketmq_spark.failed_rows.pop_send_back_client import (
    LEVELS_S,
    NO_HANDLE,
    UNKNOWN,
    FailedMessage,
    PopSendBackClient,
    delay_ms,
)
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, ReceiptHandle
from rocketmq_spark.pop.remoting_transport import RemotingTransport
from rocketmq_spark.pop.transport import ChangeOutcome
from rocketmq_spark.wire.remoting.codes import ResponseCode

GIVEN = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
HANDLE = "0 1795445135749 60000 3 0 broker-a 0 7 4711"
UNRESPONSIVE = TransportError("RESPONSE_TIMED_OUT", address="a:1", request="CHANGE", timeout_ms=1, opaque=1)
MISSING = RouteError("TOPIC_NOT_FOUND", topic="T", address="n:9876")
LOST_ROUTE = RouteError("TOPIC_UNAVAILABLE.NO_ROUTE", topic="T", address="n:9876", brokers="broker-a (a:1)")
FORBIDDEN = refused(ResponseCode.NO_PERMISSION)
Called = tuple[ReceiptHandle, int, bool]


@dataclass
class Server(RemotingTransport):
    """Answers by ``response``."""

    response: Callable[[ReceiptHandle], ChangeOutcome]
    submitted: list[Called] = field(default_factory=list)
    closed_count: int = 0

    def change_invisible_duration(
        self, handles: Sequence[ReceiptHandle], invisible_ms: int, *, suspend: bool
    ) -> list[ChangeOutcome]:
        self.submitted += [(handle, invisible_ms, suspend) for handle in handles]
        return [self.response(handle) for handle in handles]

    def close(self) -> None:
        self.closed_count += 1


def message(handle: str | None = HANDLE, *, times: int = 0, msg_id: str = "ID") -> FailedMessage:
    return FailedMessage("T", "broker-a", handle, msg_id, times)


def problems(
    server: Server, *messages: FailedMessage, level: int = 0, limit_ms: int = 1_000, **given: str
) -> list[str | None]:
    options = ReadOptions.parse(GIVEN | {"clusterTimeoutMs": str(limit_ms)} | given)
    return PopSendBackClient(options, level, lambda _: server).try_send_back_all(messages)


def same(handle: ReceiptHandle) -> ChangeOutcome:
    return handle


def offsets(server: Server) -> list[tuple[int, int]]:
    """Of each request, the message's offset and its delay."""
    return [(handle.offset, ms) for handle, ms, _ in server.submitted if isinstance(handle, BrokerHandle)]


def test_a_message_is_invisible_for_its_delay_and_that_counts_as_an_attempt() -> None:
    server = Server(same)
    assert problems(server, message(times=2)) == [None]
    ((handle, delay_ms, suspend),) = server.submitted
    assert (handle.text, delay_ms, suspend) == (HANDLE.rpartition(" ")[0], 60_000, False)
    assert server.closed_count == 1


def test_messages_of_the_same_delay_are_in_flight_together() -> None:
    server = Server(same)
    handles = [HANDLE.replace(" 7 ", f" {offset} ") for offset in (7, 8, 9)]
    found = problems(server, message(handles[0], times=1), message(handles[1]), message(handles[2], times=1))
    assert found == [None] * 3
    assert offsets(server) == [(7, 30_000), (9, 30_000), (8, 10_000)]


def test_a_handle_whose_time_is_over_is_made_new_once() -> None:
    """The query may have renewed it, of which nobody here knows."""
    now_ms = int(time.time() * 1000)

    def response(handle: ReceiptHandle) -> ChangeOutcome:
        assert isinstance(handle, BrokerHandle)
        return handle if handle.pop_check_point.pop_time_ms >= now_ms else None

    server = Server(response)
    assert problems(server, message()) == [None]
    assert offsets(server) == [(7, 10_000)] * 2
    missing = Server(lambda _: None)
    assert problems(missing, message()) == [UNKNOWN]
    assert len(missing.submitted) == 2


def test_a_row_without_a_handle_is_named_and_others_are_sent() -> None:
    server = Server(same)
    assert problems(server, message(None), message()) == [NO_HANDLE, None]


def test_row_without_a_handle_behind_a_proxy_is_redelivered_anyway() -> None:
    """Its producer set a ``POP_CK``. It is never acknowledged; it ended the query at each restart."""
    given = {name: value for name, value in GIVEN.items() if name != "namesrvAddr"}
    options, server = ReadOptions.parse(given | {"endpoints": "p:8081"}), Server(same)
    client = PopSendBackClient(options, 0, lambda _: server)
    assert client.try_send_back_all([message(None), message()]) == [None, None]
    assert offsets(server) == [(7, 10_000)]
    assert client.try_send_back_all([message(None)]) == [None]


def test_a_server_that_is_unresponsive_is_called_again_for_as_long_as_the_options_define() -> None:
    outcomes: list[RocketMQError | None] = [UNRESPONSIVE, UNRESPONSIVE, None]
    server = Server(lambda handle: outcomes.pop(0) or handle)
    assert problems(server, message()) == [None]
    unresponsive = Server(lambda _: UNRESPONSIVE)
    (problem,) = problems(unresponsive, message(), limit_ms=600)
    assert problem is not None
    assert "RESPONSE_TIMED_OUT" in problem
    assert 2 <= len(unresponsive.submitted) <= 4
    assert unresponsive.closed_count == len(unresponsive.submitted), "each attempt has connections of its own"


def test_topic_without_any_route_has_the_limit_of_missing_topics() -> None:
    """It had that of brokers, unlike a row that is sent back in queue mode."""
    outcomes: list[RocketMQError | None] = [MISSING, None]
    server = Server(lambda handle: outcomes.pop(0) or handle)
    (problem,) = problems(server, message(), missingTopicTimeoutMs="0")
    assert problem is not None
    assert "TOPIC_NOT_FOUND" in problem


@pytest.mark.parametrize("error", [LOST_ROUTE, FORBIDDEN], ids=str)
def test_topic_with_a_route_has_the_limit_of_brokers(error: RocketMQError) -> None:
    outcomes: list[RocketMQError | None] = [error, None]
    server = Server(lambda handle: outcomes.pop(0) or handle)
    assert problems(server, message(), limit_ms=300_000, missingTopicTimeoutMs="0") == [None]


def test_a_server_that_is_unresponsive_is_logged_and_so_is_its_return(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    outcomes: list[RocketMQError | None] = [UNRESPONSIVE] * 6 + [None]
    server = Server(lambda handle: outcomes.pop(0) or handle)
    assert problems(server, message(), limit_ms=10_000) == [None]
    begun, over = caplog.messages
    waiting = r"Waiting for broker broker-a \(fails in \d s\): \[ROCKETMQ_RESPONSE_TIMED_OUT\] .+"
    assert re.fullmatch(waiting, outage_text(begun))
    assert re.fullmatch(r"RESPONSE_TIMED_OUT: Recovered after [\d.]+ s: broker broker-a", over)


def test_what_another_attempt_would_not_change_is_not_tried_again() -> None:
    server = Server(lambda _: RocketMQError("SPOOL_DIR_UNUSABLE", folder="f", problem="final"))
    (problem,) = problems(server, message())
    assert problem is not None
    assert "final" in problem
    assert len(server.submitted) == 1


def test_of_messages_that_fail_together_only_those_are_tried_again() -> None:
    other = HANDLE.replace(" 7 ", " 8 ")
    reported: list[RocketMQError] = [UNRESPONSIVE]
    server = Server(lambda handle: reported.pop() if reported and handle.text.endswith(" 8") else handle)
    assert problems(server, message(), message(other)) == [None, None]
    assert [offset for offset, _ in offsets(server)] == [7, 8, 8]


def test_a_row_is_named_by_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(message()) == "ID of T@broker-a"
    monkeypatch.setattr(pop_send_back_client, "set_log_context", lambda *given, **more: spoken.append((given, more)))
    spoken: list[object] = []
    PopSendBackClient(ReadOptions.parse(GIVEN), 0).set_log_context(task="3")
    assert spoken == [(("INFO",), {"group": "g", "task": "3"})]


AS_BROKERS_NAME_THEM = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
SECONDS = {"s": 1, "m": 60, "h": 3_600}


def test_levels_are_those_of_brokers() -> None:
    assert list(LEVELS_S) == [int(level[:-1]) * SECONDS[level[-1]] for level in AS_BROKERS_NAME_THEM.split()]


def test_a_level_is_accepted_whatever_happened_before() -> None:
    assert [delay_ms(level, 7) for level in (1, 3, 18)] == [1_000, 10_000, 7_200_000]


def test_without_a_level_it_grows_with_each_time_as_for_javas_consumers() -> None:
    assert [delay_ms(0, times) for times in (0, 1, 2, 15)] == [10_000, 30_000, 60_000, 7_200_000]


@pytest.mark.parametrize("times", [-1, -5, -100, -(2**31)])
def test_negative_number_of_times_counts_as_none(times: int) -> None:
    """A broker stores it. With -100 it was an IndexError for all rows, with -5 a delay of 30 min."""
    assert delay_ms(0, times) == 10_000
    server = Server(same)
    assert problems(server, message(times=times), message(HANDLE.replace(" 7 ", " 8 "))) == [None, None]


def test_beyond_the_last_level_there_is_no_longer_one() -> None:
    assert (delay_ms(19, 0), delay_ms(0, 16)) == (7_200_000, 7_200_000)


def test_name_of_a_message_cuts_its_producers_id() -> None:
    assert len(str(message(msg_id="x" * 32_000))) < 300
