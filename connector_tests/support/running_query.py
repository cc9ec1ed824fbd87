"""What ``rocketmq_spark.stop`` sees of a query, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from rocketmq_spark.source.stream.drain import CONTROL, Control


class RunningQuery:
    """What ``stop`` sees of a query: its progress. Its sources have a turn each time somebody looks whether it runs.

    Of each source its control, None if it is not ours, or the text of its ``latestOffset``.
    """

    def __init__(self, controls: Sequence[Control | str | None], group_lock: Callable[[], None] = lambda: None) -> None:
        self._controls = controls
        self._group_lock = group_lock
        self.is_stopped = False
        self.failure: Exception | None = None
        self.name = "orders"

    @property
    def isActive(self) -> bool:
        if not self.is_stopped:
            self._group_lock()
        return not self.is_stopped

    @property
    def lastProgress(self) -> Any:
        return SimpleNamespace(sources=[SimpleNamespace(latestOffset=_shown(control)) for control in self._controls])

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.is_stopped = True


def _shown(control: Control | str | None) -> str:
    if isinstance(control, Control):
        return json.dumps({CONTROL: control._asdict()})
    return control or '{"logOffset":3}'
