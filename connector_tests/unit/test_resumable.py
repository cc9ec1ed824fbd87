"""What an earlier start of a query has left to the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rocketmq_spark.source.stream.control_folder import EndRequest, new_folder
from rocketmq_spark.source.stream.drain import CONTROL, Control
from rocketmq_spark.source.stream.resumable import Resumable


class Reader(Resumable):
    def __init__(self) -> None:
        super().__init__()
        self.is_prepared = False

    def prepareForTriggerAvailableNow(self) -> None:
        self.is_prepared = True


@pytest.fixture
def before() -> Iterator[Control]:
    folder = new_folder()
    folder.cleanup()
    yield Control("host", folder.name)
    folder.cleanup()


def shown(control: Control) -> dict[str, Any]:
    return {CONTROL: control._asdict()}


def test_reader_of_a_newer_spark_is_never_resumed() -> None:
    reader = Reader()
    reader.rest()
    assert (reader.control_before, reader.may_end_unasked, reader.is_prepared) == (None, False, False)


@pytest.mark.parametrize("shown_before", [{}, {CONTROL: None}, {CONTROL: {"host": 1}}, {CONTROL: {"folder": "f"}}])
def test_start_without_a_control_before_may_still_end_unasked(shown_before: dict[str, Any]) -> None:
    reader = Reader()
    reader.resume(shown_before)
    reader.rest()
    assert (reader.control_before, reader.may_end_unasked, reader.is_prepared) == (None, True, False)


def test_start_without_an_end_request_reads_on(before: Control) -> None:
    reader = Reader()
    reader.resume(shown(before))
    reader.rest()
    assert (reader.control_before, reader.is_prepared) == (before, False)
    assert not before.path.exists()


def test_end_request_is_found_once_and_answered_at_rest(before: Control) -> None:
    request = EndRequest.made(before)
    assert request is not None
    reader, other = Reader(), Reader()
    reader.resume(shown(before))
    other.resume(shown(before))
    assert (reader.is_prepared, other.is_prepared) == (True, False)
    other.rest()
    assert (request.is_found, request.is_reached) == (True, False)
    reader.rest()
    assert request.is_reached
    request.withdraw()
    assert not before.path.exists()


def test_end_request_waits_for_the_start_before_to_leave(before: Control) -> None:
    before.path.mkdir(mode=0o700)
    assert EndRequest.made(before) is None
    before.path.rmdir()


def test_end_request_is_neither_made_nor_found_on_another_machine() -> None:
    elsewhere = Control("host", "/no/such/folder")
    assert EndRequest.made(elsewhere) is None
    assert EndRequest.found(elsewhere) is None
