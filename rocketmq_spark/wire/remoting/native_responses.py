"""Native implementation (Rust, ``native/``) of ``ResponseTemplate``. Importing this module fails without the
extension."""

from __future__ import annotations

from rocketmq_spark.wire import _native
from rocketmq_spark.wire.remoting.fast_path_response import PARSED_FIELDS, FastPathResponse, Place, ResponseTemplate
from rocketmq_spark.wire.remoting.pull import PullResult, PullStatus


class NativeResponseTemplate(ResponseTemplate):
    """Faster ``ResponseTemplate`` with the same results."""

    def __init__(self, places: list[Place], suffix: bytes, reason: str) -> None:
        numbered = [(before, None if name is None else PARSED_FIELDS.index(name)) for before, name in places]
        self._native_template = _native.ResponseTemplate(numbered, suffix, PullResult, PullStatus.FOUND, reason)

    def read(self, received: memoryview, begin: int, end: int) -> tuple[list[FastPathResponse], int]:
        """Return the leading fast-path responses in ``received[begin:end]``, in order, and the position after the last,
        as ``ResponseTemplate.read``, with the same result."""
        return self._native_template.read(received, begin, end)
