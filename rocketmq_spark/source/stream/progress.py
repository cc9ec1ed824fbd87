"""Progress: what a query's progress shows of a source run as ``latestOffset``. Asks nobody."""

from __future__ import annotations

from typing import Any

from rocketmq_spark.model import nested
from rocketmq_spark.source.stream.backlog import Backlog
from rocketmq_spark.source.stream.drain import CONTROL, Control


class ProgressReporter:
    """Makes the report, anew only where something has changed: Spark asks at each trigger. Not thread-safe."""

    def __init__(self) -> None:
        self._at_rest: tuple[tuple[int, int], dict[str, Any]] | None = None

    def report(
        self, backlog: Backlog, late_proofs: int, *, client_id: str, control: Control, now_ms: int
    ) -> dict[str, Any]:
        """As of the last survey.

        ``clientId``: who we are in the group. ``maxOffsets``: the brokers' of our queues. ``lagByQueue``: of each of
        our queues, ``messages``, the offsets below the max offset that are in no batch yet, and ``ms``, how long the
        first of them has been waiting at least (see ``WaitingTimes``), by this machine's clock, ``now_ms``, against
        the broker's store times; both are 0 when all is planned. ``lag``: the sum of the messages. ``lateProofs``: how
        many ranges were in the sink only after their queue had been lost, since this start of the query: what of a
        queue that did not come back is another member's to commit, which may have read it again. ``control``: for
        ``rocketmq_spark.stop``.
        """
        known = backlog.surveys, late_proofs
        if self._at_rest is not None and self._at_rest[0] == known:
            return self._at_rest[1]
        lag, waiting_ms = backlog.lag, backlog.waiting_ms(now_ms)
        report: dict[str, Any] = {
            "clientId": client_id,
            "maxOffsets": nested(backlog.max_offsets),
            "lag": sum(lag.values()),
            "lagByQueue": nested({queue: {"messages": lag[queue], "ms": ms} for queue, ms in waiting_ms.items()}),
            "lateProofs": late_proofs,
            CONTROL: control._asdict(),
        }
        self._at_rest = None if report["lag"] else (known, report)
        return report
