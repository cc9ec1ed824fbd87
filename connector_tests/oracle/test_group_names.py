from __future__ import annotations

from typing import Any

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.options.kinds import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS

ORDINARY = ("orders-app", "%RETRY%orders", "default_consumer", "MY_TOOLS_CONSUMER", "CID_orders")


def test_the_groups_that_are_refused_are_rocketmqs_own(java: Any) -> None:
    mix_all = java.org.apache.rocketmq.common.MixAll
    field = java.java.lang.Class.forName("org.apache.rocketmq.common.MixAll").getDeclaredField("PREDEFINE_GROUP_SET")
    field.setAccessible(True)
    assert set(field.get(None)) == SYSTEM_GROUPS
    assert mix_all.CID_RMQ_SYS_PREFIX == SYSTEM_GROUP_PREFIX


@pytest.mark.parametrize("group", [*sorted(SYSTEM_GROUPS), f"{SYSTEM_GROUP_PREFIX}ANYTHING", *ORDINARY])
def test_a_group_is_refused_exactly_where_rocketmq_says_it_is_its_own(java: Any, group: str) -> None:
    mix_all = java.org.apache.rocketmq.common.MixAll
    assert is_refused(group) == (mix_all.isSysConsumerGroup(group) or mix_all.isPredefinedGroup(group))


def is_refused(group: str) -> bool:
    try:
        ReadOptions.parse({"namesrvAddr": "n:9876", "subscribe": "t", "consumerGroup": group})
    except OptionError as error:
        assert str(error) == (
            f"[ROCKETMQ_BAD_OPTION_VALUE] Option 'consumerGroup' cannot be {group!r}. It must be a group name "
            "(letters, digits and %|_-), and none of RocketMQ's own, such as CID_RMQ_SYS_... or TOOLS_CONSUMER."
        )
        return True
    return False
