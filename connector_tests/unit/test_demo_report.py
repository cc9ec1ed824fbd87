from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from rocketmq_spark.cli.demo_report import (
    PRODUCTS,
    audit,
    cause_of,
    group_lag,
    is_clean,
    is_divided,
    line_of,
    order_key,
    order_message,
    queues_of,
)
from rocketmq_spark.model import MessageQueue, QueueBounds


class TestOrders:
    def test_an_order_has_a_json_body_its_product_as_tag_and_a_key(self) -> None:
        message = order_message("shop", 4)
        assert (message.topic, message.tags, message.keys) == ("shop", "games", "order-4")
        assert json.loads(message.body) == {"order": 4, "customer": "customer-28", "amount_cents": 648}

    def test_no_two_orders_share_a_key_and_all_products_sell(self) -> None:
        messages = [order_message("shop", number) for number in range(300)]
        assert {message.keys for message in messages} == {order_key(number) for number in range(300)}
        assert len({message.keys for message in messages}) == 300
        assert {message.tags for message in messages} == set(PRODUCTS)


QUEUES: dict[str, Any] = {"maxOffsets": {"orders": {"broker-a": {"0": 9, "2": 7}}}, "lag": 3}
MESSAGES = {"received": 40, "acknowledged": 20, "extended": 3, "expired": 1, "prefetched": 12, "inFlight": 8}


def progress(latest: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """As Spark's JSON has it."""
    own = {"name": "first", "batchId": 7, "numInputRows": 2, "processedRowsPerSecond": 40.0}
    return own | {"sources": [{"latestOffset": latest}]}


def words(text: str) -> str:
    return " ".join(text.split())


class TestProgress:
    def test_the_line_has_rows_rate_lag_and_queues(self) -> None:
        assert words(line_of(progress(QUEUES))) == "first batch 7 2 rows 40 rows/s lag 3 queues 0,2"

    def test_before_the_first_refresh_there_are_no_queues(self) -> None:
        assert queues_of(progress()) == ()
        assert words(line_of(progress())) == "first batch 7 2 rows 40 rows/s lag ? queues none"

    def test_an_unknown_lag_is_shown_as_unknown(self) -> None:
        assert words(line_of(progress(QUEUES | {"lag": None}))).endswith("rows/s lag ? queues 0,2")

    def test_a_trigger_without_rows_has_no_rate(self) -> None:
        idle = {name: value for name, value in progress(QUEUES).items() if name != "processedRowsPerSecond"}
        assert words(line_of(idle)) == "first batch 7 2 rows 0 rows/s lag 3 queues 0,2"

    def test_where_messages_are_shared_their_counts_are_shown(self) -> None:
        assert words(line_of(progress(MESSAGES))) == (
            "first batch 7 2 rows 40 rows/s received 40 prefetched 12 acknowledged 20 expired 1"
        )


@pytest.mark.parametrize(
    ("members", "is_so"),
    [
        ([("0", "1")], True),
        ([("0",), ("1",)], True),
        ([("0", "1"), ("1",)], False),
        ([("0",), ("0",)], False),
        ([("0",)], False),
        ([()], False),
    ],
)
def test_queues_are_divided_when_each_has_one_owner(members: list[tuple[str, ...]], is_so: bool) -> None:
    owned = [progress({"maxOffsets": {"orders": {"b": dict.fromkeys(queues, 5)}}}) for queues in members]
    assert is_divided(owned, 2) is is_so


def test_where_messages_are_shared_no_queue_is_divided() -> None:
    assert is_divided([progress(MESSAGES), progress(MESSAGES)], 0)


Q0, Q1 = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))


class TestGroupLag:
    def test_it_is_what_is_stored_behind_the_committed_offsets(self) -> None:
        assert group_lag({Q0: QueueBounds(0, 10), Q1: QueueBounds(5, 20)}, {Q0: 10, Q1: 12}) == 8

    def test_offset_zero_is_a_real_offset(self) -> None:
        assert group_lag({Q0: QueueBounds(0, 10)}, {Q0: 0}) == 10

    def test_a_queue_without_an_offset_counts_with_all_that_it_holds(self) -> None:
        assert group_lag({Q0: QueueBounds(4, 10)}, {Q0: None}) == 6

    def test_a_commit_that_came_after_the_bounds_is_no_negative_lag(self) -> None:
        assert group_lag({Q0: QueueBounds(0, 10), Q1: QueueBounds(0, 3)}, {Q0: 12, Q1: 0}) == 3


def billed(*keys: str) -> list[tuple[str, str]]:
    """An invoice for each."""
    return [(f"id-{key}", key) for key in keys]


class TestAudit:
    def test_every_order_once_is_clean(self) -> None:
        counts = audit({"a", "b"}, ["a", "b"], 0, billed("a", "b"))
        assert list(counts.items()) == [
            ("produced", 2),
            ("read", 2),
            ("distinct", 2),
            ("duplicates", 0),
            ("lost", 0),
            ("group_lag", 0),
            ("written", 2),
            ("invoices", 2),
            ("unbilled", 0),
        ]
        assert is_clean(counts)

    def test_an_order_that_is_read_twice_is_a_duplicate_and_no_loss(self) -> None:
        counts = audit({"a"}, ["a", "a"], 0, billed("a"))
        assert (counts["read"], counts["distinct"], counts["duplicates"], counts["lost"]) == (2, 1, 1, 0)
        assert is_clean(counts)

    def test_a_lost_order_is_not_hidden_by_a_duplicate(self) -> None:
        counts = audit({"a", "b"}, ["a", "a"], 0, billed("a", "b"))
        assert (counts["duplicates"], counts["lost"]) == (1, 1)
        assert not is_clean(counts)

    def test_a_row_without_an_order_hides_no_loss(self) -> None:
        assert audit({"a"}, ["strange"], 0, billed("a"))["lost"] == 1

    def test_a_lag_is_not_clean(self) -> None:
        assert not is_clean(audit({"a"}, ["a"], 1, billed("a")))

    def test_an_invoice_that_is_stored_again_is_one_invoice(self) -> None:
        counts = audit({"a"}, ["a"], 0, billed("a", "a"))
        assert (counts["written"], counts["invoices"], counts["unbilled"]) == (2, 1, 0)
        assert is_clean(counts)

    def test_an_order_without_an_invoice_is_not_clean_nor_hidden_by_invoices_of_others(self) -> None:
        counts = audit({"a", "b"}, ["a", "b"], 0, billed("a", "a", "strange"))
        assert (counts["written"], counts["invoices"], counts["unbilled"]) == (3, 2, 1)
        assert not is_clean(counts)


def test_of_a_spark_failure_the_connectors_own_sentence_is_shown() -> None:
    failure = (
        "[STREAM_FAILED] Query [id = 1] terminated\n  File x\n"
        "OptionError: [ROCKETMQ_INCOMPATIBLE_CHECKPOINT] It is bad.\nmore"
    )
    assert cause_of(failure) == "[ROCKETMQ_INCOMPATIBLE_CHECKPOINT] It is bad."


def test_of_several_sentences_the_last_is_shown_because_causes_come_first() -> None:
    failure = "BrokerError: [ROCKETMQ_BROKER_ERROR] No.\n\nRouteError: [ROCKETMQ_TOPIC_NOT_FOUND] Not there.\nx"
    assert cause_of(failure) == "[ROCKETMQ_TOPIC_NOT_FOUND] Not there."


def test_a_sentence_that_holds_another_is_shown_whole() -> None:
    whole = "[ROCKETMQ_CLUSTER_TIMEOUT] No answer: [ROCKETMQ_CONNECT_FAILED] No connection."
    assert cause_of(f"TransportError: {whole}") == whole


def test_of_any_other_failure_the_first_line_is_shown() -> None:
    assert cause_of("\nout of memory\n at java") == "out of memory"
    assert cause_of("") == ""
