from __future__ import annotations

import json

import pytest

from connector_tests.support.queues import queues
from rocketmq_spark.model import QueueBounds
from rocketmq_spark.source.stream.backlog import Backlog
from rocketmq_spark.source.stream.drain import Control
from rocketmq_spark.source.stream.progress import ProgressReporter

A, B = queues(2)
CONTROL = Control("driver-7", "/tmp/ours")


@pytest.fixture
def backlog() -> Backlog:
    """Three messages wait in A, nothing in B."""
    backlog = Backlog()
    backlog.surveyed({A: 7, B: 4}, {A: QueueBounds(0, 10, 5_000), B: QueueBounds(0, 4, 4_000)})
    return backlog


def report(
    reporter: ProgressReporter, backlog: Backlog, *, late_proofs: int = 0, now_ms: int = 6_000
) -> dict[str, object]:
    return reporter.report(backlog, late_proofs, client_id="me", control=CONTROL, now_ms=now_ms)


def test_all_that_a_query_shows(backlog: Backlog) -> None:
    shown = report(ProgressReporter(), backlog, late_proofs=2)
    assert json.loads(json.dumps(shown)) == {
        "clientId": "me",
        "maxOffsets": {"orders": {"broker-a": {"0": 10, "1": 4}}},
        "lag": 3,
        "lagByQueue": {
            "orders": {"broker-a": {"0": {"messages": 3, "ms": 1_000}, "1": {"messages": 0, "ms": 0}}},
        },
        "lateProofs": 2,
        "control": {"host": "driver-7", "folder": "/tmp/ours"},
    }


def test_while_something_waits_its_time_goes_on(backlog: Backlog) -> None:
    reporter = ProgressReporter()
    assert report(reporter, backlog, now_ms=6_000) != report(reporter, backlog, now_ms=6_001)


def test_a_report_without_lag_is_made_once_for_each_survey_and_count(backlog: Backlog) -> None:
    reporter = ProgressReporter()
    backlog.surveyed({A: 10}, {A: QueueBounds(0, 10, 5_000)})
    first = report(reporter, backlog)
    assert report(reporter, backlog, now_ms=9_000) is first
    late = report(reporter, backlog, late_proofs=1)
    assert late == first | {"lateProofs": 1}
    backlog.surveyed({B: 4}, {B: QueueBounds(0, 4, 4_000)})
    assert report(reporter, backlog, late_proofs=1)["maxOffsets"] == {"orders": {"broker-a": {"1": 4}}}
