"""The fixtures in a user's own project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from connector_tests.support.jvm_options import rocketmq_environment
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded.pytest_plugin import unique_name

pytestmark = pytest.mark.full

USERS_TEST = """
def test_mine(rocketmq_topic, rocketmq_cluster):
    assert rocketmq_topic.startswith("test_mine_")
    assert rocketmq_cluster.namesrv_addr.startswith("127.0.0.1:")
"""


@pytest.mark.broker
def test_a_users_project_gets_a_topic_on_a_running_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(USERS_TEST)
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-p", "rocketmq_spark.embedded.pytest_plugin", str(tmp_path)]
    # The plugin is named here, installed or not; pytest takes none twice.
    environ = rocketmq_environment() | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(pytest_run, capture_output=True, text=True, timeout=PROCESS_S, check=False, env=environ)
    assert "1 passed" in done.stdout


def test_loading_the_plugin_imports_no_spark_and_nothing_heavy() -> None:
    script = "import sys, rocketmq_spark.embedded.pytest_plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {"pyspark", "pyarrow", "numpy"}.isdisjoint(loaded)


def test_names_are_unique_and_legal_whatever_a_test_is_called() -> None:
    names = [unique_name("test[äöü/" + "x" * 100) for _ in range(2)]
    assert names[0] != names[1]
    assert all(re.fullmatch("[A-Za-z0-9_]{1,127}", name) for name in names)
