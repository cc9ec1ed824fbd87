"""The guide shows lines as they are said: the stories that make such lines hold them to the same shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector_tests.support.said_lines import SHAPES, shapes_of

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "what-it-says.md"
OURS = " rocketmq_spark ["


def lines_of_the_guide() -> list[str]:
    return [line for line in GUIDE.read_text(encoding="utf-8").splitlines() if OURS in line]


def test_every_line_that_the_guide_shows_is_one_that_is_said_and_every_kind_is_shown() -> None:
    assert set(shapes_of(lines_of_the_guide())) == SHAPES.keys()


def test_a_line_of_another_shape_is_noticed() -> None:
    who = "26/11/22 23:11:17 WARN rocketmq_spark [group=g clientId=c]: "
    assert shapes_of([who + "left the group"]) == ["left"]
    for line in (who + "the group was left", who.replace("WARN", "WARNING") + "left the group", "left the group"):
        with pytest.raises(AssertionError, match="left"):
            shapes_of([line])
