"""The plan of a batch read on the driver's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.source.batch.batch_plan import LOCAL_DIRS, BatchPlan, StoredPlan

QUEUE = MessageQueue("orders", "broker-a", 3)
PLAN = BatchPlan([QueueRange(QUEUE, 2, 9)], {"broker-a": BrokerAddress("a:10911")})
RANGE = '{"ranges": [["orders", "broker-a", 3, %s, %s]], "masters": {}}'
LATER = BatchPlan([QueueRange(QUEUE, 2, 11)], {})


def stored(folder: Path, load_id: str = "one") -> StoredPlan:
    return StoredPlan(load_id, {LOCAL_DIRS: f"{folder},/other"})


def test_plan_is_read_as_it_was_kept(tmp_path: Path) -> None:
    assert stored(tmp_path).read() is None
    assert stored(tmp_path).keep(PLAN) == PLAN
    assert stored(tmp_path).read() == PLAN
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_first_plan_of_a_load_stays(tmp_path: Path) -> None:
    stored(tmp_path).keep(PLAN)
    assert stored(tmp_path).keep(LATER) == PLAN
    assert stored(tmp_path, "two").keep(LATER) == LATER


def test_plan_without_a_directory_is_not_kept(tmp_path: Path) -> None:
    plan = StoredPlan("one", {})
    assert (plan.keep(PLAN), plan.read()) == (PLAN, None)
    assert list(tmp_path.iterdir()) == []


def test_plan_that_cannot_be_stored_is_logged_and_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    for folder in ("missing", "file"):
        caplog.clear()
        assert stored(tmp_path / folder).keep(PLAN) == PLAN
        assert "PLAN_NOT_STORED" in caplog.text


def test_proxied_address_survives(tmp_path: Path) -> None:
    plan = BatchPlan([], {"broker-a": BrokerAddress("p:8080", "broker-a")})
    assert stored(tmp_path).keep(plan) == plan


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"ranges": [[1]], "masters": {}}',
        "\\ud800",
        '{"ranges": 1, "masters": 2}',
        '{"ranges": [], "masters": []}',
        '{"ranges": [], "masters": 2}',
        RANGE % ("2", "9223372036854775808"),
        RANGE % ("-1", "2"),
        RANGE % ("5", "5"),
        RANGE % ("2", "9.5"),
    ],
)
def test_plan_that_cannot_be_read_is_logged_and_replaced(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored(tmp_path).keep(PLAN)
    (file,) = tmp_path.iterdir()
    file.write_text(text, encoding="utf-8")
    assert stored(tmp_path).read() is None
    assert "PLAN_NOT_STORED" in caplog.text
    assert stored(tmp_path).keep(LATER) == LATER
