"""Where the next batch begins, for a Spark that does not pass it to ``latestOffset``.

Spark 4.0 and 4.1 call ``latestOffset()`` without arguments. Their calls show the start all the same: a query that
restarts calls ``partitions(X, X)`` with the last logged offset before it calls anything else; from then on the offset
that ``latestOffset`` returned last is logged before it is called again, so it is the next start. Only the first answer
of a new query may be asked for twice before it is logged.

The order is that of Spark 4.1.1, in ``MicroBatchExecution.scala`` and ``PythonMicroBatchStream.scala``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from rocketmq_spark.errors import OptionError

Offset = dict[str, Any]

PROGRESS: Final = "shown"
"""Under this name an end offset carries what the query progress is to show: before Spark 4.2 the progress has nothing
else of a source. It is no part of the place, and every reader of offsets ignores it, on every Spark."""

SIZED_BY_QUEUES: Final = frozenset({"maxOffsets", "lagByQueue", "outages"})
"""What is not carried: each has an entry a queue, and the checkpoint keeps every offset."""


def with_progress(end: Offset, report: Mapping[str, Any]) -> Offset:
    """A new end with what ``reportLatestOffset`` returns where Spark calls it."""
    return {**end, PROGRESS: {name: value for name, value in report.items() if name not in SIZED_BY_QUEUES}}


def is_source_offset(value: Any) -> bool:
    """Whether that is an offset of ours, of either kind."""
    return isinstance(value, dict) and "v" in value and ("queues" in value or "loadBalance" in value)


def without_progress(value: Any) -> Any:
    """The place alone, of an offset of any Spark."""
    return {name: part for name, part in value.items() if name != PROGRESS} if isinstance(value, dict) else value


class StartState(Enum):
    """What the calls so far have shown."""

    NEW = auto()
    PROPOSED = auto()
    """The first answer of a new query was returned."""
    BEGUN = auto()
    """Spark has the initial offset too, so it can log the first batch."""
    PROPOSED_AGAIN = auto()
    """The first answer was asked for again: either nobody reads the rows of the first batch, or it is not logged."""
    RUNNING = auto()
    """The last answer, or the offset of a restart, is where the next batch begins."""


class Call(Enum):
    """What Spark calls."""

    LATEST = "latestOffset()"
    INITIAL = "initialOffset()"
    RESUME = "partitions(X, X)"
    """Of a new query: its first batch is empty, because there is nothing to read yet."""
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
"""Every call that Spark makes. The others are those of ``triggerAvailableNowWrapper``, which fixes the end of the run
before the checkpoint is known, or of a Spark that nobody has seen."""


class StartTracker:
    """The state machine. ``start`` is where the next batch begins; None: it is not known yet. Not thread-safe."""

    def __init__(self, spark_version: str) -> None:
        self._spark_version = spark_version
        self.state = StartState.NEW
        self.start: Offset | None = None

    def latest(self) -> bool:
        """Spark calls ``latestOffset()``: whether the source is to be asked. If not, ``start`` is the answer again.

        Raises OptionError[UNSUPPORTED_SPARK_SETTING].
        """
        self._advance(Call.LATEST)
        return self.state is not StartState.PROPOSED_AGAIN

    def note_returned(self, end: Offset) -> None:
        """``latestOffset()`` returned ``end``."""
        self.start = end

    def initial(self) -> None:
        """Spark calls ``initialOffset()``. Raises OptionError[UNSUPPORTED_SPARK_SETTING]."""
        self._advance(Call.INITIAL)

    def partitions(self, start: Offset, end: Offset) -> bool:
        """Spark calls ``partitions(start, end)``: whether that is a batch, and not the report of a restart.

        Raises OptionError[UNSUPPORTED_SPARK_SETTING].
        """
        if start != end:
            self._advance(Call.PLAN)
            return True
        self._advance(Call.RESUME)
        self.start = end
        return False

    def _advance(self, call: Call) -> None:
        next_state = TRANSITIONS.get((self.state, call))
        if next_state is None:
            raise OptionError("UNSUPPORTED_SPARK_SETTING", version=self._spark_version, call=call.value)
        self.state = next_state
