"""A group that a proxy does not know: it may have been told of it a moment later, so the query waits, and states it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

from connector_tests.support.log_lines import outage_text
from connector_tests.support.scripted_proxy import OK, Ended, ScriptedProxy
from connector_tests.support.streams import eventually
from rocketmq_spark.errors import BrokerError, RocketMQError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receiver import Receiver
from rocketmq_spark.pop.transports import transport_of
from rocketmq_spark.wire.grpc import messaging_pb2 as pb

pytestmark = pytest.mark.usefixtures("grpc_library")

REMARK = "process client telemetryCommand failed. group not found: g"


def no_group(_: object) -> object:
    raise Ended(grpc.StatusCode.INVALID_ARGUMENT, REMARK)


@pytest.fixture
def proxy() -> Iterator[ScriptedProxy]:
    """One that does not know the group."""
    with ScriptedProxy() as proxy:
        proxy.handlers_by_method["Telemetry"] = no_group
        yield proxy


@contextmanager
def receiving(proxy: ScriptedProxy, **more: str) -> Iterator[Receiver]:
    given = {"endpoints": proxy.address, "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
    options = ReadOptions.parse({**given, **more})
    one = Receiver(options, transport_of(options))
    one.start()
    try:
        yield one
    finally:
        one.stop()


def result(proxy: ScriptedProxy) -> str:
    """The whole message."""
    return (
        f"[ROCKETMQ_GROUP_NOT_FOUND.PROXY] Proxy {proxy.address} rejected Telemetry: no broker has the consumer "
        f"group. {REMARK}. Create it on every broker of the topics, 'mqadmin updateSubGroup -g <group> -c "
        "<cluster>', or start these brokers, within 'missingTopicTimeoutMs'."
    )


def test_it_is_waited_for_and_logged_and_then_it_is_read(
    proxy: ScriptedProxy, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving(proxy) as one:
        eventually(lambda: any("Waiting" in line.getMessage() for line in caplog.records), "a line")
        (wait,) = one.outages
        assert (wait.resource, wait.reason) == ("topic T", result(proxy))
        assert wait.until_ms == wait.since_ms + 60_000
        one.check()
        proxy.handlers_by_method["Telemetry"] = lambda request: [
            pb.TelemetryCommand(status=OK, settings=request.settings)
        ]
        eventually(lambda: one.have_all_responded, "an answer")
        assert one.outages == ()
    lines = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    assert re.fullmatch(rf"Waiting for topic T \(fails in \d+ s\): {re.escape(result(proxy))}", outage_text(lines[0]))


def test_one_that_stays_unknown_is_an_error_when_the_time_of_a_missing_topic_is_over(proxy: ScriptedProxy) -> None:
    def is_over(one: Receiver) -> bool:
        try:
            one.check()
        except RocketMQError as error:
            assert isinstance(error, BrokerError)
            assert str(error) == result(proxy)
            return True
        return False

    with receiving(proxy, missingTopicTimeoutMs="300") as one:
        eventually(lambda: is_over(one), "an end")
