"""How long each file of tests takes, so that a run begins with the long ones. What 'make test' runs of it is one part,
what 'make test-rest' runs another one.

``build/durations.json`` has the longest time of each part in the runs here; ``connector_tests/durations.json`` is a
copy, for runs on a clean clone.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
KEPT: Final = TESTS / "durations.json"
MEASURED: Final = TESTS.parent / "build" / KEPT.name
SHORTEST_S: Final = 5
"""Order matters little among shorter ones."""

SHORT_S: Final = 2
"""What a shorter one counts as."""


OF_REST: Final = frozenset({"full", "native"})
"""The marks of what 'make test-rest' runs."""


def part_of(file: str, *, is_of_rest: bool) -> str:
    """The key of one of the two parts of a file."""
    return f"{file} of rest" if is_of_rest else file


class Durations:
    """A pytest plugin of the process that the user called: it adds up each file's setups, calls and teardowns."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        is_of_rest = not OF_REST.isdisjoint(report.keywords)
        self._seconds[part_of(report.nodeid.partition("::")[0], is_of_rest=is_of_rest)] += report.duration

    def pytest_sessionfinish(self) -> None:
        write_durations(MEASURED, merged(longest_s(), self._seconds))


def write_durations(file: Path, seconds: Mapping[str, int]) -> None:
    """Replace the file: runs may end, and others begin, at the same time."""
    file.parent.mkdir(exist_ok=True)
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_text(json.dumps(seconds, indent=0, sort_keys=True) + "\n")
    written.replace(file)


def longest_s() -> dict[str, int]:
    """Seconds by part of a file, of the copy or of runs here."""
    seconds: dict[str, int] = {}
    for file in (KEPT, MEASURED):
        if file.exists():
            seconds |= json.loads(file.read_text())
    return seconds


def merged(before: Mapping[str, int], measured_s: Mapping[str, float]) -> dict[str, int]:
    """The longer one of each part: a run has all of its tests, or some."""
    rounded = {file: round(seconds) for file, seconds in measured_s.items()}
    longer = {file: max(before.get(file, 0), rounded.get(file, 0)) for file in before.keys() | rounded.keys()}
    return {file: seconds for file, seconds in longer.items() if seconds >= SHORTEST_S}
