from __future__ import annotations

import pytest

from rocketmq_spark.cli.main import COMMANDS, main


def test_without_a_command_it_names_the_commands_and_nothing_that_is_not_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    usage, reported = capsys.readouterr().err.strip().splitlines()[-2:]
    assert ended.value.code == 2
    assert "{" + ",".join(COMMANDS) + "}" in usage
    assert reported == "rocketmq-spark: error: the following arguments are required: command"
