"""What the operating system and TLS raise, as this package's errors; and bytes that go into a room."""

from __future__ import annotations

import ssl

import pytest

from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.stream import (
    copy_into,
    raising_connect_failed,
    raising_connection_lost,
    reason_of,
    write_timeout_error,
)


def test_bytes_go_to_the_beginning_of_the_memory() -> None:
    room = bytearray(b"......")
    assert copy_into(memoryview(room), b"abc") == 3
    assert room == b"abc..."
    assert copy_into(memoryview(room), b"") == 0
    assert room == b"abc..."


def test_nothing_in_time_leaves_the_memory_as_it_is() -> None:
    room = bytearray(b"...")
    assert copy_into(memoryview(room), None) is None
    assert room == b"..."


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), ssl.SSLError(1, "reset")], ids=repr)
def test_what_the_system_raises_on_a_connection_is_its_loss(error: OSError) -> None:
    with pytest.raises(TransportError) as caught, raising_connection_lost("a:1"):
        raise error
    assert (caught.value.condition, caught.value.context) == ("CONNECTION_LOST", {"address": "a:1", "reason": "reset"})
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [OSError("no route"), ValueError("no route"), OverflowError("no route")], ids=repr)
def test_what_an_address_can_raise_is_a_failure_to_connect(error: Exception) -> None:
    with pytest.raises(TransportError) as caught, raising_connect_failed("a:1"):
        raise error
    context = {"address": "a:1", "reason": "no route"}
    assert (caught.value.condition, caught.value.context) == ("CONNECT_FAILED", context)
    assert caught.value.__cause__ is error


def test_other_errors_are_let_through() -> None:
    with pytest.raises(ZeroDivisionError), raising_connection_lost("a:1"), raising_connect_failed("a:1"):
        raise ZeroDivisionError


def test_a_remote_end_that_does_not_read_is_a_lost_connection_and_reports_for_how_long() -> None:
    error = write_timeout_error("a:1", 250)
    reason = "it accepted no data for 250 ms"
    assert (error.condition, error.context) == ("CONNECTION_LOST", {"address": "a:1", "reason": reason})


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError("no number"), "no number"),
        (ValueError("port must be 0-65535"), "port must be 0-65535"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_reason_is_what_the_system_reports_else_the_error_s_text_else_its_name(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
