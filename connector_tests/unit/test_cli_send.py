from __future__ import annotations

import io
from pathlib import Path

import pytest

from rocketmq_spark.cli.main import main

NO_SERVER = "127.0.0.1:1"


@pytest.mark.parametrize("second", ["a=2", "a=1"])
def test_a_repeated_property_is_a_usage_error(second: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one was sent without a word."""
    with pytest.raises(SystemExit) as ended:
        main(["send", "--namesrv", NO_SERVER, "--topic", "t", "--property", "a=1", "--property", second, "x"])
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    assert shown.err.splitlines()[-1] == "rocketmq-spark send: error: argument --property: 'a' is given more than once"


def test_properties_that_differ_in_case_are_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["send", "--namesrv", NO_SERVER, "--topic", "t", "--property", "a=1", "--property", "A=2", "x"]) == 1
    assert f"Cannot connect to {NO_SERVER}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (b"accessKey=a\nsecretKey=hunter2\naccessKey=b\n", "line 3 of {file!r} repeats 'accessKey'"),
        (b"accessKey=a\n#\n accessKey = a\n", "line 3 of {file!r} repeats 'accessKey'"),
        (b"accessKey=a\nsecretKey: hunter2\n", "line 2 of {file!r} is not NAME=VALUE"),
        (b"accessKey=a\nsecretKey hunter=2\n", "line 2 of {file!r} is not NAME=VALUE"),
        (b"hunter2\n", "line 1 of {file!r} is not NAME=VALUE"),
        (b"=hunter2\n", "line 1 of {file!r} is not NAME=VALUE"),
        (b"accessKey=a\nsecretKey=hunter\xff2\n", "{file!r} is not in UTF-8"),
    ],
)
def test_unclear_file_of_options_is_a_usage_error(
    lines: bytes, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a repeated name the last value counted without a word; a line without ``=`` was shown, with its secret."""
    file = tmp_path / "connection.options"
    file.write_bytes(lines)
    with pytest.raises(SystemExit) as ended:
        main(["send", "--namesrv", NO_SERVER, "--topic", "t", "--options", str(file), "x"])
    shown = capsys.readouterr()
    expected = f"rocketmq-spark send: error: argument --options: {problem.format(file=str(file))}"
    assert (ended.value.code, shown.out, shown.err.splitlines()[-1]) == (2, "", expected)
    assert "hunter" not in shown.err


INVALID_BODY = (
    "[ROCKETMQ_INVALID_MESSAGE] Cannot send a message or request: a body is no text: surrogates not allowed. "
)


def test_a_body_that_is_no_text_is_an_error_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """An argument in another encoding than the locale's ended in a traceback."""
    assert main(["send", "--namesrv", NO_SERVER, "--topic", "t", "x", "caf\udce9"]) == 1
    assert capsys.readouterr().err.startswith(INVALID_BODY)


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_standard_input_that_is_no_text_is_an_error_in_one_line(
    errors: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As strict as the locale has it; nothing is sent of the lines before it."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\ncaf\xe9\n"), "utf-8", errors))
    assert main(["send", "--namesrv", NO_SERVER, "--topic", "t", "-"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("[ROCKETMQ_INVALID_MESSAGE] Cannot send a message or request: ")
    assert shown.count("\n") == 1
