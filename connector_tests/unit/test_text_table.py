"""Tables of commands."""

from __future__ import annotations

import pytest

from rocketmq_spark.cli.text_table import age_text, text_table


def test_columns_are_aligned_numbers_to_the_right() -> None:
    rows = [("orders", 12, None), ("a", 3, 1000)]
    assert text_table(("topic", "lag", "at"), rows) == [
        "topic   lag    at",
        "orders   12     -",
        "a         3  1000",
    ]


def test_text_of_servers_forges_no_line() -> None:
    assert text_table(("topic",), [("a\nb\x1b[2J",)]) == ["topic", "a\\nb\\x1b[2J"]
    assert text_table(("topic", "lag"), []) == ["topic  lag"]


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (119_949, "119.9 s"),
        (120_000, "2.0 min"),
        (7_200_000, "2.0 h"),
        (172_800_000, "2.0 d"),
    ],
)
def test_ages_have_units(age_ms: int, text: str) -> None:
    assert age_text(age_ms) == text
