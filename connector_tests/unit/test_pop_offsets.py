"""The offset of a stream whose group shares messages."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import CheckPoint, Handle
from rocketmq_spark.source.pop.pop_offsets import PopOffset
from rocketmq_spark.source.stream.offsets import SourceOffset

REQUIRED = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "orders", "loadBalance": "message"}
OPTIONS = ReadOptions.parse(REQUIRED)
CHECK_POINT = CheckPoint("orders", 120, 1_763_712_000_000, 300_000, 3, "0", "broker-a", 1)
OFFSET = PopOffset("g", "6f0c", 7, tuple(Handle(CHECK_POINT, offset) for offset in (120, 121, 125)))
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


def test_the_initial_one_has_no_messages() -> None:
    value = PopOffset("g").to_json()
    assert value == VALUE | {"epoch": "", "n": 0, "handles": {}}
    assert PopOffset.from_json(value, OPTIONS) == PopOffset("g")


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        VALUE | {"v": 2},
        VALUE | {"n": "7"},
        VALUE | {"more": 1},
        VALUE | {"handles": {"orders": "0"}},
        VALUE | {"handles": {"orders 120 1763712000000 300000 3 0 broker-a 1": "1,0"}},
        VALUE | {"handles": ["orders"]},
    ],
)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(OptionError, match="BAD_OFFSET"):
        PopOffset.from_json(wrong, OPTIONS)


def test_those_of_another_group_and_of_queues_are_told_apart() -> None:
    with pytest.raises(OptionError, match=r"CHECKPOINT_OF_ANOTHER.*'consumerGroup' 'other'.*'g'"):
        PopOffset.from_json(VALUE | {"consumerGroup": "other"}, OPTIONS)
    with pytest.raises(OptionError, match=r"CHECKPOINT_OF_ANOTHER.*'loadBalance' 'queue'.*'message'"):
        PopOffset.from_json(SourceOffset().to_json(), OPTIONS)
    with pytest.raises(OptionError, match=r"CHECKPOINT_OF_ANOTHER.*'loadBalance' 'message'.*'queue'"):
        SourceOffset.from_json(VALUE)
