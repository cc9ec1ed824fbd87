"""Bodies of responses that only the doctor requests."""

from __future__ import annotations

import json

import pytest

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.body.inspection import (
    GroupSwitches,
    clock_ahead_ms,
    decode_clock,
    decode_group_switches,
)

UPTIME = "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"
UPTIME_MS = 93_784_000


def runtime_info(**table: str) -> bytes:
    return json.dumps({"table": table}).encode()


def test_a_clock_is_the_start_and_the_uptime() -> None:
    assert decode_clock(runtime_info(bootTimestamp="1000", runtime=UPTIME)) == 1000 + UPTIME_MS


@pytest.mark.parametrize(
    "table",
    [{}, {"bootTimestamp": "1"}, {"runtime": UPTIME}, {"bootTimestamp": "x", "runtime": UPTIME},
     {"bootTimestamp": "1", "runtime": "long"}],
)  # fmt: skip
def test_a_broker_that_does_not_report_both_has_no_clock(table: dict[str, str]) -> None:
    assert decode_clock(runtime_info(**table)) is None


@pytest.mark.parametrize(
    ("clock_ms", "ahead_ms"),
    [(5_000, 0), (5_100, 0), (5_101, 1), (9_100, 4_000), (4_000, 0), (3_999, -1), (1_000, -3_000)],
)
def test_a_clock_is_ahead_by_what_the_resolution_and_the_response_time_leave(clock_ms: int, ahead_ms: int) -> None:
    assert clock_ahead_ms(clock_ms, sent_ms=5_000, received_ms=5_100) == ahead_ms


def test_switches_of_a_group_are_decoded() -> None:
    body = b'{"consumeBroadcastEnable":false,"consumeEnable":true,"groupName":"g"}'
    assert decode_group_switches(body) == GroupSwitches(is_consume_enabled=True, is_broadcast_enabled=False)


@pytest.mark.parametrize("decode", [decode_clock, decode_group_switches])
def test_another_body_is_malformed(decode: object) -> None:
    assert callable(decode)
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY"):
        decode(b"{}")


@pytest.mark.parametrize("digits", [19, 4_300])
def test_a_clock_beyond_64_bits_is_the_brokers_error(digits: int) -> None:
    """The doctor could not format it, and ended with an error of Python's."""
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_RESPONSE\.BODY.*the clock has more than 64 bits"):
        decode_clock(runtime_info(bootTimestamp="9" * digits, runtime=UPTIME))
