from __future__ import annotations

import dataclasses
import json
import pickle
import tracemalloc
from typing import Any

import pytest

from connector_tests.support.message_bytes import Record
from connector_tests.support.queues import queue
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import (
    BrokerAddress,
    BrokerData,
    Message,
    MessageExt,
    MessageQueue,
    QueueBounds,
    QueueData,
    QueueRange,
    TopicRoute,
    dead_letter_topic,
    flat,
    java_string_order,
    nested,
    retry_topic,
    split_address,
)
from rocketmq_spark.wire.message.stored_message import decode_messages

BOTH, READ, WRITE, INHERIT, NEITHER = 6, 4, 2, 1, 0


def route(*queues: QueueData, brokers: tuple[BrokerData, ...] = ()) -> TopicRoute:
    return TopicRoute("orders", brokers, queues)


def test_producers_write_only_where_the_order_configuration_names_brokers() -> None:
    brokers = (BrokerData("c", "a", {0: "a:1"}), BrokerData("c", "b", {1: "b:1"}), BrokerData("c", "r", {0: "r:1"}))
    ordered = dataclasses.replace(
        route(QueueData("a", 4, 4, BOTH), QueueData("b", 4, 4, BOTH), QueueData("r", 4, 4, READ), brokers=brokers),
        order_conf="r:1;b:1;a:2",
        ordered_brokers=(("r", 1), ("b", 1), ("a", 2)),
    )
    names = [(one.broker_name, one.queue_id) for one in ordered.publish_queues()]
    assert names == [("r", 0), ("b", 0), ("a", 0), ("a", 1)]
    assert [(one.broker_name, one.queue_id) for one in ordered.write_queues()] == [("a", 0), ("a", 1)]
    assert len(ordered.read_queues()) == 12, "consumers read all of them"


def test_an_order_configuration_that_cannot_be_read_is_refused_to_producers() -> None:
    unread = dataclasses.replace(route(QueueData("a", 4, 4, BOTH)), order_conf="a")
    with pytest.raises(RouteError) as raised:
        unread.publish_queues()
    assert raised.value.context == {"topic": "orders", "order_conf": "a"}
    assert "Set it to 'broker:queues;broker:queues', at most 65536 queues" in str(raised.value)
    assert len(unread.read_queues()) == 4


def test_values_are_nested_by_topic_broker_and_queue_in_queue_order() -> None:
    values = {MessageQueue("b", "y", 0): 4, MessageQueue("a", "x", 10): 3, MessageQueue("a", "x", 2): 2}
    assert json.dumps(nested(values)) == '{"a": {"x": {"2": 2, "10": 3}}, "b": {"y": {"0": 4}}}'
    assert dict(flat(nested(values))) == values


def test_strings_are_ordered_as_java_orders_them() -> None:
    """By UTF-16 code units: an emoji is a pair of surrogates, which come before U+FF5E."""
    assert sorted(["\uff5e", "\U0001f600", "b", "a", "B", ""], key=java_string_order) == [
        "",
        "B",
        "a",
        "b",
        "\U0001f600",
        "\uff5e",
    ]


def test_a_lone_surrogate_can_be_ordered() -> None:
    assert java_string_order("\ud800") == b"\xd8\x00"


def test_queues_are_ordered_by_topic_then_broker_then_number() -> None:
    ordered = [
        MessageQueue("a", "x", 2),
        MessageQueue("a", "x", 10),
        MessageQueue("a", "y", 0),
        MessageQueue("b", "x", 0),
    ]
    assert sorted((ordered[2], ordered[0], ordered[3], ordered[1]), key=MessageQueue.sort_key) == ordered


def test_a_queue_is_shown_in_one_word() -> None:
    assert str(MessageQueue("orders", "broker-a", 3)) == "orders@broker-a:3"


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (5, 4), (-2, -1)])
def test_a_range_that_is_none_cannot_be_made(begin: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a range"):
        QueueRange(queue(0), begin, end)


def test_a_range_is_half_open() -> None:
    assert len(QueueRange(queue(0), 5, 8)) == 3
    assert len(QueueRange(queue(0), 5, 5)) == 0


def test_a_range_is_written_half_open() -> None:
    assert str(QueueRange(MessageQueue("T", "a", 3), 5, 8)) == "T@a:3[5,8)"


def test_a_range_may_begin_at_zero_and_be_empty() -> None:
    assert QueueRange(queue(0), 0, 0).begin_offset == 0


@pytest.mark.parametrize(
    "value",
    [
        queue(0),
        QueueRange(queue(0), 0, 1),
        QueueBounds(0, 1),
        BrokerData("cluster", "a", {}),
        QueueData("a", 1, 1, BOTH),
        route(),
        Message("orders", b""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_cannot_be_changed(value: Any) -> None:
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else value._fields
    attribute = names[0]
    with pytest.raises(AttributeError):
        setattr(value, attribute, None)


def message(**properties: str) -> MessageExt:
    record = Record(properties="".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode())
    (decoded,) = decode_messages(record.encode(), broker_name="b")
    return decoded


def test_a_message_that_came_back_has_its_first_place_and_its_consumer() -> None:
    assert message(RETRY_TOPIC="T").origin_topic == "T"
    assert message(ORIGIN_MESSAGE_ID="O", UNIQ_KEY="U").origin_msg_id == "U"
    assert message(ORIGIN_MESSAGE_ID="O").origin_msg_id == "O"


def test_any_other_message_is_its_own_origin() -> None:
    plain = message()
    assert (plain.origin_topic, plain.origin_msg_id) == (plain.topic, plain.offset_msg_id)


def test_a_range_travels_to_executors() -> None:
    one = QueueRange(queue(0), 5, 8)
    assert pickle.loads(pickle.dumps(one)) == one


def test_consumers_read_the_read_queues_of_readable_brokers() -> None:
    subject = route(
        QueueData("b", 2, 8, BOTH),
        QueueData("a", 1, 1, READ),
        QueueData("c", 4, 4, WRITE),
        QueueData("d", 4, 4, NEITHER),
        QueueData("e", 4, 4, INHERIT),
    )
    assert [str(one) for one in subject.read_queues()] == ["orders@a:0", "orders@b:0", "orders@b:1"]


def test_producers_write_the_write_queues_of_writable_brokers_with_a_master() -> None:
    brokers = (
        BrokerData("cluster", "a", {0: "a:1"}),
        BrokerData("cluster", "b", {1: "slave:1"}),
        BrokerData("cluster", "c", {0: "c:1", 1: "slave:2"}),
        BrokerData("cluster", "d", {0: "d:1"}),
    )
    subject = route(
        QueueData("a", 8, 2, BOTH),
        QueueData("b", 8, 2, BOTH),
        QueueData("c", 8, 2, READ),
        QueueData("d", 8, 2, INHERIT),
        brokers=brokers,
    )
    assert [str(one) for one in subject.write_queues()] == ["orders@a:0", "orders@a:1"]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("broker:10911", ("broker", 10911)),
        ("[::1]:10911", ("::1", 10911)),
        ("fe80::1:10911", ("fe80::1", 10911)),  # a broker writes an IPv6 address into its route without brackets
    ],
)
def test_host_and_port_of_an_address(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "broker", ":10911", "[]:10911", "broker:0", "broker:65536", "broker:x"])
def test_address_without_a_host_or_a_port_is_none(address: str) -> None:
    """Without a host the system connects to this machine."""
    with pytest.raises(ValueError, match=r"an address is host:port|invalid literal"):
        split_address(address)


def test_a_broker_without_a_master_has_no_address() -> None:
    brokers = (BrokerData("cluster", "a", {0: "a:1"}), BrokerData("cluster", "b", {1: "slave:1"}))
    subject = route(brokers=brokers)
    assert [subject.master_address(name) for name in ("a", "b", "unknown")] == [BrokerAddress("a:1"), None, None]


def test_queues_of_a_route_are_in_java_s_order_whatever_their_brokers_are_called() -> None:
    """Members that took them in another order would own each other's."""
    names = ("\U0001f600", "\uff5e")
    brokers = tuple(BrokerData("cluster", name, {0: "a:1"}) for name in names)
    subject = route(*(QueueData(name, 1, 1, BOTH) for name in names[::-1]), brokers=brokers)
    assert [one.broker_name for one in subject.read_queues()] == list(names)
    assert [one.broker_name for one in subject.write_queues()] == list(names)
    assert list(nested(dict.fromkeys(subject.read_queues()[::-1]))["orders"]) == list(names)


def test_what_a_group_has_sent_back_is_in_a_topic_of_its_own() -> None:
    assert retry_topic("orders-app") == "%RETRY%orders-app"
    assert dead_letter_topic("orders-app") == "%DLQ%orders-app"


def test_order_of_long_texts_is_not_kept() -> None:
    """Any client may join the group with an ID of megabytes, again and again."""
    tracemalloc.start()
    try:
        for number in range(20):
            java_string_order(f"{number}" * 100_000)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 100_000
