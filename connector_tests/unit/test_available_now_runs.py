"""``run_available_now`` before Spark 4.2: which runs it starts and when it returns, with scripted queries. With Spark:
``spark/test_available_now_runs``."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rocketmq_spark import run_available_now
from rocketmq_spark.source.stream import available_now_runs
from rocketmq_spark.source.stream.control_folder import PREFIX, EndRequest
from rocketmq_spark.source.stream.drain import CONTROL, Control

FIND_TIMEOUT_S: Final = 0.2
AVAILABLE_NOW: Final = {"availableNow": True}
UNTIL_STOPPED: Final = {"processingTime": "0 seconds"}


class ScriptedQuery:
    """A query as Spark shows it: its last batch, and whether it still runs."""

    def __init__(self, start: int, end: int, control: Control | None, *, is_active: bool = False) -> None:
        of_batch = {"startOffset": offset(start, control), "endOffset": offset(end, control)}
        self.recentProgress = [{"sources": [of_batch]}]
        self.lastProgress = self.recentProgress[-1]
        self.status = {"isDataAvailable": False}
        self.isActive = is_active
        self.is_stopped = False

    def awaitTermination(self) -> None:
        assert not self.isActive

    def stop(self) -> None:
        self.isActive = False
        self.is_stopped = True


def offset(position: int, control: Control | None) -> str:
    """Spark 4.1 shows the text of a Python dict."""
    shown = {} if control is None else {"shown": {CONTROL: control._asdict()}}
    return str({"v": 1, "queues": {"orders": {"broker-a": {"0": [0, position, 1]}}}} | shown)


class ScriptedWriter:
    """A writer whose starts run ``runs``, one after the other; ``triggers`` and ``queries`` are those so far."""

    def __init__(self, *runs: Callable[[], ScriptedQuery]) -> None:
        self._runs = iter(runs)
        self.triggers: list[dict[str, Any]] = []
        self.queries: list[ScriptedQuery] = []

    def trigger(self, **trigger: Any) -> ScriptedWriter:
        self.triggers.append(trigger)
        return self

    def start(self) -> ScriptedQuery:
        self.queries.append(next(self._runs)())
        return self.queries[-1]


@pytest.fixture(autouse=True)
def on_spark_4_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_spark.spark_version.HAS_READ_LIMITS", False)
    monkeypatch.setattr(available_now_runs, "FIND_TIMEOUT_S", FIND_TIMEOUT_S)


@pytest.fixture
def control() -> Iterator[Control]:
    """The control folder of a run that has ended. No call leaves it behind."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    path.rmdir()
    yield Control(platform.node(), str(path))
    assert not path.exists()


def batch(control: Control | None) -> ScriptedQuery:
    """A run that has ended after one batch."""
    return ScriptedQuery(0, 5, control)


def no_batch(control: Control | None) -> ScriptedQuery:
    return ScriptedQuery(5, 5, control)


def reaches_its_end(control: Control) -> ScriptedQuery:
    request = EndRequest.claim(control)
    assert request is not None
    request.mark_reached()
    return ScriptedQuery(5, 9, control, is_active=True)


def does_not_find_its_request(control: Control) -> ScriptedQuery:
    return ScriptedQuery(5, 9, control, is_active=True)


def is_stopped_by_a_user(control: Control) -> ScriptedQuery:
    assert EndRequest.claim(control) is not None
    return ScriptedQuery(5, 7, control)


def runs_of(control: Control | None, *of: Callable[[Any], ScriptedQuery]) -> ScriptedWriter:
    def bound(run: Callable[[Any], ScriptedQuery]) -> Callable[[], ScriptedQuery]:
        return lambda: run(control)

    return ScriptedWriter(*map(bound, of))


def returned(writer: Any) -> Any:
    return run_available_now(writer)


@pytest.mark.parametrize("first", [batch, no_batch])
def test_second_run_reads_up_to_its_end_after_any_first_run(
    control: Control, first: Callable[[Any], ScriptedQuery]
) -> None:
    """A first run without a batch may have left messages in queues of other members: the second one waits for them."""
    writer = runs_of(control, first, reaches_its_end)
    assert returned(writer) is writer.queries[1]
    assert writer.triggers == [AVAILABLE_NOW, UNTIL_STOPPED]
    assert writer.queries[1].is_stopped


def test_run_that_finds_no_request_in_time_is_repeated(control: Control) -> None:
    """It has no end, so what it has read may be less than everything."""
    writer = runs_of(control, batch, does_not_find_its_request, batch, reaches_its_end)
    assert returned(writer) is writer.queries[3]
    assert writer.triggers == [AVAILABLE_NOW, UNTIL_STOPPED] * 2
    assert writer.queries[1].is_stopped


def test_second_run_that_a_user_stops_ends_the_call(control: Control) -> None:
    writer = runs_of(control, batch, is_stopped_by_a_user)
    assert returned(writer) is writer.queries[1]
    assert writer.triggers == [AVAILABLE_NOW, UNTIL_STOPPED]


def test_request_that_no_run_can_find_is_not_repeated_for_ever(control: Control) -> None:
    """The driver may have a temporary directory of its own on this machine."""
    writer = runs_of(control, no_batch, does_not_find_its_request, no_batch)
    assert returned(writer) is writer.queries[2]
    assert writer.triggers == [AVAILABLE_NOW, UNTIL_STOPPED, AVAILABLE_NOW]


def test_driver_on_another_machine_gets_no_request(control: Control) -> None:
    """Its temporary directory may have the same path as the one here, where it would not find the request."""
    writer = runs_of(control._replace(host="elsewhere"), batch, batch, no_batch)
    assert returned(writer) is writer.queries[2]
    assert writer.triggers == [AVAILABLE_NOW] * 3


@pytest.mark.parametrize("elsewhere", [None, Control("host", "/no/such/folder")])
def test_driver_elsewhere_repeats_runs_until_one_has_no_batch(elsewhere: Control | None) -> None:
    writer = runs_of(elsewhere, batch, batch, no_batch)
    assert returned(writer) is writer.queries[2]
    assert writer.triggers == [AVAILABLE_NOW] * 3
