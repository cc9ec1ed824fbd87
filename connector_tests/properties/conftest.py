"""Examples may take as long as they take: a deadline on a busy machine states nothing about the code.

A change gets the same examples every time, but for the constants of loaded modules, from which Hypothesis draws too.
``make test-long`` draws new ones.

Mutants get the same examples every time, so that who is killed today is killed tomorrow; and fewer, because they are
many. A mutant is dead with the first example that shows it: to look for a smaller one takes many times as long.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

BUSY: Final = (HealthCheck.too_slow,)

RANDOM: Final = "CONNECTOR_TESTS_NEW_EXAMPLES" in os.environ

settings.register_profile("connector", deadline=None, suppress_health_check=BUSY, derandomize=not RANDOM)
settings.register_profile(
    "mutants",
    deadline=None,
    suppress_health_check=BUSY,
    derandomize=True,
    database=None,
    max_examples=30,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("mutants" if "MUTANT_UNDER_TEST" in os.environ else "connector")


@pytest.fixture
def printed() -> Iterator[None]:
    """``pytest -rP`` shows the figure of memory of hostile responses."""
    from connector_tests.support.response_costs import COSTS, figure

    COSTS.clear()
    yield
    sys.stdout.write(figure() + "\n")
