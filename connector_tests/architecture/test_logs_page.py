"""The guide shows lines as they are said: the stories that make such lines hold them to the same shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector_tests.support.log_shapes import ERROR, SHAPES, outdated_conditions, shapes_of
from rocketmq_spark.errors import TransportError

GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "logs.md"
OURS = " rocketmq_spark ["
SHOWN_ERRORS = [line for line in GUIDE.read_text(encoding="utf-8").splitlines() if ERROR.search(line)]


def lines_of_the_guide() -> list[str]:
    return [line for line in GUIDE.read_text(encoding="utf-8").splitlines() if OURS in line]


def test_every_line_that_the_guide_shows_is_one_that_is_logged_and_every_kind_is_shown() -> None:
    assert set(shapes_of(lines_of_the_guide())) == SHAPES.keys()


def test_a_line_of_another_shape_is_noticed() -> None:
    prefix = "26/11/22 23:11:17 WARN rocketmq_spark [group=g clientId=c]: "
    assert shapes_of([prefix + "GROUP_LEFT: Left the group"]) == ["left"]
    left = "GROUP_LEFT: Left the group"
    for line in (prefix + "GROUP_LEFT: The group was left", prefix.replace("WARN", "WARNING") + left, left):
        with pytest.raises(AssertionError, match=r"(?i)left"):
            shapes_of([line])


def test_there_are_errors_in_the_guide() -> None:
    assert {found["condition"] for line in SHOWN_ERRORS for found in ERROR.finditer(line)} >= {
        "CHECKPOINT_OPTION_CHANGED",
        "CLUSTER_TIMEOUT",
        "DATA_LOSS.OFFSETS_UNAVAILABLE",
    }


@pytest.mark.parametrize("line", SHOWN_ERRORS)
def test_an_error_that_the_guide_shows_reads_as_it_is_raised_now(line: str) -> None:
    """Three had been reworded, and the guide gave the advice of before."""
    assert outdated_conditions(line) == []


def test_an_error_that_reads_otherwise_is_noticed() -> None:
    error = TransportError("CONNECT_FAILED", address="a:1", reason="refused")
    known = str(error)
    assert outdated_conditions(f"waiting for {known}") == []
    assert outdated_conditions(known.replace("server", "servers")) == ["CONNECT_FAILED"]
    around = str(TransportError("CLUSTER_TIMEOUT", subject="It", waited_ms=1, limit_ms=1, cause="%s"))
    assert outdated_conditions(around.replace("%s", error.summary)) == []
    assert outdated_conditions(around.replace("%s", error.summary.replace("connect", "talk"))) == ["CONNECT_FAILED"]
    assert outdated_conditions(around.replace("%s", known)) == ["CONNECT_FAILED"]
    raised = f"rocketmq_spark.errors.TransportError: {known}"
    assert outdated_conditions(raised) == []
    assert outdated_conditions(f"{raised} Do something else.") == ["CONNECT_FAILED"]
    assert outdated_conditions("[ROCKETMQ_NO_SUCH] It is so.") == ["NO_SUCH"]
