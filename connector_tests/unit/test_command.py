"""Vectors: a response of a 5.5.0 broker, and a binary header that Java's RocketMQSerializable wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType

import pytest

from rocketmq_spark.errors import LocalProtocolError, RemoteProtocolError
from rocketmq_spark.wire.remoting.codes import LanguageCode, RequestCode
from rocketmq_spark.wire.remoting.command import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    MAX_HEADER_BYTES,
    MAX_REQUEST_BYTES,
    RemotingCommand,
    Serialization,
    decode,
    encode,
)

RESPONSE_HEADER = (
    b'{"code":0,"extFields":{"offset":"6"},"flag":1,"language":"JAVA","opaque":10,'
    b'"serializeTypeCurrentRPC":"JSON","version":513}'
)
BINARY_FRAME = bytes.fromhex("0000002501000021000e0000000000000500000000000000000000000c0005746f7069630000000154")
MINIMAL = b'{"code":0,"opaque":1}'
NO_NUMBERS = "'code', 'opaque', 'flag' and 'version' are not all whole numbers"


def frame_of(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    return (serialization << 24 | len(header)).to_bytes(4, "big") + header + body


def test_a_brokers_response_is_understood() -> None:
    command = decode(frame_of(RESPONSE_HEADER, b"body"))
    assert command == RemotingCommand(0, 10, FLAG_RESPONSE, LanguageCode.JAVA, 513, None, {"offset": "6"}, b"body")
    assert command.is_response
    assert not command.is_oneway


def test_the_binary_header_is_the_one_that_java_writes() -> None:
    command = RemotingCommand(14, 5, language=LanguageCode.JAVA, version=0, fields={"topic": "T"})
    assert encode(command, Serialization.ROCKETMQ) == BINARY_FRAME
    assert decode(BINARY_FRAME[4:]) == command


def test_our_json_header_has_one_spelling() -> None:
    command = RemotingCommand(
        RequestCode.PULL_MESSAGE, 7, FLAG_ONEWAY, remark="ä", fields={"b": "1", "a": "2"}, body=b"xy"
    )
    header = (
        '{"code":11,"language":"PYTHON","version":513,"opaque":7,"flag":2,"remark":"ä",'
        '"extFields":{"b":"1","a":"2"},"serializeTypeCurrentRPC":"JSON"}'
    ).encode()
    frame = frame_of(header, b"xy")
    assert encode(command) == len(frame).to_bytes(4, "big") + frame


def test_fields_may_be_any_mapping() -> None:
    fields = MappingProxyType({"topic": "T"})
    for serialization in Serialization:
        assert decode(encode(RemotingCommand(14, fields=fields), serialization)[4:]).fields == fields


def test_what_is_empty_is_omitted_from_the_json_header() -> None:
    header = json.loads(encode(RemotingCommand(34))[8:])
    assert header.keys() == {"code", "language", "version", "opaque", "flag", "serializeTypeCurrentRPC"}


def test_a_body_is_a_view_into_its_frame() -> None:
    frame = frame_of(MINIMAL, b"body")
    body = decode(frame).body
    assert isinstance(body, memoryview)
    assert body.obj is frame


def test_each_frame_is_decoded_by_its_own_type() -> None:
    """A broker answers a binary request in JSON: it uses its own serialization, not the request's."""
    assert decode(BINARY_FRAME[4:]).code == 14
    assert decode(frame_of(RESPONSE_HEADER)).opaque == 10


def test_a_minimal_header_is_enough() -> None:
    assert decode(frame_of(MINIMAL)) == RemotingCommand(0, 1, language=LanguageCode.OTHER, version=0)


@pytest.mark.parametrize("language", [b'"KLINGON"', b"[]", b"null", b"99"])
def test_an_unknown_language_is_no_error(language: bytes) -> None:
    assert decode(frame_of(b'{"code":0,"opaque":1,"language":%s}' % language)).language is LanguageCode.OTHER


def test_an_unknown_language_number_is_no_error() -> None:
    binary = bytearray(BINARY_FRAME[4:])
    binary[6] = 99
    assert decode(bytes(binary)).language is LanguageCode.OTHER


def test_an_unknown_response_code_is_kept() -> None:
    assert decode(frame_of(b'{"code":987654,"opaque":1}')).code == 987654


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (b"", "the frame has 0 bytes"),
        (b"\0\0\0", "the frame has 3 bytes"),
        (b"\0\0\0\x05{}", "it announces 5 bytes, of which the frame has 2"),
        (frame_of(b"{}"), NO_NUMBERS),
        (frame_of(b"[]"), "it is no JSON object"),
        (frame_of(b""), "Expecting value: line 1 column 1 (char 0)"),
        (frame_of(MINIMAL + b" trailing"), "it is no JSON object"),
        (frame_of(b'{"code":"0","opaque":1}'), NO_NUMBERS),
        (frame_of(b'{"code":0}'), NO_NUMBERS),
        (frame_of(b'{"code":0,"opaque":1,"flag":"1"}'), NO_NUMBERS),
        (frame_of(b'{"code":0,"opaque":1,"version":"1"}'), NO_NUMBERS),
        (frame_of(b'{"code":true,"opaque":1}'), NO_NUMBERS),
        (frame_of(b'{"code":0.5,"opaque":1}'), NO_NUMBERS),
        (frame_of(b'{"code":0,"opaque":1,"remark":5}'), "'remark' is no text"),
        (frame_of(b'{"code":0,"opaque":1,"extFields":{"a":1}}'), "'extFields' is no map of texts"),
        (frame_of(b'{"code":0,"opaque":1,"extFields":[]}'), "'extFields' is no map of texts"),
        (frame_of(b'{"code":%s,"opaque":1}' % (b"9" * 5000)), "Exceeds the limit *"),
        (frame_of(b"\xff"), "* can't decode byte 0xff *"),
        (frame_of(b"[" * 100_000), "maximum recursion depth exceeded*"),
        (frame_of(MINIMAL, serialization=2), "serialization 2 is unknown"),
        (frame_of(BINARY_FRAME[8:-1], serialization=1), "12 bytes of extFields are announced, 11 are there"),
        (frame_of(BINARY_FRAME[8:] + b"\0", serialization=1), "12 bytes of extFields are announced, 13 are there"),
        (frame_of(BINARY_FRAME[8:20], serialization=1), "unpack_from requires a buffer of at least *"),
    ],
)
def test_a_header_that_is_none_is_the_remote_ends_error(frame: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frame)
    assert (caught.value.condition, caught.value.context["subject"]) == ("MALFORMED_RESPONSE.HEADER", "frame")
    assert fnmatchcase(str(caught.value.context["problem"]), problem)


@pytest.mark.parametrize("length", [-1, 17, 2**31 - 1])
def test_a_binary_text_stays_within_its_header(length: int) -> None:
    header = BINARY_FRAME[8:21] + length.to_bytes(4, "big", signed=True) + BINARY_FRAME[25:]
    with pytest.raises(RemoteProtocolError, match=f"a text of {length} bytes at byte 17 of 33"):
        decode(frame_of(header, serialization=1))


@pytest.mark.parametrize(
    ("command", "serialization", "problem"),
    [
        (RemotingCommand(200050), Serialization.ROCKETMQ, "a header of request 200050 holds * format requires *"),
        (RemotingCommand(7, opaque=2**31), Serialization.ROCKETMQ, "a header of request 7 holds * format requires *"),
        (RemotingCommand(7, fields={"k" * 32768: ""}), Serialization.ROCKETMQ, "a header of request 7 holds *"),
        (
            RemotingCommand(7, remark="\ud800"),
            Serialization.JSON,
            "a header of request 7 holds * surrogates not allowed",
        ),
        (RemotingCommand(7, remark="\ud800"), Serialization.ROCKETMQ, "a header of request 7 holds * not allowed"),
        (
            RemotingCommand(0, 1, FLAG_RESPONSE, fields={"k": "v" * 2**24}),
            Serialization.JSON,
            "a header of 16777334 bytes; 16777215 is the most",
        ),
        (
            RemotingCommand(310, body=bytes(MAX_REQUEST_BYTES)),
            Serialization.JSON,
            "a request of 16777323 bytes; 16777216 is the most",
        ),
    ],
)
def test_what_no_server_would_take_is_refused_here(
    command: RemotingCommand, serialization: Serialization, problem: str
) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        encode(command, serialization)
    assert caught.value.condition == "INVALID_MESSAGE"
    assert fnmatchcase(str(caught.value.context["problem"]), problem)


def test_a_request_may_be_as_long_as_a_server_reads() -> None:
    assert MAX_REQUEST_BYTES == 16_777_216
    empty_bytes = len(encode(RemotingCommand(310)))
    longest = RemotingCommand(310, body=bytes(MAX_REQUEST_BYTES - empty_bytes))
    assert len(encode(longest)) == MAX_REQUEST_BYTES
    with pytest.raises(LocalProtocolError):
        encode(RemotingCommand(310, body=bytes(MAX_REQUEST_BYTES - empty_bytes + 1)))


def test_a_header_may_be_as_long_as_its_length_can_encode() -> None:
    empty_bytes = len(encode(RemotingCommand(0, 1, FLAG_RESPONSE, remark=""))) - 8
    longest = RemotingCommand(0, 1, FLAG_RESPONSE, remark="x" * (MAX_HEADER_BYTES - empty_bytes))
    assert decode(encode(longest)[4:]) == longest
    with pytest.raises(LocalProtocolError, match="a header of 16777216 bytes"):
        encode(replace(longest, remark="x" * (MAX_HEADER_BYTES - empty_bytes + 1)))


def test_a_response_may_be_longer_than_a_request() -> None:
    """A pull may bring 128 MiB; the limit is that of a server's decoder."""
    response = RemotingCommand(0, 1, FLAG_RESPONSE, body=bytes(MAX_REQUEST_BYTES))
    assert decode(memoryview(encode(response))[4:]) == response
