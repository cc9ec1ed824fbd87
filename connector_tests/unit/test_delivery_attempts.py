"""How often a message was redelivered, and which are for the dead-letter topic."""

from __future__ import annotations

import pytest

from connector_tests.support.message_bytes import Record
from rocketmq_spark.model import StoredMessage
from rocketmq_spark.pop.delivery_attempts import (
    has_redelivered,
    list_ids,
    redelivery_count,
    split_exhausted,
    stored_message_of,
)
from rocketmq_spark.pop.receipt_handles import BrokerHandle, OpaqueHandle, PopCheckPoint, ReceivedMessage, RecordFormat

CHECK_POINT = PopCheckPoint("T", 3, 0, 60_000, 0, "1", "broker-a", 0)


def came(times: int, retry: str = "1") -> ReceivedMessage:
    record = Record(
        topic="T", queue_offset=3, commit_log_offset=77, reconsume_times=times, properties={"UNIQ_KEY": "ID"}
    )
    return ReceivedMessage(BrokerHandle(CHECK_POINT._replace(retry=retry), 3), memoryview(record.encode()))


@pytest.mark.parametrize(
    ("most", "usable", "exhausted"), [(2, [0, 1, 2], [3, 4]), (0, [0], [1, 2, 3, 4]), (-1, [0], [1, 2, 3, 4])]
)
def test_what_was_redelivered_more_often_than_it_may_has_exhausted_its_retries(
    most: int, usable: list[int], exhausted: list[int]
) -> None:
    """As a proxy counts: the first time is none."""
    found = split_exhausted([came(times) for times in range(5)], most)
    assert [redelivery_count(one) for one in found.usable] == usable
    assert [redelivery_count(one) for one in found.exhausted] == exhausted


def test_without_a_retry_limit_no_retries_are_exhausted() -> None:
    assert split_exhausted([came(1_000)], None) == ([came(1_000)], [])


def test_what_is_redelivered_comes_from_a_retry_topic() -> None:
    """A producer may write what it likes into a message of the topic itself."""
    assert [redelivery_count(came(5, retry)) for retry in ("0", "1", "2")] == [0, 5, 5]
    assert not has_redelivered([came(5, "0"), came(0)])
    assert has_redelivered([came(0), came(1)])


def test_a_proxys_messages_are_the_proxys_to_move() -> None:
    responded = ReceivedMessage(
        OpaqueHandle("T", "broker-a", "its own"), memoryview(b"an answer"), RecordFormat.PROXIED
    )
    understood = ReceivedMessage(BrokerHandle(CHECK_POINT, 3), memoryview(b"an answer"), RecordFormat.PROXIED)
    assert [redelivery_count(one) for one in (responded, understood)] == [0, 0]


@pytest.mark.parametrize("end", [-1, 60])
def test_damaged_message_counts_as_delivered_once(end: int) -> None:
    """A broker's response with one ended the query with an error that was none of ours; its decoder has one."""
    damaged = came(5)._replace(record=came(5).record[:end])
    assert redelivery_count(damaged) == 0
    assert not has_redelivered([damaged])


def test_a_message_is_moved_by_its_place_in_the_commit_log() -> None:
    assert stored_message_of(came(1)) == StoredMessage("T", "broker-a", 77, "ID")


def test_a_line_names_the_first_of_many() -> None:
    places = [StoredMessage("T", "b", 0, str(number)) for number in range(11)]
    assert (list_ids(places[:10]), list_ids(places)) == ("0 1 2 3 4 5 6 7 8 9", "0 1 2 3 4 5 6 7 8 9 ...")


def test_long_ids_of_producers_are_cut() -> None:
    """Ten of 32 kB each were one line."""
    places = [StoredMessage("T", "b", 0, "x" * 32_000)] * 10
    assert len(list_ids(places)) < 3_000
    assert len(str(places[0])) < 300
