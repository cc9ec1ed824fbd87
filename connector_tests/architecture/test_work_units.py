"""The groups of files that run in one process."""

from __future__ import annotations

import subprocess
import sys

from connector_tests.support.durations import TESTS
from connector_tests.support.timeouts import PROCESS_S
from connector_tests.support.work_units import GROUP_OF, GROUPS, SharedShapes, unit_seconds


def test_a_file_of_a_group_is_there_and_in_no_other() -> None:
    assert [file for file in GROUP_OF if not (TESTS.parent / file).exists()] == []
    assert len(GROUP_OF) == sum(map(len, GROUPS.values()))


def test_tests_of_a_group_are_one_unit_and_of_other_files_one_each() -> None:
    units = object.__new__(SharedShapes)
    one, another = (f"connector_tests/spark/test_{name}.py::test_it" for name in ("over_grpc", "secrets"))
    assert units._split_scope(one) == units._split_scope(another) == "a proxy with ACL and TLS"
    assert (
        units._split_scope("connector_tests/unit/test_model.py::test_it[a::b]") == "connector_tests/unit/test_model.py"
    )


def test_files_are_collected_without_pytest_xdist_too() -> None:
    """As in a run of mutants."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--collect-only", "-q", __file__]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False, timeout=PROCESS_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_unit_takes_as_long_as_its_files_together() -> None:
    first, second = list(GROUP_OF)[:2]
    assert unit_seconds((first, second, "other"), {first: 3, second: 4}) == {GROUP_OF[first]: 7, "other": 0}
