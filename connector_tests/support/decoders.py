"""Python and its twin in Rust, for tests that hold both to the same contract."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import pytest

from rocketmq_spark.errors import OptionError
from rocketmq_spark.pull import executor_pull_client
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import (
    NATIVE,
    PYTHON,
    VARIABLE,
    choose_decoder,
    choose_response_template,
    column_decoder,
    response_template,
)
from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate

if TYPE_CHECKING:
    from rocketmq_spark.wire.arrow.native_columns import NativeColumnDecoder

IMPLEMENTATIONS = (PYTHON, NATIVE)
NOT_BUILT = "decoder is not built"


class NewDecoder(Protocol):
    """A decoder of some columns."""

    def __call__(self, *names: str, tags: frozenset[str] | None = None) -> ColumnDecoder: ...


def decoder_class(implementation: str) -> type[ColumnDecoder]:
    """The decoder, or a skipped test where it is not built; a failure where the environment requests it."""
    try:
        return choose_decoder(implementation)
    except OptionError:
        if os.environ.get(VARIABLE) == implementation:
            raise
        pytest.skip(f"the {implementation} {NOT_BUILT}", allow_module_level=True)


def fail_if_unmarked(report: pytest.TestReport) -> None:
    """Fail a test that is skipped because the native decoder is not built, and that has no mark ``native``: it would
    also be omitted by 'make test-rest', which runs after the decoder is built."""
    if report.skipped and NATIVE not in report.keywords and NOT_BUILT in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} needs the native decoder: mark it with pytest.mark.{NATIVE}"


def template_class(implementation: str) -> type[ResponseTemplate]:
    """The template of ordinary answers; skips and fails as ``decoder_class``."""
    decoder_class(implementation)
    return choose_response_template(implementation)


def reset_decoder_choice() -> None:
    """What this process reads and decodes with from now on is what the environment then requests."""
    response_template.cache_clear()
    column_decoder.cache_clear()
    executor_pull_client.shared_pull_client.cache_clear()


def native_decoder() -> type[NativeColumnDecoder]:
    """The native decoder, or a skipped test."""
    decoder_class(NATIVE)
    from rocketmq_spark.wire.arrow.native_columns import NativeColumnDecoder

    return NativeColumnDecoder


def implementations_line() -> str:
    """Which of them the tests meet."""
    built = choose_decoder(None).implementation == NATIVE
    return f"decoders: {PYTHON}, {NATIVE}" if built else f"decoders: {PYTHON}; {NATIVE} is not built ('make native')"
