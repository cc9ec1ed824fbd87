"""pytest-timeout's limits of whole tests. Not in ``timeouts``, which programs import that have no pytest."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from connector_tests.support.timeouts import TIMEOUT_FACTOR


def scale_limits(items: Iterable[pytest.Item], factor: float = TIMEOUT_FACTOR) -> None:
    """Multiply each test's limit, else pytest-timeout would end tests within the limits of ``timeouts``."""
    if factor == 1:
        return
    for item in items:
        mark = item.get_closest_marker("timeout")
        limit_s = float((item.config.getini("timeout") or 0) if mark is None else mark.args[0])  # 0: no limit
        item.add_marker(pytest.mark.timeout(limit_s * factor), append=False)
