"""Our messages to a proxy beside those of the official Python client: numbers, types and methods are the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from rocketmq_spark.proxy.connection import SERVICE
from rocketmq_spark.wire.grpc import messaging_pb2

ROOT: Final = Path(messaging_pb2.__file__).parents[3]
PROTO: Final = Path("rocketmq_spark/wire/grpc/messaging.proto")
OUR_OWN: Final = frozenset({"ReceivedMessages", "ReceivedBody"})
"""Several answers read as one: no message of the protocol."""

PRINT_THEIRS: Final = """
from rocketmq.grpc_protocol import definition_pb2, service_pb2
for file in (definition_pb2.DESCRIPTOR, service_pb2.DESCRIPTOR):
    print(file.serialized_pb.hex())
"""


def theirs_printed() -> list[FileDescriptorProto]:
    """In a process of its own: what the official client brings along is none of ours."""
    done = subprocess.run([sys.executable, "-c", PRINT_THEIRS], capture_output=True, text=True, check=True)
    return [FileDescriptorProto.FromString(bytes.fromhex(line)) for line in done.stdout.split()]


OURS: Final = FileDescriptorProto.FromString(messaging_pb2.DESCRIPTOR.serialized_pb)


@pytest.fixture(scope="module")
def theirs() -> list[FileDescriptorProto]:
    return theirs_printed()


def by_name(things: Any) -> dict[str, Any]:
    return {thing.name: thing for thing in things}


def all_of(files: list[FileDescriptorProto], kind: str) -> dict[str, Any]:
    return {name: thing for file in files for name, thing in by_name(getattr(file, kind)).items()}


def fields_of(message: Any) -> dict[str, tuple[object, ...]]:
    """By name: number, type, whether it is repeated, optional, and of which choice."""
    choices = [choice.name for choice in message.oneof_decl]
    return {
        field.name: (
            field.number,
            field.type,
            field.label,
            field.type_name.rpartition(".")[2],
            field.proto3_optional,
            choices[field.oneof_index] if field.HasField("oneof_index") and not field.proto3_optional else None,
        )
        for field in message.field
    }


def differing(ours: Mapping[str, object], theirs: Mapping[str, object]) -> dict[str, object]:
    return {name: (what, theirs.get(name)) for name, what in ours.items() if theirs.get(name) != what}


def test_messages_have_the_same_fields(theirs: list[FileDescriptorProto]) -> None:
    messages = all_of(theirs, "message_type")
    ours = {name: one for name, one in by_name(OURS.message_type).items() if name not in OUR_OWN}
    assert len(ours) > 25
    wrong = {name: differing(fields_of(one), fields_of(messages[name])) for name, one in ours.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_names_have_the_same_numbers(theirs: list[FileDescriptorProto]) -> None:
    enums = all_of(theirs, "enum_type")
    for name, ours in by_name(OURS.enum_type).items():
        numbers = {value.name: value.number for value in enums[name].value}
        assert differing({value.name: value.number for value in ours.value}, numbers) == {}, name


def test_methods_take_and_give_the_same_and_are_called_by_their_name(theirs: list[FileDescriptorProto]) -> None:
    (service,) = OURS.service
    their_service = all_of(theirs, "service")[service.name]
    package = next(file.package for file in theirs if file.service)
    assert f"/{package}.{service.name}/" == SERVICE
    methods = {one.name: forms_of(one) for one in their_service.method}
    assert differing({one.name: forms_of(one) for one in service.method}, methods) == {}


def forms_of(method: Any) -> tuple[str, str, bool, bool]:
    takes, gives = (one.rpartition(".")[2] for one in (method.input_type, method.output_type))
    return takes, gives, method.client_streaming, method.server_streaming


def test_what_is_read_in_a_form_of_our_own_has_the_same_numbers() -> None:
    messages = by_name(OURS.message_type)
    (theirs,) = (field for field in messages["ReceiveMessageResponse"].field if field.name == "message")
    assert {messages[name].field[0].number for name in OUR_OWN} == {theirs.number}
    (several,) = messages["ReceivedMessages"].field
    assert several.type_name == theirs.type_name
    (ours,) = by_name(messages["ReceivedBody"].nested_type)["Fields"].field
    assert fields_of(messages["Message"])["body"] == fields_of(messages["ReceivedBody"].nested_type[0])[ours.name]


def test_another_number_is_found() -> None:
    wrong = FileDescriptorProto.FromString(OURS.SerializeToString())
    by_name(wrong.message_type)["AckMessageEntry"].field[0].number = 9
    ours, theirs = (fields_of(by_name(file.message_type)["AckMessageEntry"]) for file in (wrong, OURS))
    assert differing(ours, theirs).keys() == {"message_id"}


def test_what_was_generated_is_what_is_generated(tmp_path: Path) -> None:
    """'make stubs' writes it."""
    out = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    compiler = [sys.executable, "-m", "grpc_tools.protoc", "--proto_path=.", *out, str(PROTO)]
    subprocess.run(compiler, check=True, cwd=ROOT, capture_output=True)
    for ending in ("_pb2.py", "_pb2.pyi"):
        name = PROTO.with_name(PROTO.stem + ending)
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), f"{name} is stale"
