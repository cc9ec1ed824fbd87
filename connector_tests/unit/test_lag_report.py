"""The lag of groups as ``rocketmq-spark lag`` prints it."""

from __future__ import annotations

import json

from rocketmq_spark.cli.lag_report import GroupLag, LagReport, total_of
from rocketmq_spark.inspection.rows import GroupRow

BEHIND = GroupRow("g", "orders", "broker-a", 0, 7, 2, 10, 3, 999_000, 1_500)
AT_END = GroupRow("g", "orders", "broker-a", 1, 4, 0, 4, 0, None, 0)
UNREAD = GroupRow("h", "orders", "broker-a", 0, None, 0, 1, 1, None, None)


def test_report_has_a_table_and_a_total_of_each_group() -> None:
    assert LagReport([BEHIND, AT_END, UNREAD]).to_text().splitlines() == [
        "topic   broker    queue  committed  next  lag  oldest",
        "orders  broker-a      0          7    10    3  1.5 s",
        "orders  broker-a      1          4     4    0  -",
        "g: lag 3 messages, oldest 1.5 s",
        "",
        "topic   broker    queue  committed  next  lag  oldest",
        "orders  broker-a      0  -             1    1  unknown",
        "h: lag 1 message, oldest unknown",
    ]


def test_group_without_lag_has_no_oldest_message() -> None:
    assert LagReport([AT_END]).to_text().splitlines()[-1] == "g: lag 0 messages"


def test_requested_group_without_rows_is_named() -> None:
    report = LagReport([], ["g"])
    assert report.to_text() == "g: no committed offsets and no subscriptions"
    assert report.max_lag() == 0
    assert LagReport([]).to_text() == ""
    assert LagReport([]).max_lag() == 0


def test_total_is_the_sum_and_the_largest_age() -> None:
    older = BEHIND._replace(queue_id=2, lag_ms=2_000)
    assert total_of([BEHIND, AT_END, older]) == GroupLag(6, 2_000)
    assert total_of([BEHIND, UNREAD]) == GroupLag(4, 1_500)
    assert total_of([UNREAD]) == GroupLag(1, None)
    assert total_of([AT_END]) == total_of([]) == GroupLag(0, 0)
    assert LagReport([BEHIND, UNREAD, older]).max_lag() == 6


def test_json_has_groups_queues_and_unavailable_brokers() -> None:
    assert json.loads(LagReport([BEHIND], ["g"], {"broker-b": "no master"}).to_json()) == {
        "groups": [
            {
                "consumerGroup": "g",
                "lag": None,
                "lagMs": None,
                "queues": [
                    {
                        "topic": "orders",
                        "brokerName": "broker-a",
                        "queueId": 0,
                        "committedOffset": 7,
                        "minOffset": 2,
                        "maxOffset": 10,
                        "lag": 3,
                        "lagMs": 1_500,
                    }
                ],
            }
        ],
        "unavailable": {"broker-b": "no master"},
    }
    (complete,) = json.loads(LagReport([BEHIND, AT_END]).to_json())["groups"]
    assert (complete["lag"], complete["lagMs"], len(complete["queues"])) == (3, 1_500, 2)


def test_lag_without_a_broker_is_a_minimum_or_unknown() -> None:
    report = LagReport([BEHIND], ["g", "h"], {"broker-b": "no master"})
    assert report.to_text().splitlines()[2:] == ["g: lag at least 3 messages, oldest 1.5 s", "", "h: lag unknown"]
