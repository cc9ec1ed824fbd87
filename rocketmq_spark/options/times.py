"""Times and durations in option values."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_LOCAL_TIME: Final = re.compile(r"(19|2[0-9])[0-9]{12}")
_DURATION: Final = re.compile(r"([0-9]{1,19})([a-z]*)")
UNITS_MS: Final = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
MAX_TIME_MS: Final = 2**63 - 1


class TimeWithoutZoneError(ValueError):
    """The text is an ISO-8601 time, but has no zone."""


def parse_time(text: str) -> int:
    """Return the epoch ms of ``text``, a number of ms or an ISO-8601 time with a zone. A time between two milliseconds
    counts as the later one: a message stored then or later has at least its timestamp.

    Only digits are a number of ms, although ISO-8601 allows dates such as 20260131. Raises TimeWithoutZoneError for a
    time without a zone, and ValueError for any other text, for times before 1970, and above MAX_TIME_MS.
    """
    if _DIGITS.fullmatch(text):
        return _in_range(int(text))
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise TimeWithoutZoneError
    return _in_range(-((EPOCH - time) // _MILLISECOND))


def parse_duration(text: str) -> int:
    """Return the ms of a duration as Spark writes it: an integer from 0 on with a unit of ``UNITS_MS`` in any case.
    Without a unit it is in ms. Raises ValueError for any other text, and above MAX_TIME_MS.

    As Spark's ``JavaUtils.timeStringAs``, but for microseconds.
    """
    match = _DURATION.fullmatch(text.lower())
    if match is None or match[2] not in UNITS_MS:
        raise ValueError
    return _in_range(int(match[1]) * UNITS_MS[match[2]])


def parse_local_time(text: str) -> int:
    """Return the epoch ms of a time ``yyyyMMddHHmmss`` of the years 1900 to 2999 in this machine's time zone, as
    RocketMQ does; negative before 1970. Raises ValueError for any other text."""
    if not _LOCAL_TIME.fullmatch(text):
        raise ValueError
    return int(datetime.strptime(text, "%Y%m%d%H%M%S").astimezone().timestamp() * 1000)


def _in_range(time_ms: int) -> int:
    """Return ``time_ms`` unchanged. Raises ValueError unless it is 0 to MAX_TIME_MS."""
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise ValueError
    return time_ms


def format_time(time_ms: int) -> str:
    """Return the time (epoch ms, before the year 10000) in UTC, with milliseconds: ``2026-01-31T12:00:00.000Z``."""
    return (EPOCH + time_ms * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")
