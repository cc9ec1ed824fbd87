"""What members tell of how they consume, and where two that have told it differ."""

from __future__ import annotations

import pytest

from rocketmq_spark.consumer.allocation import AllocateMessageQueueAveragely
from rocketmq_spark.consumer.manner import MESSAGE_MODEL, STRATEGY, differences, manner_of, told_manner
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.body.running_info import PROP_CHECKPOINT, PROP_CONSUME_ORDERLY

AVG = "AllocateMessageQueueAveragely"
OF_JAVA = f"org.apache.rocketmq.client.consumer.rebalance.{AVG}@1b2c6ec2"


def told(**given: str) -> dict[str, str]:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders"}
    return told_manner(ReadOptions.parse(required | given), AllocateMessageQueueAveragely())


@pytest.mark.parametrize("orderly", ["true", "false"])
def test_a_member_tells_its_model_order_and_strategy(orderly: str) -> None:
    assert told(consumeOrderly=orderly) == {
        MESSAGE_MODEL: "CLUSTERING",
        PROP_CONSUME_ORDERLY: orderly,
        STRATEGY: AVG,
    }


@pytest.mark.parametrize(("model", "is_told"), [("CLUSTERING", True), ("BROADCASTING", False)])
def test_the_checkpoint_is_told_where_members_share_the_queues(model: str, is_told: bool) -> None:
    required = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "instanceName": "one"}
    options = ReadOptions.parse(required | {"messageModel": model})
    properties = told_manner(options, AllocateMessageQueueAveragely(), "6f1e")
    assert properties.get(PROP_CHECKPOINT) == ("6f1e" if is_told else None)


def test_in_broadcasting_there_is_no_strategy() -> None:
    assert told(messageModel="BROADCASTING", instanceName="one") == {
        MESSAGE_MODEL: "BROADCASTING",
        PROP_CONSUME_ORDERLY: "false",
    }


@pytest.mark.parametrize("strategy", [AVG, OF_JAVA])
def test_what_can_be_compared_is_named_as_the_option_that_decides_it(strategy: str) -> None:
    properties = {MESSAGE_MODEL: "CLUSTERING", PROP_CONSUME_ORDERLY: "true", STRATEGY: strategy, "else": "x"}
    assert manner_of(properties) == {
        "messageModel": "CLUSTERING",
        "consumeOrderly": "true",
        "allocateStrategy": AVG,
    }


@pytest.mark.parametrize(
    ("properties", "manner"),
    [
        ({}, {}),
        ({PROP_CONSUME_ORDERLY: "true"}, {"consumeOrderly": "true"}),
        ({STRATEGY: AVG}, {"allocateStrategy": AVG}),
        ({STRATEGY: "com.example.Own@1"}, {}),
        ({STRATEGY: f"com.example.{AVG}.Inner"}, {}),
        ({MESSAGE_MODEL: "BROADCASTING", STRATEGY: AVG}, {"messageModel": "BROADCASTING"}),
    ],
)
def test_what_nobody_can_judge_is_not_compared(properties: dict[str, str], manner: dict[str, str]) -> None:
    assert manner_of(properties) == manner


def test_members_differ_in_what_both_have_told() -> None:
    ours = {"messageModel": "CLUSTERING", "consumeOrderly": "true", "allocateStrategy": AVG}
    assert differences(ours, ours) == []
    assert differences(ours, {}) == []
    assert differences({}, ours) == []
    assert differences(ours, {"consumeOrderly": "false", "allocateStrategy": "X"}) == [
        "consumeOrderly",
        "allocateStrategy",
    ]
