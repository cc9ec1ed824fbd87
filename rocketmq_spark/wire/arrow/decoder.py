"""Who decodes: one contract, ``columns.ColumnDecoder``, and two that keep it."""

from __future__ import annotations

from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import native_module


def choose_decoder(asked: str | None) -> type[ColumnDecoder]:
    """The decoder that ``implementation.VARIABLE`` asks for; without it the fastest that is there.

    Raises as ``native_module``.
    """
    module = native_module("rocketmq_spark.wire.arrow.native_columns", asked)
    native: type[ColumnDecoder] = ColumnDecoder if module is None else module.NativeColumnDecoder
    return native
