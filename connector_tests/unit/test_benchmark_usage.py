from __future__ import annotations

import pytest

from connector_tests.benchmarks.roles import PLANNING, RUNNER, WORKER
from connector_tests.benchmarks.usage import role_of_command


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (["/usr/bin/python3", "-m", "pyspark.daemon", "pyspark.worker"], WORKER),
        (["python", "-m", "pyspark.sql.streaming.python_streaming_source_runner"], RUNNER),
        (["python3.11", "-m", "pyspark.daemon", "pyspark.sql.worker.plan_data_source_read"], PLANNING),
        (["/usr/bin/java", "pyspark.worker"], None),
        ([], None),
    ],
)
def test_a_process_is_known_by_its_command(command: list[str], role: str | None) -> None:
    assert role_of_command(command) == role
