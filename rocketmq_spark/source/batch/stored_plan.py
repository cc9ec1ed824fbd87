"""StoredPlan: the plan of a batch read, kept on the driver's disk for later plannings of the same DataFrame.

Spark 4.0 plans a Python source separately for each action, and for each occurrence of a DataFrame in a query. Spark 4.1
and newer plan it once for each ``load()``. The first planning of a ``load()`` stores its plan, and the others read it:
so all of them end at the same offsets. The file is in a directory that Spark deletes when the application ends.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange

log = logging.getLogger(__name__)

LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
"""Environment variable with the application's local directories, which Spark sets in its planner processes."""


@dataclass(frozen=True)
class BatchPlan:
    """Non-empty ranges to read, and the addresses of their masters by broker name."""

    ranges: Sequence[QueueRange]
    masters: Mapping[str, BrokerAddress]

    def to_json(self) -> str:
        """Return the plan as JSON text, which ``from_json`` reads."""
        ranges = [
            (one.queue.topic, one.queue.broker_name, one.queue.queue_id, one.begin_offset, one.end_offset)
            for one in self.ranges
        ]
        masters = {name: (address.server, address.broker_name) for name, address in self.masters.items()}
        return json.dumps({"ranges": ranges, "masters": masters})

    @classmethod
    def from_json(cls, text: str) -> BatchPlan:
        """Return the plan that ``to_json`` returned as ``text``. Raises ValueError, TypeError or LookupError for other
        text, and for ranges that no queue has."""
        plan = json.loads(text)
        if not isinstance(plan["masters"], dict):
            raise TypeError(f"no object: {plan['masters']}")
        ranges = [
            QueueRange(MessageQueue(topic, broker_name, queue_id), begin_offset, end_offset)
            for topic, broker_name, queue_id, begin_offset, end_offset in plan["ranges"]
        ]
        for one in ranges:
            if not all(type(number) is int for number in (one.queue.queue_id, one.begin_offset, one.end_offset)):
                raise TypeError(f"no integers: {one}")
            if not 0 <= one.begin_offset < one.end_offset < 2**63:
                raise ValueError(f"no range of a queue: {one}")
        return cls(ranges, {name: BrokerAddress(*address) for name, address in plan["masters"].items()})


class StoredPlan:
    """File with the plan of one ``load()``, by its ID. Without a local directory there is none: ``read`` returns None,
    and ``keep`` stores nothing."""

    def __init__(self, load_id: str, environ: Mapping[str, str] = os.environ) -> None:
        folder = environ.get(LOCAL_DIRS, "").split(",")[0]
        self._file = Path(folder, f"rocketmq-plan-{load_id}.json") if folder else None

    def read(self) -> BatchPlan | None:
        """Return the stored plan; None if there is none, or, with a warning, if it cannot be read."""
        if self._file is None:
            return None
        try:
            return BatchPlan.from_json(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, LookupError) as error:
            _warn_of_unusable_file(error)
            return None

    def keep(self, plan: BatchPlan) -> BatchPlan:
        """Store ``plan`` and return it, or return the plan that a concurrent planning stored first. If none can be
        stored, log a warning and return ``plan``."""
        if self._file is None:
            return plan
        unfinished = self._file.with_suffix(f".{uuid4().hex}")
        try:
            unfinished.touch(mode=0o600)
            unfinished.write_text(plan.to_json(), encoding="utf-8")
            with suppress(FileExistsError):
                os.link(unfinished, self._file)
        except OSError as error:
            _warn_of_unusable_file(error)
            return plan
        finally:
            with suppress(OSError):
                unfinished.unlink()
        return self.read() or plan


def _warn_of_unusable_file(error: Exception) -> None:
    log.warning("PLAN_NOT_STORED: Later actions on this DataFrame may read to later ends: %s", error)
