"""Times in option values."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options.kinds import TIME, TIMES, Kind
from rocketmq_spark.options.queue_positions import QueuePositions
from rocketmq_spark.options.table import Option, Section
from rocketmq_spark.options.times import TimeWithoutZoneError, format_time, parse_duration, parse_time

NEW_YEAR_MS = 1_767_225_600_000


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("0", 0),
        (str(2**63 - 1), 2**63 - 1),
        ("1767225600000", NEW_YEAR_MS),
        ("2026-01-01T00:00:00Z", NEW_YEAR_MS),
        ("2026-01-01T01:30:00+01:30", NEW_YEAR_MS),
        ("2025-12-31 16:00-08:00", NEW_YEAR_MS),
        ("20260101T000000Z", NEW_YEAR_MS),
        ("2026-01-01T00:00:00.001Z", NEW_YEAR_MS + 1),
        ("2026-01-01T00:00:00,5Z", NEW_YEAR_MS + 500),
        ("1970-01-01T00:00:00Z", 0),
        ("20260101", 20_260_101),
    ],
)
def test_time_is_a_number_of_ms_or_iso_8601_with_a_zone(text: str, time_ms: int) -> None:
    assert parse_time(text) == time_ms


def test_time_between_two_milliseconds_is_the_later_one() -> None:
    assert parse_time("2026-01-01T00:00:00.000001Z") == NEW_YEAR_MS + 1
    assert parse_time("2026-01-01T00:00:00.000999Z") == NEW_YEAR_MS + 1


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00", "20260101T00", "2026-W01-1"])
def test_time_without_a_zone_is_refused_as_such(text: str) -> None:
    with pytest.raises(TimeWithoutZoneError):
        parse_time(text)


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", "1.0", "1e12", "1_000", "\u0661", str(2**63), "9" * 5_000, "yesterday", "00:00Z",
     "2026-13-01T00:00Z", "1969-12-31T23:59:59Z", "2026-01-01T00:00:00 Europe/Berlin", "2026-01-01T00:00:60Z"],
)  # fmt: skip
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_time(text)
    assert not isinstance(raised.value, TimeWithoutZoneError)


def test_time_is_shown_in_utc() -> None:
    assert format_time(NEW_YEAR_MS + 7) == "2026-01-01T00:00:00.007Z"
    assert parse_time(format_time(1_767_225_600)) == 1_767_225_600


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("15m", 900_000), ("0", 0), ("500", 500), ("500MS", 500), ("7s", 7_000), ("2min", 120_000), ("3h", 10_800_000),
     ("1d", 86_400_000), (str(2**63 - 1), 2**63 - 1)],
)  # fmt: skip
def test_duration_has_a_unit_of_spark(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "m", "-1s", "1.5m", "1 m", "1w", "1us", "15 minutes", f"{2**63 - 1}s", "\u0661s"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)


def test_times_by_topic_and_queue_are_numbers_or_iso_8601() -> None:
    parsed = TIMES.parse('{"t":"2026-01-01T00:00:00Z","u":5,"v":"7"}')
    assert parsed == QueuePositions(topics=(("t", NEW_YEAR_MS), ("u", 5), ("v", 7)))


@pytest.mark.parametrize(
    ("kind", "text", "time"),
    [(TIME, " 2026-01-01T00:00 ", "2026-01-01T00:00"), (TIMES, '{"t":"2026-01-01"}', '{"t":"2026-01-01"}')],
)
def test_missing_zone_is_an_error_that_names_it(kind: Kind[Any], text: str, time: str) -> None:
    row = Option("startingTimestamp", kind, "doc", Section.START)
    with pytest.raises(OptionError) as raised:
        row.parse(text)
    assert str(raised.value) == (
        f"[ROCKETMQ_TIME_WITHOUT_ZONE] Time without a zone in 'startingTimestamp': {time}. "
        "Append 'Z' for UTC, or the offset of the zone, for example '+01:00'."
    )
    assert raised.value.__cause__ is raised.value.__context__ is None
