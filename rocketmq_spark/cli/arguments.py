"""Types of command-line arguments. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from rocketmq_spark.options.kinds import integer


def integer_argument(minimum: int, maximum: int = 2**31 - 1) -> Callable[[str], int]:
    """Return the ``type`` of an argument that is an integer in ``[minimum, maximum]``, written as in options. The type
    raises argparse.ArgumentTypeError for any other text."""
    kind = integer(minimum, maximum)

    def parse(text: str) -> int:
        try:
            return kind.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind.expected}") from None

    return parse
