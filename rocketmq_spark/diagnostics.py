"""How what we say reaches whoever runs a query: lines, and errors, of the source and of the sink.

All our lines look alike on the standard error of Spark's Python processes, which Spark shows among its own.

    26/01/05 14:03:22 WARN rocketmq_spark [group=orders-app clientId=10.0.0.5@77#1]: CONNECT_FAILED: Waiting for ...

Time, level and place are as in Spark's default log pattern. In brackets stands who speaks: the consumer group and the
client id, which the query's progress shows too (``clientId``); of a sink the producer group and its topic; on
executors, where Spark tells it, the query's id, its batch and the task. Spark tells a source runner neither the id nor
the name of its query.

Nothing is set up in a user's own process, nor where somebody has set up logging already: level and look are theirs.

Of an error that it is told, Spark prints the whole traceback, and that of each cause before it. An error of ours says
by itself what happened and what to do, its cause included; how the code came to it helps nobody who runs a query. So it
arrives without. The level ``DEBUG`` has all of it in a line before. What is not ours is a bug, and arrives as it is.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from rocketmq_spark.condition import TAB_STOPS, one_line
from rocketmq_spark.errors import RocketMQError

LOGGER: Final = "rocketmq_spark"
_TIME: Final = "%y/%m/%d %H:%M:%S"


class LineFormatter(logging.Formatter):
    """One line for each record, whatever others wrote that it quotes (see ``one_line``); a traceback follows, indented.
    ``log_context``: who says it, may be exchanged."""

    def __init__(self) -> None:
        super().__init__(f"%(asctime)s %(level)s {LOGGER} [%(log_context)s]: %(message)s", _TIME)
        self.log_context: Mapping[str, str] = {}

    def format(self, record: logging.LogRecord) -> str:
        """With the names of levels that Spark's own lines have."""
        record.level = {"WARNING": "WARN", "CRITICAL": "ERROR"}.get(record.levelname, record.levelname)
        record.log_context = one_line(" ".join(f"{name}={value}" for name, value in self.log_context.items()))
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line itself."""
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        """The traceback, of which no line looks like one of ours."""
        return "\n".join(
            f"    {one_line(line.expandtabs(TAB_STOPS))}" for line in super().formatException(ei).splitlines()
        )


_FORMATTER: Final = LineFormatter()
_HANDLERS: Final[list[logging.Handler]] = []


class TaskContext(Protocol):
    """What Spark tells a task of itself."""

    def getLocalProperty(self, key: str) -> str | None: ...

    def partitionId(self) -> int: ...

    def attemptNumber(self) -> int: ...


def task_log_context(task: TaskContext | None) -> dict[str, str]:
    """Which task of which query runs here, as far as Spark tells."""
    if task is None:
        return {}
    context = {
        "query": task.getLocalProperty("sql.streaming.queryId"),
        "batch": task.getLocalProperty("streaming.sql.batchId"),
        "task": f"{task.partitionId()}.{task.attemptNumber()}",
    }
    return {name: value for name, value in context.items() if value is not None}


def set_log_context(level: str, **log_context: str) -> None:
    """From now on the lines of this process say that ``log_context`` says them; those below ``level``, by Spark's name
    for it, are not said.

    An executor's worker runs one task at a time, of any query.
    """
    logger = logging.getLogger(LOGGER)
    if not _HANDLERS:
        if logger.hasHandlers():
            return
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_FORMATTER)
        logger.addHandler(handler)
        _HANDLERS.append(handler)
    _FORMATTER.log_context = log_context
    logger.setLevel(getattr(logging, level.replace("WARN", "WARNING")))


log = logging.getLogger(__name__)

Error = TypeVar("Error", bound=RocketMQError)
P = ParamSpec("P")
T = TypeVar("T")


def without_traceback(error: Error) -> Error:
    """The error without what led to it."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def raising_without_traceback(call: Callable[P, T]) -> Callable[P, T]:
    """``call``, which Spark makes."""

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except RocketMQError as error:
            log.debug("QUERY_FAILED: Stack of the error that ends the query or its task", exc_info=error)
            raise without_traceback(error) from None

    return called


def iterating_without_traceback(items: Iterator[T]) -> Iterator[T]:
    """``items``, over which Spark iterates."""
    try:
        yield from items
    except RocketMQError as error:
        log.debug("TASK_FAILED: Stack of the error that ends the task", exc_info=error)
        raise without_traceback(error) from None
