from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from connector_tests.support.queues import queue, queues
from rocketmq_spark.consumer.allocation import AllocateMessageQueueAveragely
from rocketmq_spark.consumer.rebalance import RebalanceImpl, RebalancePlan
from rocketmq_spark.model import MessageQueue

A, B, C, D = queues(4)
ORDERS = {"orders": (A, B, C, D)}


def member(client_id: str = "me") -> RebalanceImpl:
    return RebalanceImpl("g", client_id, AllocateMessageQueueAveragely())


def rebalanced(
    subject: RebalanceImpl, client_ids: Sequence[str], topics: Mapping[str, Sequence[MessageQueue]] = ORDERS
) -> RebalancePlan:
    plan = subject.decide(topics, client_ids)
    assert plan is not None
    subject.apply(plan)
    return plan


def test_the_only_member_has_all_queues_of_all_topics() -> None:
    payment = queue(0, topic="payments")
    plan = rebalanced(member(), ["me"], {**ORDERS, "payments": (payment,)})
    assert plan == RebalancePlan(add=(A, B, C, D, payment))


def test_a_member_that_joins_takes_and_one_that_was_there_gives() -> None:
    first, second = member("1"), member("2")
    rebalanced(first, ["1"])
    assert rebalanced(first, ["1", "2"]) == RebalancePlan(drop=(C, D))
    assert rebalanced(second, ["1", "2"]) == RebalancePlan(add=(C, D))


class GroupTakesAll:
    """Gives all to the member that is called as the group."""

    name = "GROUP_TAKES_ALL"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(queues) if client_id == group else []


def test_the_strategy_receives_the_group() -> None:
    assert rebalanced(RebalanceImpl("g", "g", GroupTakesAll()), ["g"]) == RebalancePlan(add=(A, B, C, D))


def test_a_process_queue_has_its_queue() -> None:
    subject = member()
    rebalanced(subject, ["me"])
    assert {queue: process_queue.queue for queue, process_queue in subject.table.items()} == {
        queue: queue for queue in (A, B, C, D)
    }


def test_deciding_changes_nothing() -> None:
    subject = member()
    subject.decide(ORDERS, ["me"])
    assert subject.table == {}


def test_deciding_the_same_again_plans_nothing() -> None:
    subject = member()
    rebalanced(subject, ["me"])
    assert not rebalanced(subject, ["me"])


@pytest.mark.parametrize("client_ids", [None, [], ["other"]])
def test_nothing_is_decided_without_good_knowledge(client_ids: list[str] | None) -> None:
    """A broker may answer before it has noticed our heartbeat; to drop everything then would be a storm of moves."""
    subject = member()
    rebalanced(subject, ["me"])
    assert subject.decide(ORDERS, client_ids) is None


def test_a_client_id_that_is_listed_twice_is_one_member() -> None:
    """Brokers list a client once for each of its connections."""
    assert rebalanced(member("1"), ["1", "2", "1", "2"]) == RebalancePlan(add=(A, B))


def test_the_order_in_which_a_broker_lists_members_does_not_matter() -> None:
    assert rebalanced(member("1"), ["2", "1"]) == rebalanced(member("1"), ["1", "2"])


def test_members_are_ordered_as_java_orders_strings() -> None:
    """By UTF-16 code units an emoji comes before a full-width letter; by code points it would come after."""
    emoji, full_width = "\U0001f600", "\uff5e"
    assert rebalanced(member(emoji), [full_width, emoji]) == RebalancePlan(add=(A, B))


def test_a_member_more_than_there_are_queues_stays_without() -> None:
    assert rebalanced(member("5"), ["1", "2", "3", "4", "5"]) == RebalancePlan()


def test_a_queue_that_is_deleted_is_dropped() -> None:
    subject = member()
    rebalanced(subject, ["me"])
    assert rebalanced(subject, ["me"], {"orders": (A, B)}) == RebalancePlan(drop=(C, D))


def test_a_queue_that_comes_back_gets_a_new_process_queue() -> None:
    subject = member("1")
    rebalanced(subject, ["1"])
    before = subject.table[D]
    before.put(0, 10)
    rebalanced(subject, ["1", "2"])
    rebalanced(subject, ["1"])
    after = subject.table[D]
    assert before.dropped
    assert not after.dropped
    assert after is not before
    assert after.in_flight == ()


def test_a_queue_that_stays_keeps_what_it_has_in_flight() -> None:
    subject = member("1")
    rebalanced(subject, ["1"])
    subject.table[A].put(0, 10)
    rebalanced(subject, ["1", "2"])
    assert subject.table[A].in_flight == ((0, 10),)


def test_an_empty_plan_is_false() -> None:
    assert not RebalancePlan()
    assert RebalancePlan(add=(A,))
    assert RebalancePlan(drop=(A,))


def test_a_plan_names_queues_in_javas_order_of_names() -> None:
    """By UTF-16: a character beyond the first 65,536 is a pair of surrogates, and those come before U+E000 and on."""
    beyond, private = queue(0, broker_name="\U00010000"), queue(0, broker_name="\ue000")
    assert rebalanced(member(), ["me"], {"orders": (private, beyond)}) == RebalancePlan(add=(beyond, private))


def test_each_assignment_of_a_queue_has_a_number_and_the_first_is_one() -> None:
    subject = member("1")
    rebalanced(subject, ["1"])
    assert [subject.table[queue].generation for queue in (A, B, C, D)] == [1, 2, 3, 4]
    rebalanced(subject, ["1", "2"])
    rebalanced(subject, ["1"])
    assert [subject.table[queue].generation for queue in (A, B, C, D)] == [1, 2, 5, 6]
