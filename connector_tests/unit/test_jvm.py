from __future__ import annotations

import signal

import pytest

from rocketmq_spark.embedded.jvm import end_of


@pytest.mark.parametrize(
    ("returncode", "said"),
    [
        (3, "Java ended with exit code 3"),
        (-signal.SIGTERM, "Java was ended by SIGTERM"),
        (-signal.SIGKILL, "Java was ended by SIGKILL, as the system does when memory runs out"),
        (-77, "Java was ended by signal 77"),
    ],
)
def test_how_a_jvm_has_ended_is_said_in_words(returncode: int, said: str) -> None:
    assert end_of(returncode) == said
