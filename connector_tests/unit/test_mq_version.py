from __future__ import annotations

import pytest

from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION
from rocketmq_spark.wire.remoting.mq_version import release_name, version_name


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (212, "V4_0_0_SNAPSHOT"),
        (213, "V4_0_0"),
        (407, "V4_9_7"),
        (411, "V4_9_9"),
        (412, "V5_0_0_SNAPSHOT"),
        (CLIENT_VERSION, "V5_5_0"),
        (611, "V5_9_9"),
    ],
)
def test_version_has_rocketmqs_name(number: int, name: str) -> None:
    assert version_name(number) == name


@pytest.mark.parametrize("number", [-1, 0, 211, 612, 2**31])
def test_other_numbers_are_shown_as_they_are(number: int) -> None:
    assert version_name(number) == str(number)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "a RocketMQ before 4.9"),
        (391, "a RocketMQ before 4.9"),
        (392, "RocketMQ 4.9.0"),
        (393, "RocketMQ 4.9.0"),
        (407, "RocketMQ 4.9.7"),
        (411, "RocketMQ 4.9.9"),
        (412, "RocketMQ 5.0.0"),
        (CLIENT_VERSION, "RocketMQ 5.5.0"),
        (612, "RocketMQ 5.10.0"),
    ],
)
def test_release_is_named_without_its_snapshot(number: int, name: str) -> None:
    assert release_name(number) == name
