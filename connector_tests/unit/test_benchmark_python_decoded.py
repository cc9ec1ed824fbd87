from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from connector_tests.benchmarks.python_decoded import decoding_in_python
from connector_tests.support.decoders import native_decoder
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import PYTHON, VARIABLE, column_decoder


@pytest.fixture(autouse=True)
def chosen_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    column_decoder.cache_clear()
    yield
    column_decoder.cache_clear()


@pytest.mark.native
def test_python_decodes_within_and_the_configured_decoder_behind() -> None:
    native = native_decoder()
    assert column_decoder() is native
    with decoding_in_python():
        assert column_decoder() is ColumnDecoder
    assert column_decoder() is native


@pytest.mark.parametrize("configured", [None, PYTHON, ""])
def test_what_the_environment_sets_is_restored_after_an_error_too(
    configured: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if configured is not None:
        monkeypatch.setenv(VARIABLE, configured)
    with pytest.raises(ValueError, match="in a task"), decoding_in_python():
        assert os.environ[VARIABLE] == PYTHON
        raise ValueError("in a task")
    assert os.environ.get(VARIABLE) == configured
