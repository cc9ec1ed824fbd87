"""Whoever reports mypy or ruff to look away names the error and states why; the settings leave nobody out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("rocketmq_spark", "connector_tests", "tools", "examples", "native")
SETTINGS = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
EXEMPT = re.compile(r"#\s*(?:type:\s*ignore|mypy:|noqa|ruff:)")
EXPLAINED = re.compile(r"# (?:type: ignore\[[a-z-]+(?:, [a-z-]+)*\]|noqa: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*)  # \S.{5,}$")


def unexplained(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if EXEMPT.search(line) and not EXPLAINED.search(line)]


def test_every_exemption_is_explained() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py") if file != Path(__file__)]
    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): unexplained(file.read_text(encoding="utf-8")) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # type: ignore",
        "x = 1  # type: ignore[misc]",
        "x = 1  #type:ignore[misc] # a",
        "x = 1  # noqa",
        "x = 1  # noqa: E731",
        "x = 1  # noqa  # because it is so",
        "# mypy: ignore-errors",
        "# ruff: noqa: E501",
    ],
)
def test_an_unexplained_one_is_found(line: str) -> None:
    assert unexplained(line) == [line]


@pytest.mark.parametrize(
    "exemption", ["type: ignore[arg-type, misc]  # a table of arguments", "noqa: E731, S105  # a name of a field"]
)
def test_an_explained_one_is_not(exemption: str) -> None:
    assert unexplained(f"x = f(y)  # {exemption}") == []


def test_mypy_is_strict_about_the_package_its_tests_and_tools() -> None:
    """All that is relaxed is that some packages bring no types, and what is generated."""
    mypy = tomllib.loads(SETTINGS)["tool"]["mypy"]
    assert mypy["strict"]
    assert [file.removesuffix("/*.py") for file in mypy["files"]] == list(FOLDERS)
    untyped, generated = mypy["overrides"]
    assert untyped.keys() == {"module", "ignore_missing_imports"}
    assert generated == {"module": "rocketmq_spark.wire.grpc.messaging_pb2", "ignore_errors": True}
    assert mypy.keys() == {"python_version", "strict", "warn_unreachable", "files", "mypy_path", "overrides"}


def test_each_rule_of_ruff_that_is_omitted_states_why() -> None:
    ignored = re.search(r"(?ms)^ignore = \[\n(.*?)^\]", SETTINGS)
    in_folders = re.search(r"(?ms)per-file-ignores\]\n(.*?)\n\n", SETTINGS)
    assert ignored is not None
    assert in_folders is not None
    lines = [*ignored[1].splitlines(), *in_folders[1].splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if not re.search(r"# \S.{5,}$", line)] == []
