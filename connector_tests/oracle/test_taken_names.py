"""The properties that no row may have are those that Java's client refuses, and what it writes itself."""

from __future__ import annotations

from typing import Any

from rocketmq_spark.model import RESERVED_PROPERTIES

WRITTEN_BY_BROKERS = {"INNER_BASE", "INNER_NUM"}
WRITTEN_BY_CLIENTS = {"__SHARDINGKEY"}


def test_no_row_may_have_what_java_refuses_as_a_property_of_a_user(java: Any) -> None:
    names = java.org.apache.rocketmq.common.message.MessageConst
    assert set(names.STRING_HASH_SET) | WRITTEN_BY_BROKERS | WRITTEN_BY_CLIENTS == RESERVED_PROPERTIES
    assert {names.PROPERTY_INNER_BASE, names.PROPERTY_INNER_NUM} == WRITTEN_BY_BROKERS
    assert {names.PROPERTY_SHARDING_KEY} == WRITTEN_BY_CLIENTS
