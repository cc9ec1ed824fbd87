"""Each header as its Java class reads and writes it: names, kinds, and what must be there."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from random import Random
from typing import Any, Final, get_type_hints

import pytest

from connector_tests.support.java_values import random_text
from rocketmq_spark.wire.remoting import headers
from rocketmq_spark.wire.remoting.command import RemotingCommand, Serialization, decode, encode
from rocketmq_spark.wire.remoting.fields import Header

OURS: Final = [kind for kind in vars(headers).values() if isinstance(kind, type) and Header in kind.__bases__]

OFFSETS: Final = ["GetMaxOffset", "GetMinOffset", "SearchOffset", "QueryConsumerOffset"]
OTHER_NAMES: Final[dict[type[Header], list[str]]] = {
    headers.GetRouteInfoRequest: ["namesrv.GetRouteInfoRequestHeader"],
    headers.DeleteTopicFromNamesrvRequest: ["namesrv.DeleteTopicFromNamesrvRequestHeader"],
    headers.SendMessageRequest: ["SendMessageRequestHeaderV2"],
    headers.OffsetResponse: [f"{request}ResponseHeader" for request in OFFSETS],
}
"""The others are called as ours, and ``Header``."""

ONLY_VALUES: Final = {"topicFilterType": "SINGLE_TAG", "boundaryType": "UPPER"}
"""Texts that Java takes only from a list."""

PAIRS: Final = [(ours, name) for ours in OURS for name in OTHER_NAMES.get(ours, [f"{ours.__name__}Header"])]


@pytest.mark.parametrize("serialization", Serialization, ids=lambda serialization: serialization.name)
@pytest.mark.parametrize(("ours", "name"), PAIRS, ids=lambda value: getattr(value, "__name__", value))
def test_a_header_comes_back_from_its_java_class(
    java: Any, ours: type[Header], name: str, serialization: Serialization
) -> None:
    random = Random(name)
    for is_full in (True, False):
        header = random_header(random, ours, is_full)
        frame = through_java(java, encode(RemotingCommand(0, fields=header.to_fields()), serialization), name)
        assert ours.from_fields(decode(frame).fields) == header


def test_every_header_is_compared() -> None:
    declared = ast.parse(Path(headers.__file__).read_text(encoding="utf-8")).body
    assert [kind.__name__ for kind in OURS] == [one.name for one in declared if isinstance(one, ast.ClassDef)]
    assert set(OTHER_NAMES) <= set(OURS)


def random_header(random: Random, kind: type[Header], is_full: bool) -> Header:
    """With all fields, or only those without a default of None."""
    hints = get_type_hints(kind)
    fields: list[dataclasses.Field[Any]] = list(dataclasses.fields(kind))  # type: ignore[arg-type]  # @header makes it a dataclass
    chosen = [field for field in fields if is_full or field.default is not None]
    return kind(**{field.name: random_value(random, field, hints[field.name]) for field in chosen})


def random_value(random: Random, field: dataclasses.Field[Any], hint: Any) -> object:
    if field.metadata["wire"] in ONLY_VALUES:
        return ONLY_VALUES[field.metadata["wire"]]
    if bool in (hint, *getattr(hint, "__args__", ())):
        return random.random() < 0.5
    if int in (hint, *getattr(hint, "__args__", ())):
        return random.randrange(2**31)
    return random_text(random)


def through_java(java: Any, frame: bytes, header_class: str) -> bytes:
    """What Java writes after it has read ``frame`` and its header; without the four length bytes."""
    kind = java.java.lang.Class.forName(f"org.apache.rocketmq.remoting.protocol.header.{header_class}")
    command_class = java.org.apache.rocketmq.remoting.protocol.RemotingCommand
    received = command_class.decode(frame[4:])
    response = command_class.createRequestCommand(0, received.decodeCommandCustomHeader(kind))
    response.setSerializeTypeCurrentRPC(received.getSerializeTypeCurrentRPC())
    return bytes(response.encode().array())[4:]
