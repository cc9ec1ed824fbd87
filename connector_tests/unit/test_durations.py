"""Seconds of files of tests, from runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from connector_tests.support.durations import merged, write_durations


def test_file_keeps_its_longest_run_and_short_files_are_omitted() -> None:
    before = {"whole.py": 100, "grown.py": 20, "elsewhere.py": 30}
    measured_s = {"whole.py": 12.4, "grown.py": 41.6, "new.py": 10.2, "short.py": 4.4}
    assert merged(before, measured_s) == {"whole.py": 100, "grown.py": 42, "elsewhere.py": 30, "new.py": 10}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Another run that read it while it was written, or after a kill had cut it off, ended at its collection."""
    file, before = tmp_path / "build" / "durations.json", tmp_path / "before.json"
    write_durations(file, {"old.py": 10})
    os.link(file, before)
    write_durations(file, {"new.py": 20})
    assert json.loads(before.read_text()) == {"old.py": 10}
    assert json.loads(file.read_text()) == {"new.py": 20}
    assert list(file.parent.iterdir()) == [file]
