from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions, WriteOptions
from rocketmq_spark.options.kinds import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS

ORDINARY = ("orders-app", "%RETRY%orders", "default_consumer", "MY_TOOLS_CONSUMER", "CID_orders")


def test_the_groups_that_are_refused_are_rocketmqs_own(java: Any) -> None:
    mix_all = java.org.apache.rocketmq.common.MixAll
    field = java.java.lang.Class.forName("org.apache.rocketmq.common.MixAll").getDeclaredField("PREDEFINE_GROUP_SET")
    field.setAccessible(True)
    assert set(field.get(None)) == SYSTEM_GROUPS
    assert mix_all.CID_RMQ_SYS_PREFIX == SYSTEM_GROUP_PREFIX


@pytest.mark.parametrize("group", [*sorted(SYSTEM_GROUPS), f"{SYSTEM_GROUP_PREFIX}ANYTHING", *ORDINARY])
def test_a_group_is_refused_exactly_where_rocketmq_reserves_it(java: Any, group: str) -> None:
    mix_all = java.org.apache.rocketmq.common.MixAll
    assert is_refused(group) == (mix_all.isSysConsumerGroup(group) or mix_all.isPredefinedGroup(group))


def is_refused(group: str) -> bool:
    as_consumer = refusal(ReadOptions.parse, "consumerGroup", group, subscribe="t")
    as_producer = refusal(WriteOptions.parse, "producerGroup", group, topic="t")
    assert (as_consumer is None) == (as_producer is None)
    for option, reported in (("consumerGroup", as_consumer), ("producerGroup", as_producer)):
        assert reported is None or reported == (
            f"[ROCKETMQ_INVALID_OPTION_VALUE] Invalid value {group!r} for {option!r}. Set it to a group name "
            "(letters, digits and %|_-, at most 120 characters) that is no system group of RocketMQ, such as "
            "CID_RMQ_SYS_... or TOOLS_CONSUMER."
        )
    return as_consumer is not None


def refusal(parse: Callable[[dict[str, str]], object], option: str, group: str, **given: str) -> str | None:
    try:
        parse({"namesrvAddr": "n:9876", option: group, **given})
    except OptionError as error:
        return str(error)
    return None
