"""LagReport: the lag of groups as a command prints it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rocketmq_spark.cli.text_table import age_text, text_table
from rocketmq_spark.condition import one_line
from rocketmq_spark.inspection.rows import GroupRow

HEADER: Final = ("topic", "broker", "queue", "committed", "next", "lag", "oldest")
UNKNOWN: Final = "unknown"


class GroupLag(NamedTuple):
    """Unread messages of a group, and the age of the oldest in ms, or None if no age of a queue with lag is known."""

    lag: int
    lag_ms: int | None


@dataclass(frozen=True)
class LagReport:
    """Rows of groups, in order. ``groups``: those that were requested. ``unavailable``: error by name of each broker
    whose queues are missing."""

    rows: Sequence[GroupRow]
    groups: Sequence[str] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def by_group(self) -> dict[str, list[GroupRow]]:
        """Return the rows of each group, in order; the requested groups come first, [] for those without rows."""
        found: dict[str, list[GroupRow]] = {group: [] for group in self.groups}
        for row in self.rows:
            found.setdefault(row.consumer_group, []).append(row)
        return found

    def max_lag(self) -> int:
        """Return the largest lag of a group, in messages; 0 without groups."""
        return max((total_of(rows).lag for rows in self.by_group().values()), default=0)

    def to_text(self) -> str:
        """Return a table of each group, its total in the last line, separated by empty lines; "" without groups."""
        return "\n\n".join(self._group_text(group, rows) for group, rows in self.by_group().items())

    def to_json(self) -> str:
        """Return the groups, their queues and the unavailable brokers as one JSON object on one line; times in ms.
        ``lag`` and ``lagMs`` of each group are null if any broker is unavailable."""
        groups = []
        for group, rows in self.by_group().items():
            lag, lag_ms = (None, None) if self.unavailable else total_of(rows)
            queues = list(map(_queue_fields, rows))
            groups.append({"consumerGroup": group, "lag": lag, "lagMs": lag_ms, "queues": queues})
        return json.dumps({"groups": groups, "unavailable": dict(self.unavailable)})

    def _group_text(self, group: str, rows: Sequence[GroupRow]) -> str:
        """Return the table of one group. Its last line has the total lag, "at least" if a broker is unavailable, and
        the oldest message's age. Without rows return one line. The lag is unknown if a broker is unavailable. Otherwise
        the group has no committed offsets and no subscriptions."""
        if not rows:
            unread = "lag unknown" if self.unavailable else "no committed offsets and no subscriptions"
            return f"{one_line(group)}: {unread}"
        cells = [(*row.queue, row.committed_offset, row.max_offset, row.lag, _age(row.lag, row.lag_ms)) for row in rows]
        lag, lag_ms = total_of(rows)
        count = f"{'at least ' if self.unavailable else ''}{lag} {'message' if lag == 1 else 'messages'}"
        oldest = "" if lag == 0 else f", oldest {_age(lag, lag_ms)}"
        return "\n".join((*text_table(HEADER, cells), f"{one_line(group)}: lag {count}{oldest}"))


def total_of(rows: Sequence[GroupRow]) -> GroupLag:
    """Return the sum of the lags of ``rows``, one group's, and the largest known age in ms of a queue with lag. The age
    is None if none is known, 0 without lag."""
    ages_ms = [row.lag_ms for row in rows if row.lag and row.lag_ms is not None]
    lag = sum(row.lag for row in rows)
    return GroupLag(lag, max(ages_ms, default=None if lag else 0))


def _age(lag: int, lag_ms: int | None) -> str | None:
    """Return ``lag_ms`` as text with a unit, "unknown" for None; return None if ``lag`` is 0. ``lag_ms``: age of the
    oldest message."""
    if lag == 0:
        return None
    return UNKNOWN if lag_ms is None else age_text(lag_ms)


def _queue_fields(row: GroupRow) -> dict[str, Any]:
    """Return one row as an object of ``LagReport.to_json``; an unknown value is None."""
    return {
        "topic": row.topic,
        "brokerName": row.broker_name,
        "queueId": row.queue_id,
        "committedOffset": row.committed_offset,
        "minOffset": row.min_offset,
        "maxOffset": row.max_offset,
        "lag": row.lag,
        "lagMs": row.lag_ms,
    }
