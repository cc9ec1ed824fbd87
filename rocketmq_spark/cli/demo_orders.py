"""The demo's shop: orders that arrive at a steady pace, each one a RocketMQ message with a key and a tag."""

from __future__ import annotations

import json
from typing import Final

from rocketmq_spark.model import Message
from rocketmq_spark.remoting.producer import Producer

PRODUCTS: Final = ("books", "games", "music")
CUSTOMERS: Final = 40
BATCH_LIMIT: Final = 100


def order_key(number: int) -> str:
    """The message key of an order; no two orders share one."""
    return f"order-{number}"


def order_message(topic: str, number: int) -> Message:
    """Order ``number`` as JSON, its product as the tag."""
    product = PRODUCTS[number % len(PRODUCTS)]
    body = {
        "order": number,
        "customer": f"customer-{number * 7 % CUSTOMERS}",
        "product": product,
        "amount_cents": 500 + number * 37 % 9500,
    }
    return Message(topic, json.dumps(body).encode(), tags=product, keys=order_key(number))


def orders_due(elapsed_s: float, rate_per_s: int) -> int:
    """How many orders a shop of ``rate_per_s`` has taken after ``elapsed_s``."""
    return int(elapsed_s * rate_per_s)


class Shop:
    """Sends the orders that are due. What it was late with, it sends as soon as it is asked again."""

    def __init__(self, producer: Producer, topic: str, rate_per_s: int) -> None:
        self._producer = producer
        self._topic = topic
        self._rate_per_s = rate_per_s
        self._taken = 0

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the orders that the broker has confirmed."""
        return frozenset(map(order_key, range(self._taken)))

    def send_due(self, elapsed_s: float) -> None:
        """Send what was ordered up to ``elapsed_s`` and is not sent yet."""
        due = orders_due(elapsed_s, self._rate_per_s)
        while self._taken < due:
            end = min(due, self._taken + BATCH_LIMIT)
            self._producer.send_batch([order_message(self._topic, number) for number in range(self._taken, end)])
            self._taken = end
