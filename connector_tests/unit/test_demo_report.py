from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rocketmq_spark.cli.demo_report import (
    Cell,
    Invoice,
    Messages,
    Ownership,
    Sharing,
    Summary,
    Trigger,
    WindowTable,
    Written,
    cause_of,
    shortened,
)


def trigger(member: str = "first", batch_id: int = 0, keys: tuple[str, ...] = ()) -> Trigger:
    return Trigger(member, batch_id, len(keys), 0.0, 0, (), keys)


PROGRESS: dict[str, Any] = {
    "name": "first",
    "batchId": 7,
    "numInputRows": 2,
    "processedRowsPerSecond": 40.0,
    "sources": [{"latestOffset": {"maxOffsets": {"orders": {"broker-a": {"0": 9, "2": 7}}}, "lag": 3}}],
    "observedMetrics": {"orders": {"keys": ["order-1", "order-2"]}},
}


class TestTrigger:
    def test_reads_what_a_progress_tells(self) -> None:
        queues = ("broker-a:0", "broker-a:2")
        assert Trigger.from_progress(PROGRESS) == Trigger("first", 7, 2, 40.0, 3, queues, ("order-1", "order-2"))

    def test_a_progress_before_the_first_survey_owns_nothing(self) -> None:
        silent = PROGRESS | {"sources": [{"latestOffset": None}], "observedMetrics": {}}
        assert Trigger.from_progress(silent) == Trigger("first", 7, 2, 40.0, None, (), ())

    def test_a_trigger_without_rows_has_no_rate(self) -> None:
        quiet = {key: value for key, value in PROGRESS.items() if key != "processedRowsPerSecond"}
        assert Trigger.from_progress(quiet).rows_per_s == 0.0

    def test_the_line_says_rows_rate_lag_and_queues(self) -> None:
        line = Trigger.from_progress(PROGRESS).line()
        assert " ".join(line.split()) == "first batch 7 2 rows 40 rows/s lag 3 queues broker-a:0,2"

    def test_a_lag_that_nobody_knows_is_none_that_is_shown(self) -> None:
        latest = PROGRESS["sources"][0]["latestOffset"] | {"lag": None}
        line = Trigger.from_progress(PROGRESS | {"sources": [{"latestOffset": latest}]}).line()
        assert " ".join(line.split()) == "first batch 7 2 rows 40 rows/s lag ? queues broker-a:0,2"

    def test_where_messages_are_shared_it_says_what_became_of_them(self) -> None:
        latest = {"received": 40, "acknowledged": 20, "renewed": 3, "expired": 1, "waiting": 12, "inBatch": 8}
        shared = Trigger.from_progress(PROGRESS | {"sources": [{"latestOffset": latest}]})
        assert shared.messages == Messages(received=40, waiting=12, acknowledged=20, expired=1)
        assert (shared.queues, shared.lag) == ((), None)
        line = " ".join(shared.line().split())
        assert line == "first batch 7 2 rows 40 rows/s received 40 waiting 12 acknowledged 20 expired 1"

    def test_where_queues_are_shared_it_says_nothing_of_messages(self) -> None:
        assert Trigger.from_progress(PROGRESS).messages is None


WROTE: dict[str, Any] = {
    "batchId": 3,
    "processedRowsPerSecond": 80.0,
    "sink": {"numOutputRows": 2},
    "observedMetrics": {"orders": {"keys": ["order-1", "order-2"]}},
}


class TestWritten:
    def test_reads_what_a_progress_tells(self) -> None:
        assert Written.from_progress(WROTE) == Written(3, 2, 80.0, ("order-1", "order-2"))

    @pytest.mark.parametrize("count", [-1, 0])
    def test_a_trigger_without_a_batch_has_written_nothing(self, count: int) -> None:
        idle = {name: value for name, value in WROTE.items() if name != "processedRowsPerSecond"}
        idle |= {"sink": {"numOutputRows": count}, "observedMetrics": {}}
        assert Written.from_progress(idle) == Written(3, 0, 0.0, ())

    def test_the_line_says_rows_and_rate(self) -> None:
        assert " ".join(Written.from_progress(WROTE).line().split()) == "billing batch 3 2 rows 80 rows/s written"


def billed(*keys: str) -> list[Invoice]:
    """An invoice for each."""
    return [Invoice(f"id-{key}", key) for key in keys]


class TestSummary:
    def test_every_order_once_is_clean(self) -> None:
        triggers = [trigger(keys=("a",)), trigger(batch_id=1, keys=("b",))]
        summary = Summary.of({"a", "b"}, triggers, 0, billed("a", "b"))
        assert summary.line() == (
            "demo: produced=2 read=2 distinct=2 duplicates=0 lost=0 group_lag=0 written=2 invoices=2 unbilled=0"
        )
        assert summary.is_clean

    def test_an_order_that_two_members_read_is_a_duplicate_and_no_loss(self) -> None:
        triggers = [trigger("first", keys=("a",)), trigger("second", keys=("a",))]
        summary = Summary.of({"a"}, triggers, 0, billed("a"))
        assert (summary.read, summary.distinct, summary.duplicates, summary.lost) == (2, 1, 1, 0)
        assert summary.is_clean

    def test_a_batch_that_is_reported_again_counts_once(self) -> None:
        summary = Summary.of({"a"}, [trigger(keys=("a",)), trigger(keys=("a",))], 0, billed("a"))
        assert summary.read == 1

    def test_a_lost_order_is_not_hidden_by_a_duplicate(self) -> None:
        summary = Summary.of({"a", "b"}, [trigger(keys=("a", "a"))], 0, billed("a", "b"))
        assert (summary.duplicates, summary.lost) == (1, 1)
        assert not summary.is_clean

    def test_a_row_that_nobody_sent_is_a_duplicate_of_nothing_and_hides_no_loss(self) -> None:
        summary = Summary.of({"a"}, [trigger(keys=("strange",))], 0, billed("a"))
        assert summary.lost == 1

    def test_a_lag_is_not_clean(self) -> None:
        assert not Summary.of({"a"}, [trigger(keys=("a",))], 1, billed("a")).is_clean

    def test_an_invoice_that_is_stored_again_is_one_invoice(self) -> None:
        summary = Summary.of({"a"}, [trigger(keys=("a",))], 0, billed("a", "a"))
        assert (summary.written, summary.invoices, summary.unbilled) == (2, 1, 0)
        assert summary.is_clean

    def test_an_order_without_an_invoice_is_not_clean_nor_hidden_by_invoices_of_others(self) -> None:
        summary = Summary.of({"a", "b"}, [trigger(keys=("a", "b"))], 0, billed("a", "a", "strange"))
        assert (summary.written, summary.invoices, summary.unbilled) == (3, 2, 1)
        assert not summary.is_clean


class TestOwnership:
    def test_a_move_is_told_when_the_members_agree_on_it(self) -> None:
        ownership = Ownership(queue_count=2)
        ownership.tell("first", ("b:0", "b:1"))
        assert ownership.news() == "first reads b:0,1"
        ownership.tell("second", ("b:1",))
        assert ownership.news() is None, "first has not said yet that it gave b:1 away"
        ownership.tell("first", ("b:0",))
        assert ownership.news() == "first reads b:0   second reads b:1"
        assert ownership.news() is None, "told already"

    def test_a_queue_that_nobody_reads_yet_is_no_news(self) -> None:
        ownership = Ownership(queue_count=2)
        ownership.tell("first", ("b:0",))
        assert ownership.news() is None

    def test_a_member_that_has_left_reads_none(self) -> None:
        ownership = Ownership(queue_count=1)
        ownership.tell("first", ("b:0",))
        ownership.tell("second", ())
        assert ownership.news() == "first reads b:0   second reads none"

    def test_it_hears_of_triggers_and_of_who_has_left(self) -> None:
        ownership = Ownership(queue_count=1)
        ownership.hear(Trigger("first", 0, 0, 0.0, 0, ("b:0",), ()))
        ownership.hear(Trigger("second", 0, 0, 0.0, 0, (), ()))
        assert ownership.news() == "first reads b:0   second reads none"
        ownership.left("first")
        ownership.hear(Trigger("second", 1, 0, 0.0, 0, ("b:0",), ()))
        assert ownership.news() == "first reads none   second reads b:0"

    @pytest.mark.parametrize(
        ("first", "second", "is_settled", "is_shared"),
        [
            (("b:0", "b:1"), (), True, False),
            (("b:0",), ("b:1",), True, True),
            (("b:0", "b:1"), ("b:1",), False, False),
            (("b:0",), (), False, False),
            (("b:0",), ("b:0",), False, False),
        ],
    )
    def test_settled_is_one_reader_for_each_queue_and_shared_is_two_readers(
        self, first: tuple[str, ...], second: tuple[str, ...], is_settled: bool, is_shared: bool
    ) -> None:
        ownership = Ownership(queue_count=2)
        ownership.tell("first", first)
        ownership.tell("second", second)
        assert (ownership.is_settled(), ownership.is_shared()) == (is_settled, is_shared)


def told(member: str, received: int) -> Trigger:
    return Trigger(member, 0, 0, 0.0, None, (), (), Messages(received, 0, 0, 0))


class TestSharing:
    def test_who_has_received_nothing_yet_is_no_news(self) -> None:
        sharing = Sharing()
        assert (sharing.is_settled(), sharing.is_shared(), sharing.news()) == (False, False, None)
        sharing.hear(told("first", 0))
        assert (sharing.is_settled(), sharing.is_shared(), sharing.news()) == (False, False, None)
        sharing.hear(told("first", 1))
        assert (sharing.is_settled(), sharing.is_shared()) == (True, False)
        assert sharing.news() == "first receives, 1 by now"
        assert sharing.news() is None, "told already"

    def test_who_joins_shares_when_each_has_received_messages_since(self) -> None:
        sharing = Sharing()
        sharing.hear(told("first", 30))
        sharing.hear(told("second", 0))
        assert not sharing.is_settled()
        sharing.hear(told("second", 5))
        assert not sharing.is_settled(), "first may receive nothing any more"
        sharing.hear(told("first", 34))
        assert (sharing.is_settled(), sharing.is_shared()) == (True, True)
        assert sharing.news() == "first receives, 4 by now   second receives, 5 by now"

    def test_who_has_left_leaves_all_to_the_others(self) -> None:
        sharing = Sharing()
        sharing.hear(told("first", 30))
        sharing.hear(told("second", 5))
        sharing.left("second")
        assert not sharing.is_settled()
        sharing.hear(told("first", 37))
        assert (sharing.is_settled(), sharing.is_shared()) == (True, False)
        assert sharing.news() == "first receives, 7 by now"

    def test_a_trigger_before_the_first_receipt_tells_nothing(self) -> None:
        sharing = Sharing()
        sharing.hear(trigger("first"))
        assert (sharing.is_settled(), sharing.news()) == (False, None)


@pytest.mark.parametrize(
    ("queues", "text"),
    [
        ((), "none"),
        (("broker-a:0", "broker-b:0", "broker-a:11"), "broker-a:0,11 broker-b:0"),
        (("a:b:0", "a:b:1"), "a:b:0,1"),
    ],
)
def test_queues_are_shortened_by_broker(queues: tuple[str, ...], text: str) -> None:
    assert shortened(queues) == text


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)


class TestWindowTable:
    def test_members_add_up_and_a_newer_count_replaces_an_older_one(self) -> None:
        table = WindowTable()
        table.take("first", [Cell(at(0), "books", 1, 100)])
        table.take("first", [Cell(at(0), "books", 3, 350)])
        table.take("second", [Cell(at(0), "books", 2, 200), Cell(at(0), "music", 1, 1)])
        header, row = table.lines()
        assert header.split() == ["window", "books", "music", "orders", "amount"]
        assert row.split() == ["12:00:00", "5", "1", "6", "5.51"]

    def test_windows_are_in_order_and_may_be_cut_to_the_last(self) -> None:
        table = WindowTable()
        table.take("first", [Cell(at(second), "books", 1, 100) for second in (20, 0, 10)])
        assert [row.split()[0] for row in table.lines()[1:]] == ["12:00:00", "12:00:10", "12:00:20"]
        assert [row.split()[0] for row in table.lines(last=1)[1:]] == ["12:00:20"]


def test_of_a_spark_failure_the_connectors_own_sentence_is_shown() -> None:
    failure = "[STREAM_FAILED] Query [id = 1] terminated\n  File x\nOptionError: [ROCKETMQ_BAD_OFFSET] It is bad.\nmore"
    assert cause_of(failure) == "[ROCKETMQ_BAD_OFFSET] It is bad."


def test_of_several_sentences_the_last_is_shown_because_causes_come_first() -> None:
    failure = "BrokerError: [ROCKETMQ_BROKER_REFUSED] No.\n\nRouteError: [ROCKETMQ_TOPIC_NOT_FOUND] Not there.\nx"
    assert cause_of(failure) == "[ROCKETMQ_TOPIC_NOT_FOUND] Not there."


def test_a_sentence_that_holds_another_is_shown_whole() -> None:
    whole = "[ROCKETMQ_CLUSTER_UNREACHABLE] No answer: [ROCKETMQ_CONNECT_FAILED] No connection."
    assert cause_of(f"TransportError: {whole}") == whole


def test_of_any_other_failure_the_first_line_is_shown() -> None:
    assert cause_of("\nout of memory\n at java") == "out of memory"
    assert cause_of("") == ""
