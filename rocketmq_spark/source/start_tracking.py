"""Start of the next batch, for Spark versions that do not pass it to ``latestOffset``.

Spark 4.0 and 4.1 call ``latestOffset()`` without arguments. The order of their calls shows the start. A restarted query
first calls ``partitions(X, X)`` with the last logged offset. From then on Spark logs the offset that ``latestOffset``
returned last before it calls it again, so that offset is the next start. Only the first offset of a new query may be
requested twice before it is logged.

The order is that of Spark 4.1.1, in ``MicroBatchExecution.scala`` and ``PythonMicroBatchStream.scala``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

from rocketmq_spark.errors import OptionError

Offset = dict[str, Any]


class StartState(Enum):
    """State of a query as shown by the calls so far."""

    NEW = auto()
    PROPOSED = auto()
    """The first offset of a new query was returned."""
    BEGUN = auto()
    """Spark also has the initial offset, so it can log the first batch."""
    PROPOSED_AGAIN = auto()
    """The first offset was requested again: no sink reads the rows of the first batch, or the batch is not logged."""
    RUNNING = auto()
    """The last returned offset, or the offset of a restart, is the start of the next batch."""


class Call(Enum):
    """Calls by Spark."""

    LATEST = "latestOffset()"
    INITIAL = "initialOffset()"
    RESUME = "partitions(X, X)"
    """From a new query: its first batch is empty, because there are no messages yet."""
    PLAN = "partitions(start, end)"


TRANSITIONS: Final = {
    (StartState.NEW, Call.LATEST): StartState.PROPOSED,
    (StartState.NEW, Call.RESUME): StartState.RUNNING,
    (StartState.PROPOSED, Call.INITIAL): StartState.BEGUN,
    (StartState.BEGUN, Call.PLAN): StartState.RUNNING,
    (StartState.BEGUN, Call.RESUME): StartState.RUNNING,
    (StartState.BEGUN, Call.LATEST): StartState.PROPOSED_AGAIN,
    (StartState.PROPOSED_AGAIN, Call.LATEST): StartState.RUNNING,
    (StartState.RUNNING, Call.LATEST): StartState.RUNNING,
    (StartState.RUNNING, Call.INITIAL): StartState.RUNNING,
    (StartState.RUNNING, Call.RESUME): StartState.RUNNING,
    (StartState.RUNNING, Call.PLAN): StartState.RUNNING,
}
"""All calls that Spark makes. Any other is from ``triggerAvailableNowWrapper``, which fixes the end of the run before
the checkpoint is available, or from an untested Spark version."""


class StartTracker:
    """State machine over Spark's calls, from which it derives ``start``, the start of the next batch, or None while it
    is unknown. Not thread-safe."""

    def __init__(self, spark_version: str) -> None:
        self._spark_version = spark_version
        self.state = StartState.NEW
        self.start: Offset | None = None

    def record_latest(self) -> bool:
        """Record ``latestOffset()``. Return whether the source is to compute an offset. False: the first offset of a
        new query is requested again, so return ``start`` again.

        Raises OptionError[UNSUPPORTED_SPARK_SETTING] if ``TRANSITIONS`` lacks the call in the current state.
        """
        self._advance(Call.LATEST)
        return self.state is not StartState.PROPOSED_AGAIN

    def record_returned(self, end: Offset) -> None:
        """Record that ``latestOffset()`` returned ``end``: it is ``start`` from now on."""
        self.start = end

    def record_initial(self) -> None:
        """Record ``initialOffset()``; ``start`` stays. Raises OptionError[UNSUPPORTED_SPARK_SETTING] if ``TRANSITIONS``
        lacks the call in the current state."""
        self._advance(Call.INITIAL)

    def record_partitions(self, start: Offset, end: Offset) -> bool:
        """Record ``partitions(start, end)``. Return True if it plans a batch; the tracked ``start`` then stays. If
        ``start`` equals ``end``, it is the offset of a restart: make it the start of the next batch, and return False.
        Raises OptionError[UNSUPPORTED_SPARK_SETTING] if ``TRANSITIONS`` lacks the call in the current state.
        """
        if start != end:
            self._advance(Call.PLAN)
            return True
        self._advance(Call.RESUME)
        self.start = end
        return False

    def _advance(self, call: Call) -> None:
        """Change the state by ``TRANSITIONS``. Raises OptionError[UNSUPPORTED_SPARK_SETTING] for any other call."""
        next_state = TRANSITIONS.get((self.state, call))
        if next_state is None:
            raise OptionError("UNSUPPORTED_SPARK_SETTING", version=self._spark_version, call=call.value)
        self.state = next_state
