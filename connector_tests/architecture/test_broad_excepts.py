"""Whoever catches everything is listed here with a reason; all others name what they catch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from connector_tests.architecture.test_named_in_docs import NAMED, missing
from connector_tests.support.innermost import innermost_functions

ROOT = Path(__file__).parents[2]
FOLDERS = ("rocketmq_spark", "connector_tests", "tools", "examples")
EVERYTHING = {"Exception", "BaseException"}


class Reason(NamedTuple):
    why: str
    shown_by: str


OF_THE_PACKAGE = {
    "rocketmq_spark/consumer/member.py::_run": Reason(
        "what ends the member's thread is logged, and raised by the planner's next survey",
        "unit/test_member.py::test_what_ends_the_members_thread_wakes_the_planner_and_is_raised_by_its_next_refresh",
    ),
    "rocketmq_spark/pop/receiver.py::_run": Reason(
        "what ends the receiver's thread is logged, and raised by the planner's next look",
        "integration/test_receiver.py::test_what_ends_the_receivers_thread_is_raised_by_the_next_probe",
    ),
    "rocketmq_spark/pop/workers.py::_work": Reason(
        "what ends a worker is logged, and raised by the planner's next look",
        "unit/test_workers.py::test_what_one_raises_is_reported_and_it_may_work_again",
    ),
    "rocketmq_spark/pop/transport.py::result_or_error": Reason(
        "what ends a poll is logged, and raised by the planner's next look",
        "unit/test_grpc_transport.py::test_what_ends_the_thread_of_a_poll_is_raised_by_the_next_check",
    ),
    "rocketmq_spark/pop/grpc_transport.py::run": Reason(
        "what ends one of several concurrent calls is raised once all have ended",
        "unit/test_grpc_transport.py::test_error_of_a_concurrent_call_is_raised_once_all_have_ended",
    ),
    "rocketmq_spark/remoting/connection.py::_run": Reason(
        "what ends the reader is logged, and becomes the error of everything in flight",
        "unit/test_connection.py::test_an_error_in_a_callback_is_not_swallowed_but_ends_the_connection",
    ),
    "rocketmq_spark/source/stream/graceful_stop.py::stop": Reason(
        "who is interrupted withdraws what was asked; raised again",
        "unit/test_graceful_stop.py::test_a_query_that_is_interrupted_while_it_waits_takes_its_request_back",
    ),
    "rocketmq_spark/embedded/cluster.py::__enter__": Reason(
        "a cluster that has started in part is stopped; raised again",
        "integration/test_embedded_cluster.py::test_nothing_is_left_when_it_cannot_start",
    ),
}
OF_TESTS = {
    "connector_tests/support/strand.py::_live": "raised again where the strand is run",
    "connector_tests/benchmarks/race.py::alternate": "in the report; the other sides go on",
    "connector_tests/benchmarks/stand.py::open_stand": "in the report; the rest goes on without Kafka",
    "connector_tests/benchmarks/race.py::entered": "in the report; the others go on",
    "connector_tests/benchmarks/shared_messages.py::receive_with_official_client": "it is asked again, and counted",
    "connector_tests/benchmarks/__main__.py::outcomes": "in the report; the other parts go on",
}
"""By file and innermost function."""


def broad_ones(source: str) -> Iterator[str]:
    """The innermost functions with a bare except, one of everything, or a suppression of that."""
    return innermost_functions(source, _is_broad)


def _is_broad(node: ast.AST) -> bool:
    if isinstance(node, ast.ExceptHandler):
        return node.type is None or not EVERYTHING.isdisjoint(_names(node.type))
    return (
        isinstance(node, ast.Call)
        and "suppress" in _names(node.func)
        and not EVERYTHING.isdisjoint(name for argument in node.args for name in _names(argument))
    )


def _names(node: ast.AST) -> set[str]:
    """Names and last parts of dotted ones, of a tuple those of each."""
    inner = node.elts if isinstance(node, ast.Tuple) else [node]
    return {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in inner}


def test_everything_is_caught_in_places_that_state_why_and_nowhere_else() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    found = {
        f"{file.relative_to(ROOT).as_posix()}::{function}"
        for file in files
        for function in broad_ones(file.read_text(encoding="utf-8"))
    }
    assert found == OF_THE_PACKAGE.keys() | OF_TESTS.keys()


def test_that_nothing_is_swallowed_by_it_is_shown_by_a_test() -> None:
    assert [reason for reason in OF_THE_PACKAGE.values() if missing(f"`{reason.shown_by}`")] == []
    assert all(NAMED.fullmatch(f"`{reason.shown_by}`") for reason in OF_THE_PACKAGE.values())


@pytest.mark.parametrize(
    "handler",
    [
        "try: pass\n except: pass",
        "try: pass\n except Exception: pass",
        "try: pass\n except (KeyError, BaseException): pass",
        "try: pass\n except builtins.Exception as error: pass",
        "with suppress(Exception): pass",
        "with contextlib.suppress(KeyError, BaseException): pass",
    ],
)
def test_a_broad_one_is_found(handler: str) -> None:
    assert list(broad_ones(f"def f():\n {handler}")) == ["f"]


def test_a_narrow_one_is_not() -> None:
    assert list(broad_ones("try: pass\nexcept KeyError: pass\nwith suppress(OSError): pass")) == []
