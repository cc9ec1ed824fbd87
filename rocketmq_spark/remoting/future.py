"""``Future``: the result of requests in flight."""

from __future__ import annotations

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Future(Protocol[T_co]):
    """The future result of one request, or of several together."""

    def result(self) -> T_co:
        """Wait for the responses and return the result. Raises what the requests failed with."""
