"""Numbers and names are those of Java's classes."""

from __future__ import annotations

from typing import Any

import pytest

from connector_tests.support.simulated_cluster import OLD_VERSION
from rocketmq_spark.consumer.outage_aware_client import OFFSET_DELETION_VERSION
from rocketmq_spark.wire.body import running_info
from rocketmq_spark.wire.message.sys_flag import MessageSysFlag
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION, PullSysFlag, RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.mq_version import (
    HIGHER_VERSION,
    V4_0_0_SNAPSHOT,
    V4_9_0_SNAPSHOT,
    V5_0_0_SNAPSHOT,
    version_name,
)

PROTOCOL = "org.apache.rocketmq.remoting.protocol"
SYS_FLAG = "org.apache.rocketmq.common.sysflag"


def constant(java: Any, class_name: str, name: str) -> Any:
    return java.java.lang.Class.forName(class_name).getField(name).get(None)


@pytest.mark.parametrize("code", [*RequestCode, *ResponseCode], ids=lambda code: code.name)
def test_a_code_has_javas_number(java: Any, code: RequestCode | ResponseCode) -> None:
    assert constant(java, f"{PROTOCOL}.{type(code).__name__}", code.name) == code


def test_every_response_code_of_java_has_a_name_here(java: Any) -> None:
    fields = java.java.lang.Class.forName(f"{PROTOCOL}.ResponseCode").getFields()
    assert {field.getName() for field in fields} <= set(ResponseCode.__members__)


def test_our_version_is_the_oracles(java: Any) -> None:
    assert java.org.apache.rocketmq.common.MQVersion.CURRENT_VERSION == CLIENT_VERSION


def test_versions_have_javas_numbers(java: Any) -> None:
    version = java.org.apache.rocketmq.common.MQVersion
    expected = {
        "V4_9_0_SNAPSHOT": V4_9_0_SNAPSHOT,
        "V4_9_7": OLD_VERSION,
        "V5_0_0_SNAPSHOT": V5_0_0_SNAPSHOT,
        "V5_1_4": OFFSET_DELETION_VERSION,
    }
    numbers = {name: version.Version.valueOf(name).ordinal() for name in expected}
    assert numbers == expected


def test_version_names_are_javas(java: Any) -> None:
    describe = java.org.apache.rocketmq.common.MQVersion.getVersionDesc
    numbers = range(V4_0_0_SNAPSHOT, HIGHER_VERSION)
    assert {number: version_name(number) for number in numbers} == {number: describe(number) for number in numbers}
    assert describe(HIGHER_VERSION) == "HIGHER_VERSION"


def test_the_flags_of_a_pull_are_javas(java: Any) -> None:
    build = java.org.apache.rocketmq.common.sysflag.PullSysFlag.buildSysFlag
    bits = [PullSysFlag.COMMIT_OFFSET, PullSysFlag.SUSPEND, PullSysFlag.SUBSCRIPTION, PullSysFlag.CLASS_FILTER]
    bits.append(PullSysFlag.LITE_PULL_MESSAGE)
    for expected in bits:
        assert build(*(bit is expected for bit in bits)) == expected


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        (MessageSysFlag.COMPRESSED, "COMPRESSED_FLAG"),
        (MessageSysFlag.MULTI_TAGS, "MULTI_TAGS_FLAG"),
        (MessageSysFlag.TRANSACTION_PREPARED, "TRANSACTION_PREPARED_TYPE"),
        (MessageSysFlag.TRANSACTION_COMMIT, "TRANSACTION_COMMIT_TYPE"),
        (MessageSysFlag.TRANSACTION_ROLLBACK, "TRANSACTION_ROLLBACK_TYPE"),
        (MessageSysFlag.BORNHOST_V6, "BORNHOST_V6_FLAG"),
        (MessageSysFlag.STOREHOST_V6, "STOREHOSTADDRESS_V6_FLAG"),
        (MessageSysFlag.NEED_UNWRAP, "NEED_UNWRAP_FLAG"),
        (MessageSysFlag.INNER_BATCH, "INNER_BATCH_FLAG"),
        (MessageSysFlag.LZ4, "COMPRESSION_LZ4_TYPE"),
        (MessageSysFlag.ZSTD, "COMPRESSION_ZSTD_TYPE"),
        (MessageSysFlag.ZLIB, "COMPRESSION_ZLIB_TYPE"),
        (MessageSysFlag.COMPRESSION_MASK, "COMPRESSION_TYPE_COMPARATOR"),
    ],
    ids=str,
)
def test_a_flag_of_a_message_is_javas(java: Any, flag: MessageSysFlag, name: str) -> None:
    assert constant(java, f"{SYS_FLAG}.MessageSysFlag", name) == flag


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (running_info.PROP_NAMESERVER_ADDR, "PROP_NAMESERVER_ADDR"),
        (running_info.PROP_CONSUME_ORDERLY, "PROP_CONSUME_ORDERLY"),
        (running_info.PROP_CONSUME_TYPE, "PROP_CONSUME_TYPE"),
        (running_info.PROP_CLIENT_VERSION, "PROP_CLIENT_VERSION"),
        (running_info.PROP_CONSUMER_START_TIMESTAMP, "PROP_CONSUMER_START_TIMESTAMP"),
    ],
)
def test_a_property_of_running_info_is_called_as_in_java(java: Any, ours: str, name: str) -> None:
    assert constant(java, f"{PROTOCOL}.body.ConsumerRunningInfo", name) == ours
