"""State of brokers and groups that operators' tools show: the doctor reads it.

Source: ``remoting/protocol/body/KVTable.java``, ``remoting/protocol/subscription/SubscriptionGroupConfig.java``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rocketmq_spark.wire.body.decoding import decode_body
from rocketmq_spark.wire.remoting.typed import Object, as_int64, flag, table

CLOCK_STEP_MS: Final = 1_000
"""Resolution of the uptime that a broker reports, rounded down."""

_UPTIME: Final = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")
_UNIT_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


class GroupSwitches(NamedTuple):
    """Whether a broker lets a group consume, and consume with broadcasting."""

    is_consume_enabled: bool
    is_broadcast_enabled: bool


def decode_clock(body: bytes | memoryview) -> int | None:
    """Decode the response to GET_BROKER_RUNTIME_INFO: the broker's clock (Unix ms), up to ``CLOCK_STEP_MS`` too small.
    Return None if the broker reports no start or uptime. Raises RemoteProtocolError[MALFORMED_RESPONSE.BODY]."""
    return decode_body("runtime info", body, lambda info: _clock_ms(table(info, "table")))


def _clock_ms(info: Object) -> int | None:
    """Return the sum of start and uptime, the broker's clock in Unix ms, or None if one is missing or malformed. Raises
    ValueError for a sum of more than 64 bits. Source: ``store/StoreStatsService.java#getFormatRuntime``."""
    started, uptime = info.get("bootTimestamp"), _UPTIME.fullmatch(str(info.get("runtime")))
    if not isinstance(started, str) or not started.isdecimal() or uptime is None:
        return None
    uptime_ms = sum(int(count) * unit for count, unit in zip(uptime.groups(), _UNIT_MS, strict=True))
    return as_int64(int(started) + uptime_ms, "the clock")


def clock_ahead_ms(clock_ms: int, sent_ms: int, received_ms: int) -> int:
    """Return by how many ms, at least, a broker's clock is ahead of this machine's. The number is negative if it is
    behind, and 0 if both may be equal.

    ``clock_ms``: as ``decode_clock`` returns it. ``sent_ms``, ``received_ms``: times of request and response, by this
    machine's clock.
    """
    if clock_ms > received_ms:
        return clock_ms - received_ms
    return min(0, clock_ms + CLOCK_STEP_MS - sent_ms)


def decode_group_switches(body: bytes | memoryview) -> GroupSwitches:
    """Decode ``consumeEnable`` and ``consumeBroadcastEnable`` in the response to GET_SUBSCRIPTIONGROUP_CONFIG. Raises
    RemoteProtocolError[MALFORMED_RESPONSE.BODY], also if one is missing."""
    return decode_body(
        "group settings",
        body,
        lambda group: GroupSwitches(flag(group, "consumeEnable"), flag(group, "consumeBroadcastEnable")),
    )
