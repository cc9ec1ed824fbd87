"""Python, or its twin in Rust (``native/``): who decodes messages and who reads ordinary answers. Of each there is one
contract, ``arrow.columns.ColumnDecoder`` and ``remoting.ordinary_answer.ResponseTemplate``, and two that keep it.

The one module of this room that is no pure one: the environment may ask for an implementation. What is chosen among is
imported when it is.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from rocketmq_spark.errors import OptionError

if TYPE_CHECKING:
    from rocketmq_spark.wire.arrow.columns import ColumnDecoder
    from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate

log = logging.getLogger(__name__)

VARIABLE: Final = "ROCKETMQ_SPARK_IMPL"
"""Environment variable that asks for an implementation by its name."""

CONTRACT: Final = 3
"""What the twin and its callers have agreed on. An older one that was left behind by an update is none: it would fail
in the middle of a task, or decode by other rules. The number is in ``native/src/python.rs`` too."""

PYTHON: Final = "python"
NATIVE: Final = "native"

EXTENSION_MODULE: Final = "rocketmq_spark.wire._native"


def _check(extension: ModuleType) -> None:
    """Raises ImportError for one that was built from other sources."""
    found = getattr(extension, "CONTRACT", None)
    if found != CONTRACT:
        raise ImportError(
            f"{extension.__name__} was built for another version (contract {found}, {CONTRACT} is needed)"
        )


def native_module(name: str, requested: str | None) -> ModuleType | None:
    """The module of that name, which needs the twin, if ``VARIABLE`` asks for it; also if it asks for nothing, and the
    twin is there. None: it is Python's turn.

    Raises OptionError[INVALID_OPTION_VALUE], OptionError[NATIVE_DECODER_UNAVAILABLE].
    """
    if requested not in {None, PYTHON, NATIVE}:
        raise OptionError(
            "INVALID_OPTION_VALUE", option=VARIABLE, value=requested, expected=f"{PYTHON!r} or {NATIVE!r}"
        )
    if requested == PYTHON:
        return None
    try:
        _check(import_module(EXTENSION_MODULE))
        return import_module(name)
    except ImportError as problem:
        if requested == NATIVE:
            raise OptionError("NATIVE_DECODER_UNAVAILABLE", variable=VARIABLE, problem=str(problem)) from problem
        return None


def choose_decoder(requested: str | None) -> type[ColumnDecoder]:
    """The decoder that ``VARIABLE`` asks for; without it the fastest that is there. Raises as ``native_module``."""
    from rocketmq_spark.wire.arrow.columns import ColumnDecoder

    module = native_module("rocketmq_spark.wire.arrow.native_columns", requested)
    native: type[ColumnDecoder] = ColumnDecoder if module is None else module.NativeColumnDecoder
    return native


def choose_response_template(requested: str | None) -> type[ResponseTemplate]:
    """The same of who reads ordinary answers."""
    from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate

    module = native_module("rocketmq_spark.wire.remoting.native_responses", requested)
    native: type[ResponseTemplate] = ResponseTemplate if module is None else module.NativeResponseTemplate
    return native


@cache
def column_decoder() -> type[ColumnDecoder]:
    """As the environment asks for it, see ``choose_decoder``. Said once."""
    decoder = choose_decoder(_requested_implementation())
    built = "" if decoder.implementation == NATIVE else "; the native decoder is not built, or not selected"
    log.debug("DECODER_SELECTED: Decoding messages with the decoder: %s%s", decoder.implementation, built)
    return decoder


@cache
def response_template() -> type[ResponseTemplate]:
    """As the environment asks for it, see ``choose_response_template``."""
    return choose_response_template(_requested_implementation())


def _requested_implementation() -> str | None:
    return os.environ.get(VARIABLE) or None
