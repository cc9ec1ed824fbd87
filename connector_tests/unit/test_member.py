"""The member's thread does not die unseen."""

from __future__ import annotations

import pytest

from rocketmq_spark.consumer.member import Member
from rocketmq_spark.options import ReadOptions

NOBODY = "127.0.0.1:1"
WAIT_MS = 10_000


def fail() -> None:
    raise ZeroDivisionError("the thread")


def test_what_ends_the_members_thread_wakes_the_planner_and_is_raised_by_its_next_survey() -> None:
    member = Member(ReadOptions.parse({"namesrvAddr": NOBODY, "consumerGroup": "g", "subscribe": "orders"}), fail)
    member.start()
    try:
        assert member.wait_for_news({}, WAIT_MS)
        with pytest.raises(ZeroDivisionError, match="the thread"), member.turn() as membership:
            membership.survey()
    finally:
        member.stop()
