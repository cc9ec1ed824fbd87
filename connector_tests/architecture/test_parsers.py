"""What parses bytes or text that a server, a producer or a file has, by what it calls: each is bounded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from connector_tests.architecture.test_named_in_docs import NAMED, missing
from connector_tests.properties.test_claims import INPUTS

PACKAGE: Final = Path(__file__).parents[2] / "rocketmq_spark"
PARSING: Final = {
    "FromString", "ParseFromString", "_native", "decompress", "decompressobj", "from_fields", "frombuffer",
    "iter_unpack", "literal_eval", "parse_fastjson", "unpack", "unpack_from",
}  # fmt: skip
"""Names by which bytes or text become values; ``loads`` counts of ``json`` and ``pickle``."""
LOADING: Final = {"json", "pickle", "marshal"}

HEADERS: Final = "properties/test_claims.py::test_a_number_of_a_header_has_64_bits_or_is_refused"
ANY_TEXT: Final = "Python's parser bounds depth; it reads text that the caller already holds, and makes no more of it"
BOUNDED: Final = {
    "cli/demo.py": "progress of the demo's own queries",
    "cli/offset_targets.py": ANY_TEXT,
    "consumer/offset_store.py": "stored offsets",
    "consumer/request_handlers.py": HEADERS,
    "options/kinds.py": "options are the user's own",
    "pop/grpc_transport.py": "unit/test_session.py::test_responses_beyond_the_limit_are_an_error",
    "pop/pop_responses.py": "pop answer",
    "pop/spooled_batch.py": "spooled batch",
    "proxy/connection.py": "unit/test_session.py::test_responses_beyond_the_limit_are_an_error",
    "remoting/broker_rpcs.py": HEADERS,
    "remoting/pop_broker.py": HEADERS,
    "remoting/proxied_broker.py": HEADERS,
    "sink/message_ids.py": "hashes of our own",
    "sink/send_batches.py": "offsets in Arrow arrays of our own",
    "source/batch/batch_plan.py": "stored plan",
    "source/pop/message_tasks.py": "stored messages",
    "source/stream/shown_progress.py": ANY_TEXT,
    "wire/arrow/native_columns.py": "properties/test_native_fuzz.py::"
    "test_mutated_bodies_are_decoded_as_python_does_or_refused",
    "wire/arrow/property_table.py": "columns",
    "wire/arrow/record_columns.py": "columns",
    "wire/arrow/record_index.py": "columns",
    "wire/body/decoding.py": "topic route",
    "wire/body/subscription.py": "members of a group",
    "wire/grpc/message_columns.py": "unit/test_message_columns.py::test_what_comes_out_of_a_body_is_bounded",
    "wire/message/batch.py": "inner batch",
    "wire/message/compression.py": "compressed body",
    "wire/message/stored_message.py": "stored messages",
    "wire/remoting/command.py": "binary frame",
    "wire/remoting/fast_path_response.py": "properties/test_native_fuzz.py::"
    "test_mutated_responses_are_read_as_python_does",
    "wire/remoting/frame_arena.py": "JSON header",
    "wire/remoting/native_responses.py": "properties/test_native_fuzz.py::"
    "test_mutated_responses_are_read_as_python_does",
    "wire/remoting/pull.py": "JSON header",
    "wire/remoting/send.py": HEADERS,
}
"""Of each module that parses: one of ``INPUTS`` that reaches it, a test, or a reason why nothing has to bound it."""


def parsed_by(source: str) -> Iterator[str]:
    """Names of ``PARSING`` that a module uses, and ``loads``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            of = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in PARSING or (node.attr in {"load", "loads"} and of in LOADING):
                yield node.attr
        elif isinstance(node, ast.Name) and node.id in PARSING:
            yield node.id
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            names = {one.name for one in node.names}
            yield from names & (PARSING | {"load", "loads"} if module in LOADING else PARSING)


def test_each_module_that_parses_is_bounded_by_an_input_a_test_or_a_reason() -> None:
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if not path.stem.endswith("_pb2")
    }
    imports_only = {"wire/remoting/fastjson.py"}  # defines parse_fastjson, and has a parser of its own
    found = {name for name, text in sources.items() if any(parsed_by(text))}
    assert found - imports_only == BOUNDED.keys()


def test_what_bounds_a_parser_is_there() -> None:
    tests = [bound for bound in BOUNDED.values() if "::" in bound]
    assert [bound for bound in tests if not NAMED.fullmatch(f"`{bound}`") or missing(f"`{bound}`")] == []
    others = {bound for bound in BOUNDED.values() if "::" not in bound}
    assert sorted(others - INPUTS.keys()) == sorted(
        {ANY_TEXT, "progress of the demo's own queries", "options are the user's own", "hashes of our own"}
        | {"offsets in Arrow arrays of our own"}
    )


@pytest.mark.parametrize(
    "line",
    [
        "import json\ndef read(text): return json.loads(text)",
        "from json import loads",
        "from rocketmq_spark.wire import _native",
        "def length(data): return SIZE.unpack_from(data)[0]",
        "read = Response.FromString",
        "struct.unpack('>i', data)",
        "ast.literal_eval(text)",
    ],
)
def test_a_parser_is_found_by_what_it_calls(line: str) -> None:
    assert list(parsed_by(line))


@pytest.mark.parametrize("line", ["spark.read.load(path)", "import json\njson.dumps(1)", "struct.pack('>i', 1)"])
def test_what_parses_nothing_is_not_found(line: str) -> None:
    assert list(parsed_by(line)) == []
