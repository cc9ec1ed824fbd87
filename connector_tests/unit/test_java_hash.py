"""Vectors taken from a JVM."""

import pytest

from rocketmq_spark.wire.body.java_hash import java_hash_code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("订单", 1129459),
        ("a😀b", 57849694),
        ("polygenelubricants", -(2**31)),
        ("\ud83d", 0xD83D),
    ],
)
def test_the_hash_is_the_one_of_java_strings(text: str, expected: int) -> None:
    assert java_hash_code(text) == expected
