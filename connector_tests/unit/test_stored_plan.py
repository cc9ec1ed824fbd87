"""The plan of a batch read on the driver's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueRange
from rocketmq_spark.source.batch.stored_plan import LOCAL_DIRS, BatchPlan, StoredPlan

QUEUE = MessageQueue("orders", "broker-a", 3)
PLAN = BatchPlan([QueueRange(QUEUE, 2, 9)], {"broker-a": BrokerAddress("a:10911")})
LATER = BatchPlan([QueueRange(QUEUE, 2, 11)], {})


def stored(folder: Path, load_id: str = "one") -> StoredPlan:
    return StoredPlan(load_id, {LOCAL_DIRS: f"{folder},/other"})


def test_plan_is_read_as_it_was_kept(tmp_path: Path) -> None:
    assert stored(tmp_path).read() is None
    assert stored(tmp_path).keep(PLAN) == PLAN
    assert stored(tmp_path).read() == PLAN
    assert len(list(tmp_path.iterdir())) == 1


def test_first_plan_of_a_load_stays(tmp_path: Path) -> None:
    stored(tmp_path).keep(PLAN)
    assert stored(tmp_path).keep(LATER) == PLAN
    assert stored(tmp_path, "two").keep(LATER) == LATER


def test_plan_without_a_directory_is_not_kept(tmp_path: Path) -> None:
    plan = StoredPlan("one", {})
    assert (plan.keep(PLAN), plan.read()) == (PLAN, None)
    assert list(tmp_path.iterdir()) == []


def test_plan_that_cannot_be_stored_is_logged_and_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert stored(tmp_path / "missing").keep(PLAN) == PLAN
    assert "PLAN_NOT_STORED" in caplog.text


def test_proxied_address_survives(tmp_path: Path) -> None:
    plan = BatchPlan([], {"broker-a": BrokerAddress("p:8080", "broker-a")})
    assert stored(tmp_path).keep(plan) == plan
