"""Seconds of files of tests, from runs."""

from __future__ import annotations

from connector_tests.support.durations import merged


def test_file_keeps_its_longest_run_and_short_files_are_omitted() -> None:
    before = {"whole.py": 100, "grown.py": 20, "elsewhere.py": 30}
    measured_s = {"whole.py": 12.4, "grown.py": 41.6, "new.py": 10.2, "short.py": 4.4}
    assert merged(before, measured_s) == {"whole.py": 100, "grown.py": 42, "elsewhere.py": 30, "new.py": 10}
