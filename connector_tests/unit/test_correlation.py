from __future__ import annotations

from itertools import islice

import pytest

from rocketmq_spark.errors import RemoteProtocolError, TransportError
from rocketmq_spark.remoting.correlation import (
    MAX_OPAQUE,
    UNRESPONSIVE_LIMIT_MS,
    decode_command,
    opaques,
    timeout_error,
    unresponsive_error,
)
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, encode

ADDRESS = "a:1"
DAMAGED = (8).to_bytes(4) + (4).to_bytes(4) + b"{no}"


def test_numbers_go_round_within_what_java_takes_for_an_int() -> None:
    assert list(islice(opaques(), 3)) == [1, 2, 3]
    assert list(islice(opaques(MAX_OPAQUE - 1), 4)) == [MAX_OPAQUE - 1, MAX_OPAQUE, 0, 1]


def test_a_server_that_is_late_is_named_with_its_request() -> None:
    error = timeout_error(ADDRESS, RequestCode.PULL_MESSAGE, 3_000)
    assert (error.condition, dict(error.context)) == (
        "RESPONSE_TIMED_OUT",
        {"address": ADDRESS, "request": "PULL_MESSAGE", "timeout_ms": 3_000},
    )


def test_a_server_times_out_at_its_limit_and_not_before() -> None:
    assert unresponsive_error(ADDRESS, UNRESPONSIVE_LIMIT_MS - 1) is None
    error = unresponsive_error(ADDRESS, UNRESPONSIVE_LIMIT_MS)
    assert isinstance(error, TransportError)
    assert (error.condition, error.context["address"]) == ("CONNECTION_LOST", ADDRESS)
    assert f"no response to any request for {UNRESPONSIVE_LIMIT_MS} ms" in str(error)


def test_a_frame_is_read_and_a_damaged_one_names_its_sender() -> None:
    command = RemotingCommand(RequestCode.HEART_BEAT, opaque=7)
    assert decode_command(ADDRESS, memoryview(encode(command))[4:]) == command
    with pytest.raises(RemoteProtocolError, match=r"MALFORMED_FRAME.*a:1.*cannot decode its header") as raised:
        decode_command(ADDRESS, memoryview(DAMAGED)[4:])
    assert isinstance(raised.value.__cause__, RemoteProtocolError)
