from __future__ import annotations

from typing import Any

from rocketmq_spark.embedded.jars import read_lock, version_of


def test_the_oracle_is_the_locked_version(java: Any) -> None:
    version = java.org.apache.rocketmq.common.MQVersion
    assert version.getVersionDesc(version.CURRENT_VERSION) == f"V{version_of(read_lock())}".replace(".", "_")


def test_bytes_pass_both_ways(java: Any) -> None:
    body = bytes(range(256))
    assert java.org.apache.rocketmq.common.message.Message("T", body).getBody() == body


def test_lists_pass_both_ways(java: Any) -> None:
    assert list(java.java.util.ArrayList(["a", "b"])) == ["a", "b"]
