"""Answer: what a server has been asked, and may not have answered yet."""

from __future__ import annotations

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Future(Protocol[T_co]):
    """One answer, or several together."""

    def result(self) -> T_co:
        """Wait for it. Raises what went wrong."""
