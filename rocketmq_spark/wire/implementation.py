"""Selection of the Python or native (Rust, ``native/``) implementation of message decoding and fast-path responses.

Both follow one contract: ``arrow.columns.ColumnDecoder``, ``remoting.fast_path_response.ResponseTemplate``. This is the
only module of ``wire`` that is not pure: it reads an environment variable. It imports only what is selected.
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
"""Environment variable that selects ``python`` or ``native``. Unset or empty: native if available."""

CONTRACT: Final = 3
"""Version of the interface to the native extension, as in ``native/src/python.rs``. An extension of another version,
left behind by an update, is unavailable: it would fail within a task, or decode by other rules."""

PYTHON: Final = "python"
NATIVE: Final = "native"

EXTENSION_MODULE: Final = "rocketmq_spark.wire._native"


def _check_contract(extension: ModuleType) -> None:
    """Raise ImportError unless the native extension has a ``CONTRACT``, and it equals this module's."""
    found = getattr(extension, "CONTRACT", None)
    if found != CONTRACT:
        raise ImportError(
            f"{extension.__name__} was built for another version (contract {found}, {CONTRACT} is needed)"
        )


def native_module(name: str, requested: str | None) -> ModuleType | None:
    """Import and return module ``name``, which needs the native extension. ``requested``: value of ``VARIABLE``.
    ``python`` imports nothing and returns None. None (not set) returns None if the module is unavailable. ``native``
    requires it.

    Raises OptionError[INVALID_OPTION_VALUE] for another value, also "", OptionError[NATIVE_DECODER_UNAVAILABLE] with
    ``native`` if ``name`` or the extension cannot be imported, or the extension has another ``CONTRACT``.
    """
    if requested not in {None, PYTHON, NATIVE}:
        raise OptionError(
            "INVALID_OPTION_VALUE", option=VARIABLE, value=requested, expected=f"{PYTHON!r} or {NATIVE!r}"
        )
    if requested == PYTHON:
        return None
    try:
        _check_contract(import_module(EXTENSION_MODULE))
        return import_module(name)
    except ImportError as problem:
        if requested == NATIVE:
            raise OptionError("NATIVE_DECODER_UNAVAILABLE", variable=VARIABLE, problem=str(problem)) from problem
        return None


def choose_decoder(requested: str | None) -> type[ColumnDecoder]:
    """Import and return the decoder class for ``requested``, the value of ``VARIABLE``: ``ColumnDecoder`` or, if the
    native extension is selected, its subclass. None: native if available. Raises the errors of ``native_module``."""
    from rocketmq_spark.wire.arrow.columns import ColumnDecoder

    module = native_module("rocketmq_spark.wire.arrow.native_columns", requested)
    native: type[ColumnDecoder] = ColumnDecoder if module is None else module.NativeColumnDecoder
    return native


def choose_response_template(requested: str | None) -> type[ResponseTemplate]:
    """Import and return the class for ``requested``, the value of ``VARIABLE``: ``ResponseTemplate`` or, if the native
    extension is selected, its subclass. None: native if available. Raises the errors of ``native_module``."""
    from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate

    module = native_module("rocketmq_spark.wire.remoting.native_responses", requested)
    native: type[ResponseTemplate] = ResponseTemplate if module is None else module.NativeResponseTemplate
    return native


@cache
def column_decoder() -> type[ColumnDecoder]:
    """Return the decoder class that ``VARIABLE`` selects. The first call reads the variable and logs the selection at
    DEBUG; later calls return the same class. Raises the errors of ``native_module``."""
    decoder = choose_decoder(_requested_implementation())
    built = "" if decoder.implementation == NATIVE else "; the native decoder is not built, or not selected"
    log.debug("DECODER_SELECTED: Decoding messages with the decoder: %s%s", decoder.implementation, built)
    return decoder


@cache
def response_template() -> type[ResponseTemplate]:
    """Return the ResponseTemplate class that ``VARIABLE`` selects. The first call reads the variable and logs nothing;
    later calls return the same class. Raises the errors of ``native_module``."""
    return choose_response_template(_requested_implementation())


def _requested_implementation() -> str | None:
    """Return the value of ``VARIABLE``, unchecked, or None if it is unset or empty."""
    return os.environ.get(VARIABLE) or None
