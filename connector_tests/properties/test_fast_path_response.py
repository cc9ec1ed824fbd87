"""A template, Python's or Rust's, reads an answer as the general codec does, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from connector_tests.support.decoders import IMPLEMENTATIONS, template_class
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.wire.remoting.command import FLAG_RESPONSE, RemotingCommand, Serialization, decode, encode
from rocketmq_spark.wire.remoting.fast_path_response import FastPathResponse, ResponseTemplate, template_of
from rocketmq_spark.wire.remoting.pull import PULL_STATUS, PullResult, PullStatus, read_pull

CAPTURED = json.loads((Path(__file__).parents[1] / "vectors" / "frames.json").read_text(encoding="utf-8"))["frames"]
FOUND = bytes.fromhex(CAPTURED["pull found"])[4:]
HEADER_BYTES = int.from_bytes(FOUND[:4], "big")
HEADER, BODY = FOUND[4 : 4 + HEADER_BYTES].decode(), FOUND[4 + HEADER_BYTES :]

NUMBERS = st.integers(0, 2**63 - 1).map(str)
ODD_TEXTS = [
    "",
    "-1",
    "-0",
    "00",
    "007",
    "1.0",
    "1e3",
    " 1",
    "1 ",
    "+1",
    "1_0",
    "\u0661",
    "9" * 18,
    "9" * 19,
    str(2**63),
    "null",
    '"1"',
    "1,2",
    '0","minOffset":"5',
]
ODD_NUMBERS = st.sampled_from(ODD_TEXTS)  # fmt: skip
SNIPPETS = st.sampled_from(['"', "{", "}", ",", ":", "\\", "0", "1", " ", "\n", "\x00", "é", '"opaque":7,', '"a":"1",',
                            '"minOffset":"9",', '"code":19', "FOUND"])  # fmt: skip


def framed(header: str, body: bytes = BODY) -> memoryview:
    data = header.encode()
    return memoryview(len(data).to_bytes(4, "big") + data + body)


@pytest.fixture(params=IMPLEMENTATIONS, scope="module")
def kind(request: pytest.FixtureRequest) -> type[ResponseTemplate]:
    return template_class(request.param)


@pytest.fixture(scope="module")
def template(kind: type[ResponseTemplate]) -> ResponseTemplate:
    """Made from the captured answer."""
    made = template_of(memoryview(FOUND), kind)
    assert type(made) is kind
    return made


def read_by(template: ResponseTemplate, frame: memoryview) -> FastPathResponse | None:
    """What it reads of a frame without its length; None: nothing."""
    responses, end = read_all(template, frame)
    assert len(responses) == bool(end)
    return responses[0] if responses else None


def read_all(template: ResponseTemplate, *frames: memoryview) -> tuple[list[FastPathResponse], int]:
    """What it reads of frames that have come after others, and how far."""
    before, behind = b"before", b"behind"
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    end = len(before) + len(stream)
    responses, read_to = template.read(memoryview(before + stream + behind), len(before), end)
    return responses, read_to - len(before)


def by_codec(frame: memoryview) -> tuple[int, PullResult] | str:
    """Opaque and result; else why there is none."""
    try:
        response = decode(frame)
        if response.code not in PULL_STATUS or not response.is_response:
            return "something else"
        return response.opaque, read_pull(response)
    except RemoteProtocolError as error:
        return error.condition


def with_numbers(**numbers: str) -> str:
    """The captured header with other values."""
    header = HEADER
    for name, number in numbers.items():
        begin = header.index(f'"{name}":') + len(name) + 3
        begin += header[begin] == '"'
        end = begin
        while header[end].isdigit():
            end += 1
        header = header[:begin] + number + header[end:]
    return header


@st.composite
def mutated_headers(draw: st.DrawFn) -> str:
    names = ["opaque", "nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId", "code", "flag", "version"]
    header = with_numbers(**{name: draw(NUMBERS | ODD_NUMBERS) for name in draw(st.sets(st.sampled_from(names)))})
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(header)))
        header = header[:at] + draw(SNIPPETS) + header[at + draw(st.integers(0, 3)) :]
    return header


@given(mutated_headers(), st.binary(max_size=8))
def test_what_the_template_reads_is_what_the_codec_reads(template: ResponseTemplate, header: str, body: bytes) -> None:
    frame = framed(header, body)
    read = read_by(template, frame)
    event(f"read: {read is not None}")
    if read is not None:
        assert read == by_codec(frame)


@pytest.mark.parametrize(
    "name", ["opaque", "nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId", "code"]
)
@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_number_that_is_written_oddly_is_not_read_otherwise_than_by_the_codec(
    template: ResponseTemplate, name: str, text: str
) -> None:
    frame = framed(with_numbers(**{name: text}))
    read = read_by(template, frame)
    assert read is None or read == by_codec(frame)


@given(mutated_headers(), st.lists(mutated_headers(), max_size=5))
def test_whatever_header_a_template_is_made_from_it_agrees_with_the_codec(
    kind: type[ResponseTemplate], learned: str, others: list[str]
) -> None:
    """A header with a number in an unexpected place must give no template that takes it for another."""
    try:
        template = template_of(framed(learned), kind)
    except RemoteProtocolError:
        assert isinstance(by_codec(framed(learned)), str), "the codec refuses it, too"
        return
    for other in (learned, *others):
        read = read_by(template, framed(other)) if template is not None else None
        event(f"read: {read is not None}")
        if read is not None:
            assert read == by_codec(framed(other))


@given(*(st.integers(0, 10**18 - 1),) * 4)
def test_an_ordinary_response_is_read(
    template: ResponseTemplate, opaque: int, next_begin: int, least: int, most: int
) -> None:
    numbers = {"nextBeginOffset": next_begin, "minOffset": least, "maxOffset": most, "opaque": opaque}
    texts = {name: str(number) for name, number in numbers.items()}
    frame = framed(with_numbers(**texts))
    read = read_by(template, frame)
    assert read == (opaque, PullResult(PullStatus.FOUND, "FOUND", next_begin, least, most, memoryview(BODY)))
    assert read == by_codec(frame)


def test_a_response_that_suggests_another_server_is_not_read(template: ResponseTemplate) -> None:
    assert read_by(template, framed(with_numbers(suggestWhichBrokerId="1"))) is None


@pytest.mark.parametrize("cut", [0, 1, 50, len(BODY)])
def test_a_header_that_is_longer_than_its_frame_is_not_read(template: ResponseTemplate, cut: int) -> None:
    frame = framed(HEADER, b"")
    assert read_by(template, frame[: len(frame) - 1]) is None
    longer = (HEADER_BYTES + 1 + cut).to_bytes(4, "big") + bytes(frame[4:])
    assert read_by(template, memoryview(longer)) is None


@pytest.mark.parametrize("name", ["pull at the end", "pull beyond the end"])
def test_a_response_that_found_nothing_gives_no_template_and_is_not_read_by_one(
    template: ResponseTemplate, name: str
) -> None:
    frame = memoryview(bytes.fromhex(CAPTURED[name])[4:])
    assert template_of(frame, type(template)) is None
    assert read_by(template, frame) is None


@pytest.mark.parametrize(
    "header",
    [
        HEADER.replace('"extFields":{', '"x":{"opaque":5},"extFields":{'),
        HEADER.replace('"opaque":1', '"opaque": 1').replace('"extFields":{', '"x":{"opaque":5},"extFields":{'),
        HEADER.replace('"FOUND"', '"7"'),
        HEADER.replace('"minOffset":"0"', '"minOffset":"0","minO\\u0066fset":"5"'),
        HEADER.replace('"minOffset":"0"', '"minOffset":"-5"'),
    ],
)
def test_a_header_that_cannot_be_relied_on_gives_no_template(kind: type[ResponseTemplate], header: str) -> None:
    assert isinstance(by_codec(framed(header)), tuple)
    assert template_of(framed(header), kind) is None


def test_a_number_of_any_name_is_passed_over(kind: type[ResponseTemplate]) -> None:
    header = HEADER.replace('"extFields":{', '"extFields":{"5":"1",')
    template = template_of(framed(header), kind)
    assert template is not None
    assert read_by(template, framed(header.replace('"5":"1"', '"5":"2"'))) == by_codec(framed(header))


def test_the_other_serialization_gives_no_template(kind: type[ResponseTemplate]) -> None:
    fields = {"nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3"}
    response = RemotingCommand(0, opaque=1, flag=FLAG_RESPONSE, remark="FOUND", fields=fields)
    assert template_of(memoryview(encode(response, Serialization.ROCKETMQ))[4:], kind) is None


@pytest.mark.parametrize("read_ahead", [0, 1, 2, 3])
def test_responses_are_read_as_far_as_they_are_whole_and_ordinary(template: ResponseTemplate, read_ahead: int) -> None:
    ordinary = [framed(with_numbers(opaque=str(opaque)), b"m" * opaque) for opaque in range(4)]
    odd = framed(HEADER.replace('"code":0', '"code":1'))
    expected = [by_codec(frame) for frame in ordinary[:read_ahead]]
    size_bytes = sum(4 + len(frame) for frame in ordinary[:read_ahead])
    for behind in ([odd, *ordinary], [odd], []):
        assert read_all(template, *ordinary[:read_ahead], *behind) == (expected, size_bytes)
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in ordinary[: read_ahead + 1])
    for end in range(size_bytes, len(stream)):
        assert template.read(memoryview(stream), 0, end) == (expected, size_bytes)


def test_bodies_lie_where_they_were_received_and_cannot_be_written_to(template: ResponseTemplate) -> None:
    received = bytearray(len(FOUND).to_bytes(4, "big") + FOUND)
    ((_, result),), end = template.read(memoryview(received).toreadonly(), 0, len(received))
    assert (end, type(result)) == (len(received), PullResult)
    assert result.body.readonly
    assert result.body.obj is received
    received[-1] ^= 0xFF
    assert result.body == BODY[:-1] + bytes([BODY[-1] ^ 0xFF])


@pytest.mark.native
def test_the_native_decoder_takes_no_place_that_is_not_required() -> None:
    native = template_class("native")
    from rocketmq_spark.wire import _native
    from rocketmq_spark.wire.remoting.native_responses import NativeResponseTemplate

    assert native is NativeResponseTemplate

    with pytest.raises(ValueError, match="no number that is wanted"):
        _native.ResponseTemplate([(b"", 4)], b"", PullResult, PullStatus.FOUND, "FOUND")
