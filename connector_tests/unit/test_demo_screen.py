"""What the demo's audience is told of who reads what."""

from __future__ import annotations

import pytest

from rocketmq_spark.cli.demo_report import Ownership, Trigger
from rocketmq_spark.cli.demo_screen import Screen


def trigger(member: str, batch_id: int, *queues: str) -> Trigger:
    return Trigger(member, batch_id, 0, 0.0, 0, queues, ())


@pytest.mark.parametrize("is_first_to_tell", [True, False])
def test_who_reads_what_is_said_once_whether_the_one_who_stays_tells_it_before_or_after_the_other_has_gone(
    is_first_to_tell: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen(Ownership(2))
    screen.show(trigger("first", 0, "a:0"))
    screen.show(trigger("second", 0, "a:1"))
    if is_first_to_tell:
        screen.show(trigger("first", 1, "a:0", "a:1"))
    screen.show_left("second")
    screen.show(trigger("first", 2, "a:0", "a:1"))
    assert [line.split("s  ")[1] for line in capsys.readouterr().out.splitlines()] == [
        "first reads a:0   second reads a:1",
        "first reads a:0,1   second reads none",
    ]
