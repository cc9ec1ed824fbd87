from __future__ import annotations

from rocketmq_spark.grouping import grouped


def test_groups_and_their_items_keep_their_order() -> None:
    groups = grouped(iter(["bee", "ant", "bat", "bee", "ape"]), lambda name: name[0])
    assert list(groups.items()) == [("b", ["bee", "bat", "bee"]), ("a", ["ant", "ape"])]


def test_no_items_have_no_groups() -> None:
    assert grouped([], str) == {}
