"""What PySpark's workers do to a value on its way into another process."""

from __future__ import annotations

from typing import Any, TypeVar

from pyspark.serializers import CloudPickleSerializer

T = TypeVar("T")


def sent(value: T) -> T:
    """``value`` as it arrives there."""
    serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]  # PySpark has no types for it
    arrived: T = serializer.loads(serializer.dumps(value))
    return arrived
