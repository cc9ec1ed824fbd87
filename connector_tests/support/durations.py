"""How long each file of tests takes, so that a run begins with the long ones.

Each run writes what it measured to ``build/durations.json``; ``connector_tests/durations.json`` is a copy, for runs on
a clean clone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
KEPT: Final = TESTS / "durations.json"
MEASURED: Final = TESTS.parent / "build" / KEPT.name
SHORTEST_S: Final = 10
"""Order matters little among shorter ones."""


class Durations:
    """A pytest plugin of the process that the user called: it adds up each file's setups, calls and teardowns."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.location[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        MEASURED.parent.mkdir(exist_ok=True)
        MEASURED.write_text(json.dumps(merged(longest_s(), self._seconds), indent=0, sort_keys=True) + "\n")


def longest_s() -> dict[str, int]:
    """Seconds by file, of the copy or of runs here."""
    seconds: dict[str, int] = {}
    for file in (KEPT, MEASURED):
        if file.exists():
            seconds |= json.loads(file.read_text())
    return seconds


def merged(before: Mapping[str, int], measured_s: Mapping[str, float]) -> dict[str, int]:
    """The longer one of each file: a run has all of its tests, or some."""
    rounded = {file: round(seconds) for file, seconds in measured_s.items()}
    longer = {file: max(before.get(file, 0), rounded.get(file, 0)) for file in before.keys() | rounded.keys()}
    return {file: seconds for file, seconds in longer.items() if seconds >= SHORTEST_S}
