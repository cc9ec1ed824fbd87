"""What becomes of lost offsets: an error that ends the query, or a warning with which it goes on."""

from __future__ import annotations

import logging

from rocketmq_spark.errors import DataLossError
from rocketmq_spark.source.stream.planning import LostRange

log = logging.getLogger(__name__)


def report_loss(lost: LostRange, *, is_failure: bool) -> None:
    """Raise DataLossError[OFFSETS_GONE] if it ``is_failure`` (``failOnDataLoss``); else log the same."""
    error = DataLossError(
        "OFFSETS_GONE", queue=str(lost.queue), begin=lost.begin_offset, end=lost.end_offset, cause=lost.cause
    )
    if is_failure:
        raise error
    log.warning("%s", error)
