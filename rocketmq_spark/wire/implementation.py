"""Python, or its twin in Rust (``native/``): one contract each, and two that keep it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from rocketmq_spark.errors import OptionError

VARIABLE: Final = "ROCKETMQ_SPARK_IMPL"
"""Environment variable that asks for an implementation by its name."""

PYTHON: Final = "python"
NATIVE: Final = "native"


def native_module(name: str, asked: str | None) -> ModuleType | None:
    """The module of that name, which needs the twin, if ``VARIABLE`` asks for it; also if it asks for nothing, and the
    twin is there. None: it is Python's turn.

    Raises OptionError[BAD_OPTION_VALUE], OptionError[NATIVE_NOT_BUILT].
    """
    if asked not in {None, PYTHON, NATIVE}:
        raise OptionError("BAD_OPTION_VALUE", option=VARIABLE, value=asked, expected=f"{PYTHON!r} or {NATIVE!r}")
    if asked == PYTHON:
        return None
    try:
        return import_module(name)
    except ImportError as problem:
        if asked == NATIVE:
            raise OptionError("NATIVE_NOT_BUILT", variable=VARIABLE, problem=str(problem)) from problem
        return None
