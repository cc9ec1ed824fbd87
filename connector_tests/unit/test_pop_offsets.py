"""The offset of a stream whose group shares messages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.proxied_handles import UNVERIFIED
from rocketmq_spark.pop.receipt_handles import BrokerHandle, OpaqueHandle, PopCheckPoint
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.stream.offsets import SourceOffset

REQUIRED = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "loadBalance": "message"}
OPTIONS = ReadOptions.parse(REQUIRED)
CHECK_POINT = PopCheckPoint("orders", 120, 1_763_712_000_000, 300_000, 3, "0", "broker-a", 1)
OFFSET = PopOffset("g", "6f0c", 7, tuple(BrokerHandle(CHECK_POINT, offset) for offset in (120, 121, 125)))
VALUE: dict[str, Any] = {
    "v": 1,
    "loadBalance": "message",
    "consumerGroup": "g",
    "epoch": "6f0c",
    "n": 7,
    "handles": {"orders 120 1763712000000 300000 3 0 broker-a 1": "0-1,5"},
}


def test_it_is_written_in_one_way_and_read_back() -> None:
    assert OFFSET.to_json() == VALUE
    assert PopOffset.from_json(VALUE, OPTIONS) == OFFSET


def test_offset_of_a_broker_whose_name_has_blanks_is_read_back() -> None:
    offset = replace(OFFSET, handles=(BrokerHandle(CHECK_POINT._replace(broker_name="my broker"), 120),))
    assert PopOffset.from_json(offset.to_json(), OPTIONS) == offset


def test_what_spark_4_1_shows_beside_it_is_ignored() -> None:
    assert PopOffset.from_json(VALUE | {"shown": {"inFlight": 3}}, OPTIONS) == OFFSET


def test_the_initial_one_has_no_messages() -> None:
    value = PopOffset("g").to_json()
    assert value == VALUE | {"epoch": "", "n": 0, "handles": {}}
    assert PopOffset.from_json(value, OPTIONS) == PopOffset("g")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ([], "list indices must be integers or slices, not str"),
        ({}, "'handles'"),
        (VALUE | {"v": 2}, "another version or spelling"),
        (VALUE | {"n": "7"}, "epoch '6f0c', n '7'"),
        (VALUE | {"epoch": ""}, "a batch without 'epoch'"),
        (VALUE | {"more": "x" * 300}, "another version or spelling"),
        (VALUE | {"handles": {"orders": "0"}}, "not enough values to unpack (expected at least 7, got 0)"),
        (
            VALUE | {"handles": {"orders 120 1763712000000 300000 3 0 broker-a 1": "1,0"}},
            "another version or spelling",
        ),
        (
            VALUE | {"handles": {"orders 120 1763712000000 300000 3 0 broker-a 1": "0-999999999999"}},
            "messages in a batch: 1000000000000, at most 200000 are accepted",
        ),
        (VALUE | {"handles": ["orders"]}, "'list' object has no attribute 'items'"),
    ],
)
def test_anything_else_is_refused(wrong: Any, problem: str) -> None:
    with pytest.raises(OptionError) as raised:
        PopOffset.from_json(wrong, OPTIONS)
    assert raised.value.condition == "INCOMPATIBLE_CHECKPOINT"
    assert raised.value.context == {"problem": f"{problem} in {str(wrong)[:200]}"}


def changed(option: str, before: str, now: str) -> str:
    was_and_is = f"The checkpoint was written with {option}='{before}'; the query now has {option}='{now}'."
    return rf"^\[ROCKETMQ_CHECKPOINT_OPTION_CHANGED\] {re.escape(was_and_is)} "


def test_those_of_another_group_and_of_queues_are_distinguished() -> None:
    with pytest.raises(OptionError, match=changed("consumerGroup", "other", "g")):
        PopOffset.from_json(VALUE | {"consumerGroup": "other"}, OPTIONS)
    with pytest.raises(OptionError, match=changed("loadBalance", "queue", "message")):
        PopOffset.from_json(SourceOffset().to_json(), OPTIONS)
    with pytest.raises(OptionError, match=changed("loadBalance", "message", "queue")):
        SourceOffset.from_json(VALUE)


def test_only_a_query_that_reads_queues_is_advised_to_move_its_group() -> None:
    """It is an error to share messages with ``groupOffsets``. The whole message of each."""
    with pytest.raises(OptionError) as sharing:
        PopOffset.from_json(SourceOffset().to_json(), OPTIONS)
    assert str(sharing.value) == (
        "[ROCKETMQ_CHECKPOINT_OPTION_CHANGED] The checkpoint was written with loadBalance='queue'; the query now "
        "has loadBalance='message'. Its offsets do not apply to the new value: resuming could skip or repeat "
        "messages. Restore the old value, or use a new checkpoint location (for a file sink also a new path). "
        "With a new one, the query resumes from the group's committed offsets. If it has loadBalance=queue, set "
        "'groupOffsets' to 'ignore' to start from 'startingOffsets' instead. If it has loadBalance=message, brokers "
        "redeliver the messages of an incomplete batch."
    )
    with pytest.raises(OptionError) as reading_queues:
        SourceOffset.from_json(VALUE)
    assert str(reading_queues.value) == (
        "[ROCKETMQ_CHECKPOINT_OPTION_CHANGED] The checkpoint was written with loadBalance='message'; the query "
        "now has loadBalance='queue'. Its offsets do not apply to the new value: resuming could skip or repeat "
        "messages. Restore the old value, or use a new checkpoint location (for a file sink also a new path). "
        "With a new one, the query resumes from the group's committed offsets. If it has loadBalance=queue, set "
        "'groupOffsets' to 'ignore' to start from 'startingOffsets' instead. If it has loadBalance=message, brokers "
        "redeliver the messages of an incomplete batch."
    )


OPAQUE = PopOffset("g", "6f0c", 7, (OpaqueHandle("orders", "broker-a", "a server's own"),))


def test_handles_that_only_their_server_understands_are_kept_for_it() -> None:
    over_grpc = replace(OPTIONS, name_servers=(), endpoints=("p:8081",))
    value = OPAQUE.to_json()
    assert value["handles"] == {"orders broker-a": ["a server's own"]}
    assert PopOffset.from_json(value, over_grpc) == OPAQUE
    with pytest.raises(OptionError, match=changed("endpoints", "(set)", "(not set)")):
        PopOffset.from_json(value, OPTIONS)


@pytest.mark.parametrize("text", [UNVERIFIED, "1 2 3 4 5 77"])
def test_handles_that_a_producer_may_have_written_bind_no_query_to_its_proxy(text: str) -> None:
    """Each start over ``namesrvAddr`` failed, for a single message with a ``POP_CK``."""
    handles = (OFFSET.handles[0], OpaqueHandle("orders", "broker-a", text))
    offset = PopOffset("g", "6f0c", 7, handles)
    assert PopOffset.from_json(offset.to_json(), OPTIONS) == offset


def test_a_broker_s_own_handles_are_understood_over_both_protocols() -> None:
    over_grpc = replace(OPTIONS, name_servers=(), endpoints=("p:8081",))
    assert PopOffset.from_json(VALUE, over_grpc) == OFFSET
