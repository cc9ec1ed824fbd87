"""Which implementation decodes: one contract, ``columns.ColumnDecoder``, and two that keep it."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from rocketmq_spark.errors import OptionError
from rocketmq_spark.wire.arrow.columns import ColumnDecoder

VARIABLE: Final = "ROCKETMQ_SPARK_IMPL"
"""Environment variable that asks for an implementation by its name."""

PYTHON: Final = "python"
NATIVE: Final = "native"


def choose_decoder(asked: str | None) -> type[ColumnDecoder]:
    """The decoder that ``VARIABLE`` asks for; without it the fastest that is there.

    Raises OptionError[BAD_OPTION_VALUE], OptionError[NATIVE_NOT_BUILT].
    """
    if asked not in {None, PYTHON, NATIVE}:
        raise OptionError("BAD_OPTION_VALUE", option=VARIABLE, value=asked, expected=f"{PYTHON!r} or {NATIVE!r}")
    if asked == PYTHON:
        return ColumnDecoder
    try:
        module = import_module("rocketmq_spark.wire.arrow.native_columns")
    except ImportError as problem:
        if asked == NATIVE:
            raise OptionError("NATIVE_NOT_BUILT", variable=VARIABLE, problem=str(problem)) from problem
        return ColumnDecoder
    native: type[ColumnDecoder] = module.NativeColumnDecoder
    return native
