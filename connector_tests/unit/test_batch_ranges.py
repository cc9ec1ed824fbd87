"""Ranges of a batch read, by bounds and options."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.source.batch.batch_ranges import batch_ranges, end_of, start_of

FIRST, SECOND = (MessageQueue("orders", "broker-a", number) for number in range(2))
BOUNDS = {FIRST: QueueBounds(3, 10, 0), SECOND: QueueBounds(0, 4, 0)}
LATEST_STRATEGY = {"startingOffsetsByTimestampStrategy": "latest"}
REQUIRED = {"namesrvAddr": "a:9876", "subscribe": "orders"}


Committed = Mapping[MessageQueue, int | None]


def planned(
    found: Mapping[MessageQueue, int] | None = None, committed: Committed | None = None, /, **given: str
) -> list[tuple[int, int, int]]:
    """Return (queue ID, begin, end) of each range. ``found``: what a search by time returns, for both ends.
    ``committed``: the group's offsets."""
    options = BatchReadOptions.parse(REQUIRED | given)
    start, end = start_of(options), end_of(options)
    start.check_listed(BOUNDS)
    end.check_listed(BOUNDS)
    ends = [(one, one.resolve(BOUNDS, found or {}, committed or {})) for one in (start, end)]
    ranges = batch_ranges(BOUNDS, *ends, fail_on_data_loss=options.fail_on_data_loss)
    return [(one.queue.queue_id, one.begin_offset, one.end_offset) for one in ranges]


def by_queue(first: object, second: object) -> str:
    return json.dumps({"orders": {"broker-a": {"0": first, "1": second}}})


def raised(
    committed: Committed | None = None, found: Mapping[MessageQueue, int] | None = None, /, **given: str
) -> OptionError:
    with pytest.raises(OptionError) as caught:
        planned(found, committed, **given)
    return caught.value


def of_group(start: str = "earliest", end: str = "latest") -> dict[str, str]:
    return {"consumerGroup": "g", "startingOffsets": start, "endingOffsets": end}


def test_range_spans_what_the_queue_has_by_default() -> None:
    assert planned() == planned(startingOffsets="Earliest", endingOffsets="LATEST") == [(0, 3, 10), (1, 0, 4)]


def test_empty_range_is_omitted() -> None:
    assert planned(startingOffsets=by_queue(10, 1)) == [(1, 1, 4)]


@pytest.mark.parametrize(
    ("start", "end", "ranges"),
    [
        (by_queue(-2, 1), by_queue(5, -1), [(0, 3, 5), (1, 1, 4)]),
        (by_queue("earliest", 1), by_queue(5, "latest"), [(0, 3, 5), (1, 1, 4)]),
        ('{"orders":"earliest"}', '{"orders":-1}', [(0, 3, 10), (1, 0, 4)]),
    ],
)
def test_json_sets_the_ends_of_queues_and_topics(start: str, end: str, ranges: list[tuple[int, int, int]]) -> None:
    assert planned(startingOffsets=start, endingOffsets=end) == ranges


def test_times_end_within_the_bounds() -> None:
    found = {FIRST: 7, SECOND: 9}
    assert planned(found, startingTimestamp="5", **LATEST_STRATEGY) == [(0, 7, 10)]
    assert planned(found, endingTimestamp="5") == [(0, 3, 7), (1, 0, 4)]
    assert planned({FIRST: 0, SECOND: 1}, startingOffsetsByTimestamp='{"orders":5}') == [(0, 3, 10), (1, 1, 4)]


def test_search_is_for_the_time_of_each_queue() -> None:
    options = BatchReadOptions.parse(REQUIRED | {"endingOffsetsByTimestamp": by_queue(7, 8)})
    assert end_of(options).timestamps_ms(BOUNDS) == {FIRST: 7, SECOND: 8}
    assert start_of(options).timestamps_ms(BOUNDS) == {}


@pytest.mark.parametrize(("prefix", "end"), [("starting", start_of), ("ending", end_of)])
def test_one_time_precedes_times_by_queue_and_offsets(prefix: str, end: object) -> None:
    names = [f"{prefix}Timestamp", f"{prefix}OffsetsByTimestamp", f"{prefix}Offsets"]
    values = ["5", '{"orders":6}', by_queue(4, 2)]
    for first in range(3):
        given = dict(zip(names[first:], values[first:], strict=True))
        options = BatchReadOptions.parse(REQUIRED | given)
        found = start_of(options) if end is start_of else end_of(options)
        assert (found.option, found.is_time) == (names[first], first < 2)


@pytest.mark.parametrize(
    ("start", "end", "ranges"),
    [
        ("group", "latest", [(0, 5, 10), (1, 4, 4)]),
        ("earliest", "group", [(0, 3, 5), (1, 0, 4)]),
        ("group", "group:earliest", []),
        (by_queue("group", 1), by_queue(7, "group:latest"), [(0, 5, 7), (1, 1, 4)]),
        ('{"orders":"group"}', by_queue(-1, 4), [(0, 5, 10), (1, 4, 4)]),
    ],
)
def test_ends_are_the_groups_committed_offsets(start: str, end: str, ranges: list[tuple[int, int, int]]) -> None:
    assert planned(None, {FIRST: 5, SECOND: 4}, **of_group(start, end)) == [one for one in ranges if one[1] < one[2]]


@pytest.mark.parametrize(("word", "ranges"), [("earliest", [(0, 5, 10), (1, 0, 4)]), ("latest", [(0, 5, 10)])])
def test_queue_without_a_committed_offset_takes_the_word_after_the_colon(
    word: str, ranges: list[tuple[int, int, int]]
) -> None:
    assert planned(None, {FIRST: 5, SECOND: None}, **of_group(f"group:{word}")) == ranges


def test_queues_without_a_committed_offset_are_all_listed() -> None:
    error = raised({FIRST: None, SECOND: None}, **of_group("group"))
    assert str(error) == (
        "[ROCKETMQ_COMMITTED_OFFSETS_NOT_FOUND] Group 'g' has no committed offset for 2 queues of 'startingOffsets': "
        "orders@broker-a:0, orders@broker-a:1. Check the name of the group. For queues that it has not read, use "
        "'group:earliest' or 'group:latest'."
    )
    one = raised({FIRST: None, SECOND: None}, **of_group("group:latest", by_queue("group", "group:earliest")))
    assert (one.context["option"], one.context["queues"]) == ("endingOffsets", "orders@broker-a:0")


def test_committed_offsets_out_of_range_are_errors_as_listed_ones() -> None:
    committed = {FIRST: 2, SECOND: 5}
    assert raised(committed, **of_group("group")).context["offsets"] == (
        "orders@broker-a:0: 2 [3, 10], orders@broker-a:1: 5 [0, 4]"
    )
    assert planned(None, {FIRST: 2, SECOND: 4}, failOnDataLoss="false", **of_group("group")) == [(0, 3, 10)]


def test_offsets_of_the_group_are_required_for_queues_that_start_or_end_there() -> None:
    given = of_group(by_queue("group", 1), by_queue(-1, "group:latest"))
    options = BatchReadOptions.parse(REQUIRED | given)
    assert (start_of(options).group_queues(BOUNDS), end_of(options).group_queues(BOUNDS)) == ([FIRST], [SECOND])
    by_time = BatchReadOptions.parse(REQUIRED | given | {"startingTimestamp": "5"})
    assert start_of(by_time).group_queues(BOUNDS) == []


def test_missing_and_unknown_queues_are_all_listed() -> None:
    listed = {"orders": {"broker-a": {"1": 2, "7": 1}, "broker-b": {"0": 1}}, "other": -2}
    error = raised(startingOffsets=json.dumps(listed))
    assert error.condition == "LISTED_QUEUES_MISMATCH"
    assert error.context == {
        "option": "startingOffsets",
        "missing": "orders@broker-a:0",
        "unknown": "other, orders@broker-a:7, orders@broker-b:0",
    }
    assert raised(endingOffsets='{"orders":{"broker-a":{"0":5}}}').context["unknown"] == "none"


def test_offsets_out_of_range_are_all_listed() -> None:
    error = raised(startingOffsets=by_queue(2, 5))
    assert str(error) == (
        "[ROCKETMQ_OFFSETS_OUT_OF_RANGE] 2 offsets of 'startingOffsets' not available in the queues: "
        "orders@broker-a:0: 2 [3, 10], orders@broker-a:1: 5 [0, 4]. Use offsets within the bounds in brackets. With "
        "'failOnDataLoss' false, smaller offsets, whose messages retention has deleted, are no error."
    )
    assert raised(endingOffsets=by_queue(11, 4)).context["offsets"] == "orders@broker-a:0: 11 [3, 10]"
    assert raised(endingOffsets=by_queue(11, 4), failOnDataLoss="false").condition == "OFFSETS_OUT_OF_RANGE"


def test_offsets_at_the_bounds_are_in_range() -> None:
    assert planned(startingOffsets=by_queue(3, 0), endingOffsets=by_queue(10, 4)) == [(0, 3, 10), (1, 0, 4)]


def test_ends_before_starts_are_all_listed() -> None:
    error = raised(startingOffsets=by_queue(8, 3), endingOffsets=by_queue(5, 2))
    assert str(error) == (
        "[ROCKETMQ_END_BEFORE_START] 2 queues would end before the start: orders@broker-a:0 from 8 to 5, "
        "orders@broker-a:1 from 3 to 2. Change 'startingOffsets' or 'endingOffsets'."
    )


def test_reversed_times_are_refused() -> None:
    assert raised(startingTimestamp="6", endingTimestamp="5").condition == "INCOMPATIBLE_OPTIONS"
    assert planned({FIRST: 5, SECOND: 2}, startingTimestamp="5", endingTimestamp="5") == []


def test_queues_without_a_message_since_their_time_are_all_listed() -> None:
    found = {FIRST: 10, SECOND: 9}
    error = raised(None, found, startingTimestamp="2026-01-01T00:00:00Z")
    assert str(error) == (
        "[ROCKETMQ_TIMESTAMP_NOT_MATCHED] 2 queues without a message at or after the time of 'startingTimestamp': "
        "orders@broker-a:0: 1767225600000, orders@broker-a:1: 1767225600000. Use an earlier time, or set "
        "'startingOffsetsByTimestampStrategy' to latest: these queues then start at their end."
    )
    error = raised(None, {FIRST: 3, SECOND: 4}, startingOffsetsByTimestamp=by_queue(5, 6))
    assert (error.context["option"], error.context["queues"]) == ("startingOffsetsByTimestamp", f"{SECOND}: 6")
    for option in ("startingTimestamp", "startingOffsetsByTimestamp"):
        value = "5" if option == "startingTimestamp" else by_queue(5, 6)
        assert planned(found, **{option: value}, **LATEST_STRATEGY) == []
    assert planned(found, endingTimestamp="5") == [(0, 3, 10), (1, 0, 4)]
    with pytest.raises(OptionError, match=r"OPTION_REQUIRES_OPTION.*'startingTimestamp'"):
        planned(endingTimestamp="5", **LATEST_STRATEGY)


def test_message_that_was_deleted_matches_only_if_there_is_a_later_one() -> None:
    assert planned({FIRST: 1, SECOND: 0}, startingTimestamp="5") == [(0, 3, 10), (1, 0, 4)]
    options = BatchReadOptions.parse(REQUIRED | {"startingTimestamp": "5"})
    with pytest.raises(OptionError, match="TIMESTAMP_NOT_MATCHED"):
        start_of(options).resolve({FIRST: QueueBounds(3, 3)}, {FIRST: 1})


def test_deleted_offsets_are_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    given = {"startingOffsets": by_queue(1, 0), "endingOffsets": by_queue(5, 1), "failOnDataLoss": "false"}
    assert planned(**given) == [(0, 3, 5), (1, 0, 1)]
    assert planned(**(given | {"endingOffsets": by_queue(2, 1)})) == [(1, 0, 1)]
    lines = [record.getMessage() for record in caplog.records]
    assert [f"[1, {end}) of {FIRST}" in line for end, line in zip((3, 2), lines, strict=True)] == [True, True]


def test_range_that_ends_before_the_oldest_message_is_empty() -> None:
    """Only an end that the user listed can be deleted: the same read is of no message then, and not reversed."""
    given = {"endingOffsets": by_queue(2, 1), "failOnDataLoss": "false"}
    assert planned(**given) == planned(**given, startingOffsets=by_queue("earliest", 0)) == [(1, 0, 1)]
    assert planned({FIRST: 0, SECOND: 0}, **given, startingTimestamp="5") == [(1, 0, 1)]
    assert raised(**given, startingOffsets=by_queue(4, 0)).condition == "END_BEFORE_START"
    assert raised(endingOffsets=by_queue(2, 1)).condition == "OFFSETS_OUT_OF_RANGE"


def test_listed_end_before_a_listed_start_is_an_error_wherever_the_queue_begins() -> None:
    """A start that happens to equal the min offset was taken for the oldest message, and the read was empty."""
    for start in (3, 4):
        error = raised(startingOffsets=by_queue(start, 0), endingOffsets=by_queue(2, 1), failOnDataLoss="false")
        assert (error.condition, error.context["ranges"]) == ("END_BEFORE_START", f"{FIRST} from {start} to 2")


def test_listed_end_before_a_start_at_the_end_is_an_error_as_in_kafkas_source() -> None:
    by_offset = {"startingTimestamp": "5", "endingOffsets": by_queue(7, 3)}
    error = raised(None, {FIRST: 10, SECOND: 1}, **by_offset, **LATEST_STRATEGY)
    assert (error.condition, error.context["ranges"]) == ("END_BEFORE_START", f"{FIRST} from 10 to 7")
