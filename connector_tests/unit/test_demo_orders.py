from __future__ import annotations

import json

import pytest

from rocketmq_spark.cli.demo_orders import PRODUCTS, order_key, order_message, orders_due


@pytest.mark.parametrize(("elapsed_s", "due"), [(0.0, 0), (0.05, 5), (1.0, 100), (59.999, 5999), (60.0, 6000)])
def test_orders_come_at_a_steady_pace(elapsed_s: float, due: int) -> None:
    assert orders_due(elapsed_s, rate_per_s=100) == due


def test_an_order_has_a_json_body_its_product_as_tag_and_a_key() -> None:
    message = order_message("orders", 4)
    body = json.loads(message.body)
    assert (message.topic, message.tags, message.keys) == ("orders", body["product"], "order-4")
    assert body["order"] == 4
    assert body["amount_cents"] > 0


def test_no_two_orders_share_a_key_and_all_products_sell() -> None:
    messages = [order_message("orders", number) for number in range(300)]
    assert {message.keys for message in messages} == {order_key(number) for number in range(300)}
    assert {message.tags for message in messages} == set(PRODUCTS)
