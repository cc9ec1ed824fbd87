"""RemotingCommand: what one side encodes, the other decodes to the same, in both serializations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from connector_tests.support.java_values import random_text
from rocketmq_spark.wire.remoting.codes import LanguageCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, Serialization, decode, encode

EDGES = [0, 1, -1, 127, 128, 2**31 - 1, -(2**31)]
both_serializations = pytest.mark.parametrize(
    "serialization", Serialization, ids=lambda serialization: serialization.name
)


def random_commands(seed: int) -> Iterator[RemotingCommand]:
    random = Random(seed)
    for _ in range(100):
        yield RemotingCommand(
            code=random.choice([0, 11, 310, 2**15 - 1, random.randrange(2**15)]),
            opaque=random.choice([*EDGES, random.randrange(2**31)]),
            flag=random.randrange(4),
            language=random.choice(list(LanguageCode)),
            version=random.randrange(600),
            remark=random.choice([None, random_text(random, 50), '"quotes" \\ and\nlines\x00']),
            fields={random_text(random): random_text(random, 300) for _ in range(random.randrange(6))},
            body=random.randbytes(random.choice([0, 1, 5000])),
        )


@both_serializations
def test_what_we_encode_java_decodes(java: Any, serialization: Serialization) -> None:
    for command in random_commands(5):
        theirs = java_class(java).decode(encode(command, serialization)[4:])
        assert from_java(theirs) == command
        assert theirs.getSerializeTypeCurrentRPC().name() == serialization.name


@both_serializations
def test_what_java_encodes_we_decode(java: Any, serialization: Serialization) -> None:
    for command in random_commands(6):
        frame = bytes(to_java(java, command, serialization).encode().array())
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert plain(decode(frame[4:])) == command


def test_the_language_numbers_are_those_of_java(java: Any) -> None:
    theirs = java.org.apache.rocketmq.remoting.protocol.LanguageCode.values()
    numbers = {language.name(): language.getCode() for language in theirs}
    assert {language.name: language.value for language in LanguageCode} == numbers


def java_class(java: Any) -> Any:
    return java.org.apache.rocketmq.remoting.protocol.RemotingCommand


def to_java(java: Any, command: RemotingCommand, serialization: Serialization) -> Any:
    protocol = java.org.apache.rocketmq.remoting.protocol
    theirs = java_class(java).createRequestCommand(command.code, None)
    theirs.setOpaque(command.opaque)
    theirs.setFlag(command.flag)
    theirs.setLanguage(protocol.LanguageCode.valueOf(command.language.name))
    theirs.setVersion(command.version)
    theirs.setRemark(command.remark)
    for name, value in command.fields.items():
        theirs.addExtField(name, value)
    theirs.setBody(bytes(command.body) or None)
    theirs.setSerializeTypeCurrentRPC(protocol.SerializeType.valueOf(serialization.name))
    return theirs


def from_java(theirs: Any) -> RemotingCommand:
    return RemotingCommand(
        code=theirs.getCode(),
        opaque=theirs.getOpaque(),
        flag=theirs.getFlag(),
        language=LanguageCode[theirs.getLanguage().name()],
        version=theirs.getVersion(),
        remark=theirs.getRemark(),
        fields=dict(theirs.getExtFields() or {}),
        body=bytes(theirs.getBody() or b""),
    )


def plain(command: RemotingCommand) -> RemotingCommand:
    """With its own body, not a view into a frame."""
    return dataclasses.replace(command, body=bytes(command.body))
