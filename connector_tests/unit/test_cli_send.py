from __future__ import annotations

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
