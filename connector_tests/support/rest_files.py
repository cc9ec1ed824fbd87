"""Which test files have tests of 'make test-rest', by their text. Three of four have none, and each worker would import
them for nothing."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

OF_REST: Final = "(full or native)"
"""The begin of the expression that selects them."""

MARKING: Final = re.compile(
    r"mark\.full|mark\.native|SECURITY_SHAPES|implementation|IMPLEMENTATIONS|column_decoder|NATIVE"
)
"""The marks themselves, parameters that bear one, and those of which one is the native decoder."""


def is_ignored(file: Path, mark_expression: str) -> bool:
    """Whether it is a test file that has none of the tests which the expression selects."""
    is_tests = file.suffix == ".py" and file.name.startswith("test_")
    return is_tests and mark_expression.startswith(OF_REST) and not may_be_of_rest(file)


@cache
def may_be_of_rest(file: Path) -> bool:
    """Whether it may have tests with the marks ``full`` and ``native``; one that has some, has."""
    return "native" in file.name or MARKING.search(file.read_text(encoding="utf-8")) is not None
