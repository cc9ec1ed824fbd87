"""How often a message came again, and which are for the dead letter topic."""

from __future__ import annotations

import pytest

from connector_tests.support.message_bytes import Record
from rocketmq_spark.model import StoredMessage
from rocketmq_spark.pop.attempts import by_attempts, have_come_again, named, stored, times_again
from rocketmq_spark.pop.handles import CheckPoint, Form, Handle, OpaqueHandle, Received

CHECK_POINT = CheckPoint("T", 3, 0, 60_000, 0, "1", "broker-a", 0)


def came(times: int, retry: str = "1") -> Received:
    record = Record(
        topic="T", queue_offset=3, commit_log_offset=77, reconsume_times=times, properties={"UNIQ_KEY": "ID"}
    )
    return Received(Handle(CHECK_POINT._replace(retry=retry), 3), memoryview(record.encode()))


@pytest.mark.parametrize(
    ("most", "wanted", "spent"), [(2, [0, 1, 2], [3, 4]), (0, [0], [1, 2, 3, 4]), (-1, [0], [1, 2, 3, 4])]
)
def test_what_came_again_more_often_than_it_may_is_spent(most: int, wanted: list[int], spent: list[int]) -> None:
    """As a proxy counts: the first time is none."""
    found = by_attempts([came(times) for times in range(5)], most)
    assert [times_again(one) for one in found.wanted] == wanted
    assert [times_again(one) for one in found.spent] == spent


def test_where_nobody_says_how_often_nothing_is_spent() -> None:
    assert by_attempts([came(1_000)], None) == ([came(1_000)], [])


def test_what_comes_again_comes_from_a_retry_topic() -> None:
    """A producer may write what it likes into a message of the topic itself."""
    assert [times_again(came(5, retry)) for retry in ("0", "1", "2")] == [0, 5, 5]
    assert not have_come_again([came(5, "0"), came(0)])
    assert have_come_again([came(0), came(1)])


def test_a_proxys_messages_are_the_proxys_to_move() -> None:
    answered = Received(OpaqueHandle("T", "broker-a", "its own"), memoryview(b"an answer"), Form.ANSWERED)
    understood = Received(Handle(CHECK_POINT, 3), memoryview(b"an answer"), Form.ANSWERED)
    assert [times_again(one) for one in (answered, understood)] == [0, 0]


def test_a_message_is_moved_by_its_place_in_the_commit_log() -> None:
    assert stored(came(1)) == StoredMessage("T", "broker-a", 77, "ID")


def test_a_line_names_the_first_of_many() -> None:
    places = [StoredMessage("T", "b", 0, str(number)) for number in range(4)]
    assert (named(places, 4), named(places, 3)) == ("0 1 2 3", "0 1 2 ...")
