"""How bodies are read: what a builder makes of them, and whose error it is when it cannot."""

from __future__ import annotations

import pytest

from connector_tests.support.queues import queue
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.body.decoding import by_queue, decode_body
from rocketmq_spark.wire.remoting.typed import Object, as_int64, int64

OFFSETS = b'{"offsetTable":{{"topic":"orders","brokerName":"broker-a","queueId":1}:5}}'


def number(entry: Object) -> int:
    return int64(entry, "n")


def test_a_body_is_what_its_builder_makes_of_it() -> None:
    assert decode_body("number", b'{"n":7}', number) == 7


@pytest.mark.parametrize("body", [b'{"n":"7"}', b"{}", b"[]", b"null", b"{", b""])
def test_what_cannot_be_built_is_the_remote_ends_error_with_the_subject(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as raised:
        decode_body("number", body, number)
    assert (raised.value.condition, raised.value.context["subject"]) == ("MALFORMED_RESPONSE.BODY", "number")


def test_a_table_may_have_queues_as_keys() -> None:
    assert decode_body("offsets", OFFSETS, lambda entry: by_queue(entry, "offsetTable", as_int64)) == {queue(1): 5}


def test_a_key_that_is_no_queue_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="a key of offsetTable"):
        decode_body("offsets", b'{"offsetTable":{"orders":5}}', lambda it: by_queue(it, "offsetTable", as_int64))


def test_a_key_in_quotes_that_is_torn_is_named() -> None:
    with pytest.raises(RemoteProtocolError) as raised:
        decode_body("offsets", b'{"offsetTable":{"{":5}}', lambda it: by_queue(it, "offsetTable", as_int64))
    assert (raised.value.condition, raised.value.context["subject"]) == ("MALFORMED_RESPONSE.BODY", "key")
