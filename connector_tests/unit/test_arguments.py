"""Numbers on the command line."""

from __future__ import annotations

import argparse
from types import ModuleType

import pytest

from rocketmq_spark.cli import dlq, lag, offsets, tail, topic
from rocketmq_spark.cli.arguments import integer_argument

SET = ("set", "--group", "g", "--topic", "t")
REDRIVE = ("redrive", "--group", "g", "--offset")


@pytest.mark.parametrize(("text", "number"), [("2", 2), ("05", 5), ("9", 9)])
def test_number_within_its_bounds_is_accepted(text: str, number: int) -> None:
    assert integer_argument(2, 9)(text) == number


@pytest.mark.parametrize("text", ["1", "10", "", "x", "3.0", "0_3", "\u0663"])
def test_other_text_is_an_error_with_the_bounds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"^'.*' is not an integer from 2 to 9$"):
        integer_argument(2, 9)(text)


@pytest.mark.parametrize("text", ["x", "", "1_0", "nan", "inf", "0", "86401"])
def test_other_interval_is_an_error_with_the_bounds(text: str) -> None:
    """The error named an internal function for text that is no number."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"^'.*' is not a number from 0\.1 to 86400$"):
        lag.interval_s(text)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (dlq, (*REDRIVE, "a:\u0663:0")),
        (dlq, (*REDRIVE, "a:0:\u0663")),
        (lag, ("--max-lag", "\u0663")),
        (lag, ("--watch", "\u0663")),
        (lag, ("--watch", "1_0")),
        (offsets, (*SET, "--to", "\u0663")),
        (offsets, (*SET, "--to", "0", "--queue", "\u0663")),
        (offsets, (*SET, "--to", "0", "--queue", "-1")),
        (tail, ("t", "-n", "\u0663")),
        (topic, ("create", "t", "--queues", "\u0663")),
    ],
)
def test_number_in_foreign_digits_is_a_usage_error(command: ModuleType, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.new_parser().parse_args(arguments)
    assert ended.value.code == 2
