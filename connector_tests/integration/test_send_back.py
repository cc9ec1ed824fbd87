"""What is refused before any server is asked; ``spark`` and ``integration`` have what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Row

import rocketmq_spark
from rocketmq_spark.errors import OptionError
from rocketmq_spark.failed_rows.pop_send_back_client import FailedMessage
from rocketmq_spark.failed_rows.send_back import REQUIRED_POP_COLUMNS

GIVEN = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}
ROW = Row(topic="T", brokerName="broker-a", receiptHandle="x", msgId="ID", reconsumeTimes=0)


def test_a_row_without_its_handle_is_refused() -> None:
    bare = Row(**{name: value for name, value in ROW.asDict().items() if name != "receiptHandle"})
    with pytest.raises(OptionError, match=r"MISSING_SEND_BACK_COLUMN.*receiptHandle"):
        rocketmq_spark.send_back([bare], GIVEN)


@pytest.mark.parametrize(
    ("more", "named"),
    [({"delay_level": -1}, "'-1' for 'delay_level'"), ({"max_reconsume_times": 3}, "'3' for 'max_reconsume_times'")],
)
def test_what_the_group_decides_is_not_for_a_caller_to_set(more: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        rocketmq_spark.send_back([ROW], GIVEN, **more)


def test_columns_are_in_the_order_of_a_failed_messages_fields() -> None:
    assert [name.lower() for name in REQUIRED_POP_COLUMNS] == [name.replace("_", "") for name in FailedMessage._fields]


def test_no_rows_need_no_server() -> None:
    rocketmq_spark.send_back([], GIVEN)
