"""A test that needs the native decoder is marked, else no run with that decoder selects it."""

from __future__ import annotations

from typing import Literal

import pytest

from connector_tests.support.decoders import NOT_BUILT, fail_if_unmarked

HERE = ("test_it.py", 1, "test_it")


def report_of(reason: str, *marks: str, outcome: Literal["passed", "skipped"] = "skipped") -> pytest.TestReport:
    """Of a test that was skipped for ``reason``."""
    longrepr = (HERE[0], HERE[1], f"Skipped: {reason}")
    return pytest.TestReport("test_it.py::test_it", HERE, dict.fromkeys(marks, 1), outcome, longrepr, "call")


def test_unmarked_test_that_needs_the_decoder_fails() -> None:
    report = report_of(f"the native {NOT_BUILT}")
    fail_if_unmarked(report)
    assert report.failed
    assert report.longrepr == "test_it.py::test_it needs the native decoder: mark it with pytest.mark.native"


@pytest.mark.parametrize(
    "report",
    [
        report_of(f"the native {NOT_BUILT}", "native"),
        report_of("no cargo"),
        report_of(f"the native {NOT_BUILT}", outcome="passed"),
    ],
    ids=["marked", "another reason", "passed"],
)
def test_other_tests_keep_their_outcome(report: pytest.TestReport) -> None:
    before = report.outcome
    fail_if_unmarked(report)
    assert report.outcome == before
