"""Each test is run by a target of make, whatever marks it has; and what the user's environment has of another Spark
reaches none."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Set
from itertools import chain, combinations
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MAKEFILE: Final = (ROOT / "Makefile").read_text(encoding="utf-8")
SETTINGS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
MARKS: Final = ("full", "native", "long", "versions", "sparks", "tables")
"""Those that expressions name."""
BY_ALL: Final = ("test-all", "test-versions", "test-sparks", "test-tables", "test-long")
"""Targets that together run all."""
COMMAND: Final = r"(?m)^{}: .*\n(?:\t.*\n)*?\t.* -m (?:\"([^\"]+)\"|(\w+)) \$\(TESTS\)$"
ANOTHER: Final = {"SPARK_HOME": "/opt/spark", "SPARK_CONF_DIR": "/opt/conf", "PYSPARK_SUBMIT_ARGS": "--master yarn"}


def expression_of(target: str) -> str:
    """Of marks, in pytest's language, which is Python's; that of the settings for 'test'."""
    if target == "test":
        return str(SETTINGS["addopts"]).partition(" -m '")[2].rstrip("'")
    found = re.search(COMMAND.format(target), MAKEFILE)
    assert found is not None, target
    return found[1] or found[2]


def selects(target: str, marks: Set[str]) -> bool:
    return bool(eval(expression_of(target), {}, {mark: mark in marks for mark in MARKS}))


def all_marks() -> list[frozenset[str]]:
    return [frozenset(some) for some in chain.from_iterable(combinations(MARKS, n) for n in range(len(MARKS) + 1))]


def test_expressions_name_marks_that_are_declared() -> None:
    declared = {line.partition(":")[0] for line in SETTINGS["markers"]}
    named = set(re.findall(r"\w+", " ".join(map(expression_of, ("test", "test-rest", *BY_ALL)))))
    assert named - {"and", "or", "not"} == set(MARKS)
    assert set(MARKS) < declared


def test_each_test_is_run_by_a_target() -> None:
    assert [marks for marks in all_marks() if not any(selects(target, marks) for target in BY_ALL)] == []


def test_rest_runs_what_test_omits_of_all_and_what_needs_the_native_decoder() -> None:
    for marks in all_marks():
        is_of_rest = selects("test-all", marks) and (not selects("test", marks) or "native" in marks)
        assert selects("test-rest", marks) == is_of_rest, marks


def test_another_spark_of_the_user_reaches_no_target() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | ANOTHER
    command = ["make", "--silent", "--eval", "shown: ; @env", "shown"]
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert "PATH=" in shown
    assert [name for name in ANOTHER if f"{name}=" in shown] == []
