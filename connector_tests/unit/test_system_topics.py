"""Topics of a view without those of the system."""

from __future__ import annotations

from rocketmq_spark.model import BrokerData
from rocketmq_spark.wire.body.routes import ClusterInfo
from rocketmq_spark.wire.body.system_topics import SYSTEM_TOPICS, user_topics

CLUSTER = ClusterInfo({"broker-a": BrokerData("main", "broker-a", {0: "a:10911"})}, {"main": ("broker-a",)})


def test_topics_of_the_system_are_omitted() -> None:
    of_the_system = {*SYSTEM_TOPICS, "rmq_sys_wheel_timer", "main", "broker-a", "main_REPLY_TOPIC"}
    assert user_topics(of_the_system, CLUSTER) == []


def test_topics_of_users_retries_and_dead_letters_are_sorted() -> None:
    of_users = ["orders", "%RETRY%g", "%DLQ%g", "broker-b", "other_REPLY_TOPIC", "my_rmq_sys_topic", "orders"]
    assert user_topics(of_users, CLUSTER) == sorted(set(of_users))
