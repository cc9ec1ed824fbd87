"""The table: what an answer to a pull means."""

from __future__ import annotations

import pytest

from connector_tests.support.message_bytes import Record
from connector_tests.support.pull_results import result, too_small
from rocketmq_spark.pull.pull_request import BY_OFFSETS, PullAction, pull_action
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus


@pytest.mark.parametrize(
    ("response", "action"),
    [
        (result(PullStatus.FOUND, "FOUND", 132), PullAction.DELIVER),
        (result(PullStatus.NO_MATCHED_MSG, "NO_MATCHED_MESSAGE", 900), PullAction.SKIP),
        (result(PullStatus.NO_MATCHED_MSG, "", 900), PullAction.SKIP),
        (result(PullStatus.NO_MATCHED_MSG, "MESSAGE_WAS_REMOVING", 132), PullAction.WAIT),
        (result(PullStatus.NO_NEW_MSG, "OFFSET_OVERFLOW_ONE", 100, max_offset=100), PullAction.WAIT),
        (result(PullStatus.NO_NEW_MSG, "OFFSET_FOUND_NULL", 300_000), PullAction.WAIT),
        (result(PullStatus.NO_NEW_MSG, "NO_MATCHED_LOGIC_QUEUE", 0, max_offset=0), PullAction.WAIT),
        (result(PullStatus.OFFSET_ILLEGAL, "OFFSET_OVERFLOW_BADLY", 90, max_offset=90), PullAction.WAIT),
        (result(PullStatus.OFFSET_ILLEGAL, "NO_MESSAGE_IN_QUEUE", 0, max_offset=0), PullAction.WAIT),
        (result(PullStatus.OFFSET_ILLEGAL, "A reason of a later version", 0), PullAction.WAIT),
        (result(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", 5), PullAction.RETRY),
        (too_small(101), PullAction.LOST),
    ],
)
def test_what_a_response_to_a_pull_at_100_means(response: PullResult, action: PullAction) -> None:
    assert pull_action(response, 100) is action


def test_every_status_has_an_action() -> None:
    for status in PullStatus:
        assert pull_action(result(status, "", 101), 100) in PullAction


@pytest.mark.parametrize("action", PullAction)
@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("is_later", [False, True])
def test_whatever_a_response_contains_it_is_delivered_or_skipped_only_onwards_and_lost_only_where_deleted(
    action: PullAction, is_later: bool, is_deleted: bool
) -> None:
    """What the table of offsets must hold, whatever stands in it."""
    outcome = BY_OFFSETS.get((action, is_later, is_deleted), action)
    if outcome in (PullAction.DELIVER, PullAction.SKIP):
        assert is_later
    if outcome is PullAction.WAIT:
        assert not is_deleted
    if outcome is PullAction.LOST is not action:
        assert is_deleted
    assert (outcome is PullAction.RETRY) == (action is PullAction.RETRY)


@pytest.mark.parametrize("status", [PullStatus.FOUND, PullStatus.NO_MATCHED_MSG])
@pytest.mark.parametrize("next_begin", [100, 99, 0])
def test_what_names_no_later_offset_has_read_nothing(status: PullStatus, next_begin: int) -> None:
    """A broker whose store fails answers NO_MATCHED_MESSAGE with the asked offset: one message would be left out."""
    assert pull_action(result(status, "", next_begin), 100) is PullAction.WAIT


@pytest.mark.parametrize("status", [PullStatus.NO_MATCHED_MSG, PullStatus.NO_NEW_MSG, PullStatus.OFFSET_ILLEGAL])
def test_nothing_below_the_min_offset_is_waited_for(status: PullStatus) -> None:
    response = result(status, "MESSAGE_WAS_REMOVING", 0, min_offset=101)
    assert pull_action(response, 100) is PullAction.LOST


def test_too_small_is_no_loss_while_the_min_offset_does_not_show_it() -> None:
    """It used to make a lost range that ended before it began, and skipped one message."""
    assert pull_action(too_small(100), 100) is PullAction.WAIT


def test_a_reset_mark_is_no_loss_whatever_the_bounds_are() -> None:
    assert pull_action(result(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", 5, min_offset=500), 100) is PullAction.RETRY


@pytest.mark.parametrize(
    ("first", "next_begin", "max_offset", "action"),
    [
        (98, 99, 101, PullAction.VACANT),
        (97, 100, 101, PullAction.VACANT),
        (98, 101, 101, PullAction.DELIVER),
        (98, 99, 100, PullAction.WAIT),
        (99, 99, 101, PullAction.WAIT),
    ],
)
def test_a_response_with_the_message_before_means_a_vacant_offset(
    first: int, next_begin: int, max_offset: int, action: PullAction
) -> None:
    """As batch consume queues answer."""
    found = result(PullStatus.FOUND, "FOUND", next_begin, max_offset=max_offset)
    body = memoryview(Record(queue_offset=first).encode())
    assert pull_action(found._replace(body=body), 100) is action
    assert pull_action(found._replace(body=body[:90]), 100) is not PullAction.VACANT
