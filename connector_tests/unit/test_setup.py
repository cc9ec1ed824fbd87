from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_what_setup_reports_of_the_package_is_nothing_that_setuptools_warns_of(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    environment = {**os.environ, "ROCKETMQ_SPARK_BUILD_NATIVE": "0"}
    printed = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert (printed.returncode, printed.stderr) == (0, "")
    written = (tmp_path / "rocketmq_spark.egg-info" / "PKG-INFO").read_text()
    assert "\nLicense: Apache-2.0\n" in written or "\nLicense-Expression: Apache-2.0\n" in written
