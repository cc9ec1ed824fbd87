"""``run_available_now``: the trigger ``availableNow`` as on Spark 4.2 and newer, for every Spark version.

Spark 4.0 and 4.1 run ``availableNow`` as one batch and make no further call to the source. A row limit thus ends the
run early, and the group's committed offset stays at the start of the batch: no call shows that the batch is completed.
The next start shows it. So a further start reads up to the max offsets of that time, in any number of batches, waits
for members that own other queues, and is stopped when it is idle. The control folder of the previous start has the
request to end (``EndRequest``). If that is impossible, because the driver is on another machine, ``availableNow`` is
run until a run has no batch.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from rocketmq_spark.source.stream.control_folder import EndRequest
from rocketmq_spark.source.stream.drain import Control
from rocketmq_spark.source.stream.shown_progress import has_advanced, progress_of_end_offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_S: Final = 0.1

LEAVE_TIMEOUT_S: Final = 30.0
"""Maximum time for the source runner of an ended run to leave its group."""

FIND_TIMEOUT_S: Final = 120.0
"""Maximum time for a start to find its end request."""

IDLE_TIMEOUT_S: Final = 10.0
"""Maximum time that other sources may keep a query busy while all sources of this connector are idle."""


def run_available_now(
    writer: DataStreamWriter, start: Callable[[DataStreamWriter], StreamingQuery] | None = None
) -> StreamingQuery:
    """Run a query until it has read, written and committed to its group all messages that were available at its start.

    The source's row limits apply to each batch. On Spark 4.2 and newer this is one run with ``availableNow=True``. On
    4.0 and 4.1 more runs follow a run that had a batch, on the same checkpoint, and ``start`` is called for each.
    Messages that arrive meanwhile may be read too.

    ``start`` starts the query from ``writer``, with the trigger set: ``lambda writer: writer.toTable("orders")``. The
    default is ``writer.start()``. Returns the last run, which has ended. If a run fails, Spark's own exception ends the
    call. On 4.0 and 4.1 a query that is stopped in its first run is started once more; a later stop ends the call.
    """
    from rocketmq_spark.spark_version import HAS_READ_LIMITS

    begin = start or (lambda writer: writer.start())
    query = _one_run(writer, begin)
    has_missed_request = False
    while not HAS_READ_LIMITS:
        has_batch = any(map(has_advanced, query.recentProgress))
        requests = [] if has_missed_request and not has_batch else _end_requests(query)
        try:
            last = _run_to_ends(writer, begin, requests) if requests else None
        finally:
            for request in requests:
                request.withdraw()
        if last is not None:
            return last
        if not (requests or has_batch):
            return query
        has_missed_request |= bool(requests)
        query = _one_run(writer, begin)
    return query


def _run_to_ends(
    writer: DataStreamWriter, begin: Callable[[DataStreamWriter], StreamingQuery], requests: Sequence[EndRequest]
) -> StreamingQuery | None:
    """Start a run and return its query, stopped, once all sources have reached their ends, or once it was stopped from
    outside. Return None if a source did not find its request within ``FIND_TIMEOUT_S``. The query is stopped in any
    case. A failure of the query is raised."""
    query = begin(writer.trigger(processingTime="0 seconds"))
    deadline = time.monotonic() + FIND_TIMEOUT_S
    try:
        while query.isActive:
            if all(request.is_reached for request in requests):
                _await_idle(query)
                return query
            if time.monotonic() > deadline and not all(request.is_claimed for request in requests):
                return None
            time.sleep(POLL_S)
        query.awaitTermination()
        return query
    finally:
        query.stop()


def _one_run(writer: DataStreamWriter, start: Callable[[DataStreamWriter], StreamingQuery]) -> StreamingQuery:
    """Start a run with ``availableNow``, wait until it has ended, and return it. A failure of the query is raised."""
    query = start(writer.trigger(availableNow=True))
    query.awaitTermination()
    return query


def _end_requests(query: StreamingQuery) -> list[EndRequest]:
    """Create an end request for each source of this connector, each once the previous start has left, and return them.
    Return [] without such a source, or, with all created ones withdrawn, if one source cannot receive a request."""
    requests: list[EndRequest] = []
    for control in map(Control.shown_in, progress_of_end_offsets(query)):
        request = None if control is None else _make_request(control)
        if request is None:
            for created in requests:
                created.withdraw()
            return []
        requests.append(request)
    return requests


def _make_request(control: Control) -> EndRequest | None:
    """Wait until the previous start has left and so removed its folder, at most ``LEAVE_TIMEOUT_S``. Then, also after
    the timeout, create the request and return it. Return None if it cannot be created, as when the folder still exists
    (``EndRequest.create``). Return None at once if the driver's machine has another name."""
    if control.host != platform.node():
        return None
    deadline = time.monotonic() + LEAVE_TIMEOUT_S
    while control.path.exists() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return EndRequest.create(control)


def _await_idle(query: StreamingQuery) -> None:
    """Wait for Spark's work after the last batch, such as a batch without rows that moves a watermark. Return once
    there is none, the query has ended, or ``IDLE_TIMEOUT_S`` is over."""
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while query.isActive and query.status["isDataAvailable"] and time.monotonic() < deadline:
        time.sleep(POLL_S)
