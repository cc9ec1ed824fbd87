"""``run_available_now``: what the trigger ``availableNow`` does on Spark 4.2 and newer, on every Spark.

Spark 4.0 and 4.1 run ``availableNow`` as one batch, and call the source no more after it. So a row limit ends the run
early, and the group's offset remains where the batch began: nothing proves to the source that the batch was committed.
The next start proves it. So there is one, which reads on to where the queues end by then, in as many batches as it
takes, waits for members that read other queues, and is stopped once it rests there. It is asked to end through the
folder of the start before (``EndRequest``). Where that does not work, because the driver is on another machine,
``availableNow`` is run until a run has no batch.
"""

from __future__ import annotations

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
"""How long the source runner of a run that has ended may take to leave its group."""

FIND_TIMEOUT_S: Final = 120.0
"""How long a start may take to find out that it is to end."""

IDLE_TIMEOUT_S: Final = 10.0
"""How long the sources of others may keep a query busy once ours rest."""


def run_available_now(
    writer: DataStreamWriter, start: Callable[[DataStreamWriter], StreamingQuery] | None = None
) -> StreamingQuery:
    """Run a query until it has read, written and committed to its group all that was there when it was started.

    Row limits of the source hold for each batch. On Spark 4.2 and newer this is one run with ``availableNow=True``; on
    4.0 and 4.1 there are further ones after a batch, on the same checkpoint. What comes meanwhile may be read too.

    ``start`` starts the query, of the ``writer`` with the trigger set: ``lambda writer: writer.toTable("orders")``. By
    default it is ``writer.start()``. Returns the last run, which has ended. A run that fails ends the call by Spark's
    own exception. On 4.0 and 4.1 a query that is stopped in its first run is started once more, and one that is stopped
    after that ends the call.
    """
    from rocketmq_spark.spark_version import HAS_READ_LIMITS

    begin = start or (lambda writer: writer.start())
    query = _one_run(writer, begin)
    while not HAS_READ_LIMITS:
        requests = _end_requests(query)
        try:
            last = _run_to_ends(writer, begin, requests) if requests else None
        finally:
            for request in requests:
                request.withdraw()
        if last is not None:
            return last
        if not requests and not any(map(has_advanced, query.recentProgress)):
            return query
        query = _one_run(writer, begin)
    return query


def _run_to_ends(
    writer: DataStreamWriter, begin: Callable[[DataStreamWriter], StreamingQuery], requests: Sequence[EndRequest]
) -> StreamingQuery | None:
    """A run until all sources have reached their ends, or somebody else has stopped it; None: one did not find its
    request. A query that fails raises what it failed with."""
    query = begin(writer.trigger(processingTime="0 seconds"))
    deadline = time.monotonic() + FIND_TIMEOUT_S
    try:
        while query.isActive:
            if all(request.is_reached for request in requests):
                _await_idle(query)
                return query
            if time.monotonic() > deadline and not all(request.is_found for request in requests):
                return None
            time.sleep(POLL_S)
        query.awaitTermination()
        return query
    finally:
        query.stop()


def _one_run(writer: DataStreamWriter, start: Callable[[DataStreamWriter], StreamingQuery]) -> StreamingQuery:
    query = start(writer.trigger(availableNow=True))
    query.awaitTermination()
    return query


def _end_requests(query: StreamingQuery) -> list[EndRequest]:
    """One for each of our sources; none at all where one cannot be asked."""
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
    """Once the start before has left, which removes its folder."""
    deadline = time.monotonic() + LEAVE_TIMEOUT_S
    while control.path.exists() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return EndRequest.create(control)


def _await_idle(query: StreamingQuery) -> None:
    """What Spark does after the last batch, as a batch without rows that moves a watermark. Other sources may go on."""
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while query.isActive and query.status["isDataAvailable"] and time.monotonic() < deadline:
        time.sleep(POLL_S)
