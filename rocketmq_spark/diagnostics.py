"""Log lines and errors as the user of a query sees them, for source and sink.

Log lines go to the standard error of Spark's Python processes, which Spark shows among its own lines:

    26/01/05 14:03:22 WARN rocketmq_spark [group=orders-app clientId=10.0.0.5@77#1]: CONNECT_FAILED: Waiting for ...

Time, level and logger are as in Spark's default log pattern. The brackets contain the log context. For a source it is
the consumer group and the client ID (``clientId`` in the query's progress), for a sink the producer group and the
topic. On executors it includes the query ID, the batch and the task, as far as Spark provides them. Spark does not pass
the ID or the name of a query to its source runner.

The user's own process, and a process with configured logging, keep their level and format.

Spark prints the whole traceback of an error, and before it those of its causes. A RocketMQError already names the
failure, its cause and the fix, so it is raised without traceback; level ``DEBUG`` logs the traceback first. Any other
exception is a bug, and keeps its traceback.
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
    """Formatter of one line per record, with foreign text escaped (see ``one_line``), and an indented traceback after
    it.

    ``log_context``: names and values in the brackets; may be replaced.
    """

    def __init__(self) -> None:
        super().__init__(f"%(asctime)s %(level)s {LOGGER} [%(log_context)s]: %(message)s", _TIME)
        self.log_context: Mapping[str, str] = {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's text, with Spark's level names: WARN for WARNING, ERROR for CRITICAL. Adds ``level`` and
        ``log_context`` to the record."""
        record.level = {"WARNING": "WARN", "CRITICAL": "ERROR"}.get(record.levelname, record.levelname)
        record.log_context = one_line(" ".join(f"{name}={value}" for name, value in self.log_context.items()))
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Escape ``record.message``, and return the log line."""
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        """Return the traceback, indented, so that none of its lines can be confused with a log line."""
        return "\n".join(
            f"    {one_line(line.expandtabs(TAB_STOPS))}" for line in super().formatException(ei).splitlines()
        )


_FORMATTER: Final = LineFormatter()
_HANDLERS: Final[list[logging.Handler]] = []


class TaskContext(Protocol):
    """The part of ``pyspark.TaskContext`` that the log context uses."""

    def getLocalProperty(self, key: str) -> str | None: ...

    def partitionId(self) -> int: ...

    def attemptNumber(self) -> int: ...


def task_log_context(task: TaskContext | None) -> dict[str, str]:
    """Return the ``query`` ID and ``batch`` ID of the running task, and as ``task`` the text ``partition.attempt``.
    Omit those that Spark does not provide. Return {} for None, outside of tasks."""
    if task is None:
        return {}
    context = {
        "query": task.getLocalProperty("sql.streaming.queryId"),
        "batch": task.getLocalProperty("streaming.sql.batchId"),
        "task": f"{task.partitionId()}.{task.attemptNumber()}",
    }
    return {name: value for name, value in context.items() if value is not None}


def set_log_context(level: str, **log_context: str) -> None:
    """Set the log context of this process, and its log level, by Spark's name for it. Both replace those of the
    previous call. The first call adds a handler that writes to standard error.

    Do nothing if the process had configured logging before the first call. An executor's worker runs one task at a
    time, of any query. Raises AttributeError for an unknown level.
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
    """Remove cause, context and traceback from ``error`` itself, and return it."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def raising_without_traceback(call: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls ``call`` and raises its RocketMQErrors without traceback and cause. These are logged
    at DEBUG first. Other exceptions are raised unchanged."""

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except RocketMQError as error:
            log.debug("QUERY_FAILED: Stack of the error that ends the query or its task", exc_info=error)
            raise without_traceback(error) from None

    return called


def iterating_without_traceback(items: Iterator[T]) -> Iterator[T]:
    """Yield ``items``, over which Spark iterates. Raise their RocketMQErrors without traceback and cause, which are
    logged at DEBUG first; raise other exceptions unchanged."""
    try:
        yield from items
    except RocketMQError as error:
        log.debug("TASK_FAILED: Stack of the error that ends the task", exc_info=error)
        raise without_traceback(error) from None
