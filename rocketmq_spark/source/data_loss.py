"""Lost offsets: their causes, and what becomes of them: an error that ends the query, or a warning."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.errors import DataLossError
from rocketmq_spark.model import MessageQueue

log = logging.getLogger(__name__)

RETENTION: Final = "the broker deleted them (retention)"
RECREATED: Final = "the topic was deleted and created again, or its queue was emptied"
REPLACED: Final = "the broker lost the end of the queue and has stored other messages there"
TRUNCATED: Final = "the broker lost the end of the queue"


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets ``[begin_offset, end_offset)`` that were promised and that the broker does not hold any more."""

    queue: MessageQueue
    begin_offset: int
    end_offset: int
    cause: str


def report_loss(lost: LostRange, *, is_failure: bool) -> None:
    """Raise DataLossError[OFFSETS_GONE] if it ``is_failure`` (``failOnDataLoss``); else log the same."""
    error = DataLossError(
        "OFFSETS_GONE", queue=str(lost.queue), begin=lost.begin_offset, end=lost.end_offset, cause=lost.cause
    )
    if is_failure:
        raise error
    log.warning("%s", error)
