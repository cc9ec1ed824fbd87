"""pytest-timeout's limits are scaled with the others."""

from __future__ import annotations

import pytest

from connector_tests.support.limits_of_tests import scale_limits
from connector_tests.support.timeouts import TIMEOUT_FACTOR


def limit_s(request: pytest.FixtureRequest) -> float:
    """Of the running test, which pytest-timeout has read already."""
    mark = request.node.get_closest_marker("timeout")
    return float(request.config.getini("timeout") if mark is None else mark.args[0])


@pytest.mark.timeout(900)
def test_limit_of_a_mark_is_multiplied(request: pytest.FixtureRequest) -> None:
    before_s = limit_s(request)
    scale_limits([request.node], factor=3)
    assert limit_s(request) == 3 * before_s


def test_limit_of_other_tests_is_multiplied(request: pytest.FixtureRequest) -> None:
    before_s = limit_s(request)
    scale_limits([request.node], factor=3)
    assert limit_s(request) == 3 * before_s


def test_limits_are_scaled_by_the_environment_when_tests_are_collected(request: pytest.FixtureRequest) -> None:
    assert limit_s(request) == float(request.config.getini("timeout")) * TIMEOUT_FACTOR
