"""Warning of times in options that are probably in seconds instead of milliseconds. Pure."""

from __future__ import annotations

import logging
from typing import Final

from rocketmq_spark.options import RangeReadOptions
from rocketmq_spark.options.kinds import TIME, TIMES
from rocketmq_spark.options.queue_positions import QueuePositions
from rocketmq_spark.options.table import rows
from rocketmq_spark.options.times import format_time

log = logging.getLogger(__name__)

YEAR_1980_MS: Final = 315_532_800_000


def early_times(options: RangeReadOptions) -> dict[str, int]:
    """Return, by option name, the earliest time (epoch ms) of each option that has times after 0 and before 1980."""
    found: dict[str, int] = {}
    for attribute, row in rows(type(options)):
        value = getattr(options, attribute) if row.kind in (TIME, TIMES) else None
        times_ms = value.values() if isinstance(value, QueuePositions) else [value or 0]
        early_ms = [time_ms for time_ms in times_ms if 0 < time_ms < YEAR_1980_MS]
        if early_ms:
            found[row.name] = min(early_ms)
    return found


def warn_of_early_times(options: RangeReadOptions) -> None:
    """Log ``early_times`` as one warning; nothing if there are none."""
    if found := early_times(options):
        log.warning(
            "TIMESTAMP_TOO_EARLY: %s. A number without a zone is in milliseconds since 1970-01-01 UTC: multiply "
            "seconds by 1000, or write the time as ISO-8601 with a zone",
            ", ".join(f"'{name}' is {format_time(time_ms)}" for name, time_ms in found.items()),
        )
