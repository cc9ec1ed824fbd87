from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from connector_tests.benchmarks.python_decoded import decoding_in_python
from connector_tests.support.decoders import native_decoder
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import PYTHON, VARIABLE, column_decoder


@pytest.fixture(autouse=True)
def chosen_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    column_decoder.cache_clear()
    yield
    column_decoder.cache_clear()


@pytest.mark.native
def test_python_decodes_within_and_whoever_did_before_behind() -> None:
    native = native_decoder()
    assert column_decoder() is native
    with decoding_in_python():
        assert column_decoder() is ColumnDecoder
    assert column_decoder() is native


@pytest.mark.parametrize("asked", [None, PYTHON, ""])
def test_what_the_environment_asks_for_is_put_back_after_an_error_too(
    asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked is not None:
        monkeypatch.setenv(VARIABLE, asked)
    with pytest.raises(ValueError, match="in a task"), decoding_in_python():
        assert os.environ[VARIABLE] == PYTHON
        raise ValueError("in a task")
    assert os.environ.get(VARIABLE) == asked
