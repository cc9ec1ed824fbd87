"""Lag over the last progresses of a query, whatever Spark and its client have them as."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_spark.metrics.lag_series import LagHistory, LagSeries, lag_history, largest

AT = [datetime(2026, 1, 5, 14, 5, second, tzinfo=UTC) for second in range(3)]
CONTROL = {"control": {"folder": "f", "host": "h"}}
IN_MESSAGE_MODE = {"received": 3, "inFlight": 1, **CONTROL}


def by_queue(**topics: list[int]) -> dict[str, Any]:
    """The fields of a source whose queues of each topic, on one broker, have these lags."""
    nested = {
        topic: {"broker-a": {str(queue): {"messages": lag, "ms": 0} for queue, lag in enumerate(lags)}}
        for topic, lags in topics.items()
    }
    return {"lag": sum(map(sum, topics.values())), "lagByQueue": nested, **CONTROL}


def progress(at: datetime, *sources: Any) -> dict[str, Any]:
    text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"timestamp": text, "sources": [{"latestOffset": one} for one in sources]}


def progresses(*fields: Any) -> list[dict[str, Any]]:
    """One progress a second of a query with one source."""
    return [progress(at, json.dumps(one)) for at, one in zip(AT, fields, strict=False)]


def test_a_topic_has_the_sum_of_its_queues_at_each_time() -> None:
    found = lag_history(progresses(by_queue(orders=[3, 4], books=[1]), by_queue(orders=[0, 5], books=[2])), "topic")
    assert found == LagHistory((AT[0], AT[1]), (LagSeries("books", (1, 2)), LagSeries("orders", (7, 5))))


def test_queues_are_in_the_order_of_their_ids() -> None:
    found = lag_history(progresses(by_queue(orders=list(range(11)))), "queue")
    assert [one.label for one in found.series] == [f"orders@broker-a:{queue}" for queue in range(11)]
    assert [one.messages for one in found.series] == [(queue,) for queue in range(11)]


def test_progresses_are_objects_or_dicts_as_text_or_values() -> None:
    fields = by_queue(orders=[3])
    as_object = SimpleNamespace(
        timestamp="2026-01-05T14:05:00.000Z", sources=[SimpleNamespace(latestOffset=json.dumps(fields))]
    )
    stored = progress(AT[1], fields)
    assert lag_history([as_object, stored], "topic") == LagHistory((AT[0], AT[1]), (LagSeries("orders", (3, 3)),))


@pytest.mark.parametrize("fields", [None, {}, IN_MESSAGE_MODE, {"logOffset": 7}])
def test_progresses_without_lag_have_times_and_no_series(fields: Any) -> None:
    assert lag_history(progresses(fields), "topic") == LagHistory((AT[0],), ())


def test_a_query_without_progress_has_no_times() -> None:
    assert lag_history([], "queue") == LagHistory((), ())


def test_first_progresses_without_lag_are_a_gap() -> None:
    found = lag_history(progresses(None, by_queue(orders=[3])), "topic")
    assert found == LagHistory((AT[0], AT[1]), (LagSeries("orders", (None, 3)),))


def test_a_queue_that_is_reassigned_is_a_gap_from_then_on() -> None:
    found = lag_history(progresses(by_queue(orders=[3, 4]), by_queue(orders=[5])), "queue")
    assert found.series == (LagSeries("orders@broker-a:0", (3, 5)), LagSeries("orders@broker-a:1", (4, None)))


def test_a_topic_is_a_gap_while_a_queue_is_unknown_and_the_known_queues_are_not() -> None:
    unknown = by_queue(orders=[2]) | {"lag": None}
    series = progresses(by_queue(orders=[3, 4]), unknown, by_queue(orders=[5, 6]))
    assert lag_history(series, "topic").series == (LagSeries("orders", (7, None, 11)),)
    assert lag_history(series, "queue").series == (
        LagSeries("orders@broker-a:0", (3, 2, 5)),
        LagSeries("orders@broker-a:1", (4, None, 6)),
    )


def test_several_sources_have_a_series_each_with_their_number() -> None:
    ours = json.dumps(by_queue(orders=[3]))
    found = lag_history([progress(AT[0], ours, "{'another': 1}", json.dumps(by_queue(orders=[4], a=[1])))], "topic")
    assert found.series == (
        LagSeries("orders (source 0)", (3,)),
        LagSeries("a (source 2)", (1,)),
        LagSeries("orders (source 2)", (4,)),
    )


def test_one_source_with_lag_has_no_number() -> None:
    found = lag_history([progress(AT[0], "{'another': 1}", json.dumps(by_queue(orders=[3])))], "topic")
    assert found.series == (LagSeries("orders", (3,)),)


@pytest.mark.parametrize("by", ["topic", "queue"])
def test_before_spark_4_2_all_queues_of_a_source_are_one_series(by: Any) -> None:
    fields = [{"lag": lag, **CONTROL} for lag in (3, None, 0)]
    offsets = [{"v": 1, "queues": {}, "shown": one} for one in fields]
    found = lag_history([progress(at, str(one)) for at, one in zip(AT, offsets, strict=True)], by)
    assert found.series == (LagSeries("all queues", (3, None, 0)),)


def test_a_lag_that_is_never_known_is_no_series() -> None:
    assert lag_history(progresses({"lag": None, **CONTROL}), "topic").series == ()


def test_the_largest_series_stay_in_their_order() -> None:
    series = [LagSeries(label, messages) for label, messages in (("a", (1, 9)), ("b", (None, 2)), ("c", (7, None)))]
    assert [one.label for one in largest(series, 2)] == ["a", "c"]
    assert largest(series, 3) == series
