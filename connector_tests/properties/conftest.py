"""Examples may take as long as they take: a deadline on a busy machine states nothing about the code.

Mutants get the same examples every time, so that who is killed today is killed tomorrow; and fewer, because they are
many. A mutant is dead with the first example that shows it: to look for a smaller one takes many times as long.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

BUSY: Final = (HealthCheck.too_slow,)

settings.register_profile("connector", deadline=None, suppress_health_check=BUSY)
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
