from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting import headers
from rocketmq_spark.wire.remoting.codes import PullSysFlag, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.fields import Header, header, wire
from rocketmq_spark.wire.remoting.headers import (
    GetConsumerRunningInfoRequest,
    GetRouteInfoRequest,
    OffsetResponse,
    PullMessageRequest,
    PullMessageResponse,
    QueryConsumerOffsetRequest,
    SendMessageRequest,
)
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus, read_pull

ALL_HEADERS = [
    kind for _, kind in inspect.getmembers(headers, inspect.isclass) if issubclass(kind, Header) and kind is not Header
]
VALUES: dict[str, Any] = {"str": "text", "int": -7, "bool": True}


def filled(kind: type[Header]) -> Header:
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(kind)  # type: ignore[arg-type]  # @header makes it a dataclass
    return kind(**{field.name: VALUES[str(field.type).removesuffix(" | None")] for field in fields})


@pytest.mark.parametrize("kind", ALL_HEADERS)
def test_a_header_is_read_as_it_was_written(kind: type[Header]) -> None:
    header = filled(kind)
    fields = header.to_fields()
    assert kind.from_fields(fields) == header
    assert len(fields) == len(kind.rows)
    assert {type(value) for value in fields.values()} == {str}


@pytest.mark.parametrize("kind", ALL_HEADERS)
def test_what_must_be_there_and_is_not_is_named(kind: type[Header]) -> None:
    required = [row.wire_name for row in kind.rows if row.is_required]
    for name in required:
        fields = filled(kind).to_fields()
        del fields[name]
        with pytest.raises(RemoteProtocolError, match=f"header of a {kind.__name__}: '{name}' is missing"):
            kind.from_fields(fields)


def test_what_has_a_default_may_be_missing() -> None:
    with pytest.raises(RemoteProtocolError, match="'nextBeginOffset' is missing"):
        PullMessageResponse.from_fields({})
    header = PullMessageResponse.from_fields({"nextBeginOffset": "1", "minOffset": "2", "maxOffset": "3"})
    assert header == PullMessageResponse(next_begin_offset=1, min_offset=2, max_offset=3)


def test_a_pull_is_written_as_the_java_client_does() -> None:
    request = PullMessageRequest(
        consumer_group="g",
        topic="T",
        queue_id=1,
        queue_offset=2,
        max_message_count=32,
        sys_flag=PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION,
        suspend_timeout_ms=15_000,
        subscription="TagA",
        expression_type="TAG",
    )
    assert list(request.to_fields().items()) == [
        ("consumerGroup", "g"),
        ("topic", "T"),
        ("queueId", "1"),
        ("queueOffset", "2"),
        ("maxMsgNums", "32"),
        ("sysFlag", "6"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "15000"),
        ("subscription", "TagA"),
        ("subVersion", "0"),
        ("expressionType", "TAG"),
    ]


def test_a_pulls_response_is_read_from_what_a_broker_sends() -> None:
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "9223372036854775807",
        "minOffset": "0",
        "maxOffset": "7",
        "offsetDelta": "0",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    header = PullMessageResponse.from_fields(fields)
    assert (header.next_begin_offset, header.min_offset, header.max_offset) == (2**63 - 1, 0, 7)


def test_a_response_without_a_remark_has_no_reason() -> None:
    numbers = {"nextBeginOffset": "1", "minOffset": "2", "maxOffset": "3"}
    response = RemotingCommand(ResponseCode.PULL_NOT_FOUND, fields=numbers)
    assert read_pull(response) == PullResult(PullStatus.NO_NEW_MSG, "", 1, 2, 3, memoryview(b""))


@pytest.mark.parametrize("offset", [0, -1, 2**63 - 1, -(2**63)])
def test_every_long_is_a_real_offset(offset: int) -> None:
    assert OffsetResponse.from_fields(OffsetResponse(offset=offset).to_fields()).offset == offset


def test_a_query_requests_no_made_up_zero() -> None:
    """A broker answers 0 for a young queue without an offset unless it is told not to."""
    fields = QueryConsumerOffsetRequest(consumer_group="g", topic="T", queue_id=0).to_fields()
    assert fields["setZeroIfNotFound"] == "false"


def test_a_route_is_required_in_standard_json() -> None:
    assert GetRouteInfoRequest(topic="T").to_fields() == {"topic": "T", "acceptStandardJsonOnly": "true"}


def test_a_send_has_single_letters_and_no_absent_ones() -> None:
    request = SendMessageRequest(producer_group="p", topic="T", queue_id=-1, born_timestamp_ms=5, is_batch=True)
    assert request.to_fields() == {
        "a": "p", "b": "T", "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "5", "h": "0", "i": "", "j": "0",
        "k": "false", "m": "true",
    }  # fmt: skip


@pytest.mark.parametrize(("text", "value"), [("true", True), ("True", True), ("TRUE", True), ("1", False), ("", False)])
def test_booleans_are_read_as_java_does(text: str, value: bool) -> None:
    fields = {"consumerGroup": "g", "clientId": "c", "jstackEnable": text}
    assert GetConsumerRunningInfoRequest.from_fields(fields).includes_jstack is value


@pytest.mark.parametrize("text", ["", "x", "1.5", str(2**63), str(-(2**63) - 1), "9" * 5000])
def test_a_number_that_is_none_is_the_remote_ends_error(text: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        OffsetResponse.from_fields({"offset": text})
    assert caught.value.context == {"subject": "OffsetResponse", "problem": f"'offset' is {text[:100]!r}"}


def test_a_header_is_laid_out_from_its_fields() -> None:
    @header
    class Sample(Header):
        name: str = wire("n")
        count: int | None = wire("c", default=None)
        is_on: bool = wire("o", default=False)

    assert [(row.attribute, row.wire_name, row.is_required) for row in Sample.rows] == [
        ("name", "n", True),
        ("count", "c", False),
        ("is_on", "o", False),
    ]
    assert Sample(name="a").to_fields() == {"n": "a", "o": "false"}
    whole = Sample(name="a", count=7, is_on=True)
    assert whole.to_fields() == {"n": "a", "c": "7", "o": "true"}
    assert Sample.from_fields({"n": "a", "c": "7", "o": "TRUE"}) == whole
    assert Sample.from_fields({"n": "a"}) == Sample(name="a", count=None, is_on=False)
