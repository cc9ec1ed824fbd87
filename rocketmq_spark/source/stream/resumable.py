"""What both stream readers do where Spark passes ``latestOffset`` no start of a batch: on 4.0 and 4.1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from rocketmq_spark.source.stream.control_folder import EndRequest
from rocketmq_spark.source.stream.drain import Control


class Resumable(ABC):
    """A reader that an earlier start of the query may have left something to do.

    ``control_before``: where that start could be asked to stop, and the progress still shows it. ``may_end_unasked``:
    nothing may be called after the last batch of a run. Not thread-safe: Spark's source runner is one thread.
    """

    def __init__(self) -> None:
        self.control_before: Control | None = None
        self.may_end_unasked = False
        self._end_request: EndRequest | None = None

    def resume(self, shown: Mapping[str, Any]) -> None:
        """The last logged offset shows that; {} of a new query. To be called before all that joins the group."""
        self.may_end_unasked = True
        self.control_before = Control.shown_in(shown)
        self._end_request = None if self.control_before is None else EndRequest.found(self.control_before)
        if self._end_request is not None:
            self.prepareForTriggerAvailableNow()

    def rest(self) -> None:
        """``latestOffset`` has nothing to read: to ``run_available_now`` that is the end."""
        if self._end_request is not None:
            self._end_request.answer()

    @abstractmethod
    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there, and no more."""
