"""Names of the versions that clients report."""

from __future__ import annotations

import pytest

from rocketmq_spark.inspection.client_versions import version_name
from rocketmq_spark.wire.remoting.codes import CLIENT_VERSION


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
