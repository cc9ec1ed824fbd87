"""The groups of files that run in one process."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from connector_tests.support.durations import TESTS
from connector_tests.support.timeouts import PROCESS_S
from connector_tests.support.work_units import FORKING, GROUP_OF, GROUPS, SharedShapes, unit_places


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


def test_long_units_come_first_and_some_compute_while_others_wait() -> None:
    in_a_group = list(GROUP_OF)[:2]
    seconds = dict(zip(in_a_group, (30, 70), strict=True)) | {
        "connector_tests/integration/test_long.py": 75,
        "connector_tests/faults/test_short.py": 25,
        "connector_tests/unit/test_model.py": 3,
    }
    assert unit_places(seconds) == {
        GROUP_OF[in_a_group[0]]: 0,
        "connector_tests/integration/test_long.py": 0,
        "connector_tests/faults/test_short.py": 0.75,
        "connector_tests/unit/test_model.py": pytest.approx(100 / 103),
    }


def test_a_group_with_files_that_wait_waits() -> None:
    group = dict.fromkeys((f"connector_tests/{name}.py" for name in GROUPS["two brokers"]), 3)
    assert unit_places(group | {"connector_tests/spark/test_x.py": 1})["connector_tests/spark/test_x.py"] == 0
    beside = unit_places(group | {"connector_tests/faults/test_x.py": 4})
    assert beside == {"two brokers": 0, "connector_tests/faults/test_x.py": pytest.approx(0.6)}


def test_files_that_fork_come_first_and_are_known() -> None:
    seconds = {FORKING[0]: 1, "connector_tests/unit/test_x.py": 9}
    assert unit_places(seconds) == {FORKING[0]: -1, "connector_tests/unit/test_x.py": 0}
    tests = {f"connector_tests/{file.relative_to(TESTS)}": file.read_text("utf-8") for file in TESTS.rglob("test_*.py")}
    assert {name for name, text in tests.items() if re.search(r"= os\.fork\(\)$", text, re.MULTILINE)} == set(FORKING)
