"""Who reads answers and who decodes: what is requested, or the fastest that is there."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from connector_tests.support.decoders import native_decoder, reset_decoder_choice, template_class
from rocketmq_spark._version import __version__
from rocketmq_spark.errors import OptionError
from rocketmq_spark.pull.pull_connections import shared_pull_connections
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import (
    CONTRACT,
    EXTENSION_MODULE,
    NATIVE,
    PYTHON,
    VARIABLE,
    choose_decoder,
    choose_response_template,
    column_decoder,
)
from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate


@pytest.fixture
def not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """The native decoder cannot be imported, whether it is built or not."""
    monkeypatch.setitem(sys.modules, EXTENSION_MODULE, None)


@pytest.fixture
def chosen_again() -> Iterator[None]:
    reset_decoder_choice()
    yield
    reset_decoder_choice()


def test_python_is_used_where_it_is_requested() -> None:
    assert choose_decoder(PYTHON) is ColumnDecoder
    assert choose_response_template(PYTHON) is ResponseTemplate


@pytest.mark.native
def test_native_is_used_where_it_is_built() -> None:
    native = native_decoder()
    assert (choose_decoder(None), choose_decoder(NATIVE)) == (native, native)
    assert (
        choose_response_template(None)
        is choose_response_template(NATIVE)
        is template_class(NATIVE)
        is not ResponseTemplate
    )


def test_without_it_python_does_the_same(not_built: None) -> None:
    assert choose_decoder(None) is ColumnDecoder
    assert choose_response_template(None) is ResponseTemplate


def test_what_is_requested_and_missing_is_an_error(not_built: None) -> None:
    with pytest.raises(OptionError, match=r"native decoder that ROCKETMQ_SPARK_IMPL selects.*make native") as caught:
        choose_decoder(NATIVE)
    assert EXTENSION_MODULE in str(caught.value.context["problem"])


@pytest.mark.native
def test_a_native_decoder_of_another_version_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken, and failed in the middle of a task."""
    native_decoder()
    monkeypatch.setattr("rocketmq_spark.wire._native.CONTRACT", CONTRACT + 1)
    assert choose_decoder(None) is ColumnDecoder
    assert choose_response_template(None) is ResponseTemplate
    with pytest.raises(
        OptionError, match=rf"NATIVE_DECODER_UNAVAILABLE.*built for another version \(contract {CONTRACT + 1}"
    ):
        choose_decoder(NATIVE)


def test_a_template_that_is_requested_and_missing_is_an_error(not_built: None) -> None:
    with pytest.raises(OptionError, match=r"native decoder that ROCKETMQ_SPARK_IMPL selects"):
        choose_response_template(NATIVE)


def test_connections_of_a_process_read_responses_as_the_environment_configures(
    chosen_again: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}
    for configured in (PYTHON, ""):
        monkeypatch.setenv(VARIABLE, configured)
        reset_decoder_choice()
        made[configured] = shared_pull_connections(1_000)
    assert made[PYTHON]._template_class is ResponseTemplate
    assert made[""]._template_class is choose_response_template(None)


def test_what_is_missing_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"Invalid value 'rust' for 'ROCKETMQ_SPARK_IMPL'.*'python' or 'native'"):
        choose_decoder("rust")


@pytest.mark.parametrize(("configured", "reported"), [(PYTHON, "python; the native decoder is not"), ("", "python; ")])
def test_it_is_logged_once_at_debug_level(
    configured: str,
    reported: str,
    not_built: None,
    chosen_again: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(VARIABLE, configured)
    with caplog.at_level(logging.DEBUG, "rocketmq_spark.wire.implementation"):
        assert column_decoder() is column_decoder() is ColumnDecoder
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert reported in record.getMessage()


def test_the_version_names_the_decoder() -> None:
    for configured, shown in ((PYTHON, PYTHON), ("", choose_decoder(None).implementation)):
        command = (sys.executable, "-m", "rocketmq_spark.cli.main", "--version")
        environment = os.environ | {VARIABLE: configured}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == f"{__version__} (decoder: {shown})\n"


def test_the_version_with_a_wrong_name_is_one_sentence() -> None:
    command = (sys.executable, "-m", "rocketmq_spark.cli.main", "--version")
    environment = os.environ | {VARIABLE: "rust"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("[ROCKETMQ_INVALID_OPTION_VALUE]")
