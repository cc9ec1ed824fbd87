"""Python, or its twin in Rust (``native/``): one contract each, and two that keep it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from rocketmq_spark.errors import OptionError

VARIABLE: Final = "ROCKETMQ_SPARK_IMPL"
"""Environment variable that asks for an implementation by its name."""

CONTRACT: Final = 2
"""What the twin and its callers have agreed on. An older one that was left behind by an update is none: it would fail
in the middle of a task, or decode by other rules. The number is in ``native/src/python.rs`` too."""

PYTHON: Final = "python"
NATIVE: Final = "native"

TWIN: Final = "rocketmq_spark.wire._native"


def _check(twin: ModuleType) -> None:
    """Raises ImportError for one that was built from other sources."""
    found = getattr(twin, "CONTRACT", None)
    if found != CONTRACT:
        raise ImportError(f"{twin.__name__} was built for another version (contract {found}, {CONTRACT} is needed)")


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
        _check(import_module(TWIN))
        return import_module(name)
    except ImportError as problem:
        if asked == NATIVE:
            raise OptionError("NATIVE_NOT_BUILT", variable=VARIABLE, problem=str(problem)) from problem
        return None
