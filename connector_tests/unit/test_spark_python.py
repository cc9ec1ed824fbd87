"""``bin/rocketmq-spark-python``, run as Spark runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

COMMAND = Path(__file__).parents[2] / "bin" / "rocketmq-spark-python"
MINE = "/home/me/modules"
UNSET = frozenset({"SPARK_HOME", "PYTHONPATH", "OMP_NUM_THREADS"})
PRINT_PATH = "import os; print(os.environ['PYTHONPATH'], end='')"


class Environment:
    """A virtual environment that has the command; Python itself is ours."""

    def __init__(self, folder: Path) -> None:
        self.site_packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        self.site_packages.mkdir(parents=True)
        self.python = folder / "bin" / "python"
        self.python.parent.mkdir()
        self.python.symlink_to(sys.executable)
        self._command = shutil.copy(COMMAND, self.python.parent)

    def run(self, *arguments: str, **variables: str) -> str:
        """What it prints."""
        environment = {name: value for name, value in os.environ.items() if name not in UNSET}
        command = (self._command, *arguments)
        return subprocess.run(
            command, env=environment | variables, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    def path(self, spark_home: Path, *given: str) -> Sequence[str]:
        """Where Python looks first, by ``PYTHONPATH``, if that is what Spark says."""
        path = self.run("-c", PRINT_PATH, SPARK_HOME=str(spark_home), PYTHONPATH=":".join(given))
        return path.split(":") if path else []


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "environment with a blank")


def installed_spark(site_packages: Path) -> Path:
    """What ``pip install pyspark`` leaves; returns SPARK_HOME."""
    (site_packages / "pyspark" / "python" / "pyspark").mkdir(parents=True)
    (site_packages / "pyspark" / "__init__.py").touch()
    return site_packages / "pyspark"


def unpacked_spark(folder: Path) -> Path:
    """What is in the archive that Spark's project offers; returns SPARK_HOME."""
    (folder / "python" / "pyspark").mkdir(parents=True)
    (folder / "python" / "pyspark" / "__init__.py").touch()
    return folder


def archives(spark_home: Path) -> tuple[str, str, str]:
    """What Spark puts in front of all else."""
    python = f"{spark_home}/python/lib"
    return f"{python}/pyspark.zip", f"{python}/py4j-0.10.9.9-src.zip", f"{spark_home}/jars/spark-core_2.13-4.3.0.jar"


def test_what_is_installed_beside_needs_no_archives(environment: Environment) -> None:
    spark_home = installed_spark(environment.site_packages)
    assert environment.path(spark_home, *archives(spark_home), MINE) == [MINE]
    assert environment.path(spark_home, *archives(spark_home)) == []


def test_a_spark_behind_a_link_is_the_same(environment: Environment, tmp_path: Path) -> None:
    installed_spark(environment.site_packages)
    spark_home = tmp_path / "spark"
    spark_home.symlink_to(environment.site_packages / "pyspark")
    assert environment.path(spark_home, MINE, *archives(spark_home)) == [MINE]


def test_a_spark_of_another_environment_keeps_its_archives(environment: Environment, tmp_path: Path) -> None:
    installed_spark(environment.site_packages)
    spark_home = installed_spark(tmp_path / "theirs")
    assert environment.path(spark_home, *archives(spark_home), MINE) == [*archives(spark_home), MINE]


def test_a_spark_that_was_unpacked_has_its_files_beside_the_archive(environment: Environment, tmp_path: Path) -> None:
    installed_spark(environment.site_packages)
    spark_home = unpacked_spark(tmp_path / "spark")
    _, py4j, _ = archives(spark_home)
    assert environment.path(spark_home, *archives(spark_home), MINE) == [f"{spark_home}/python", py4j, MINE]


def test_where_there_are_no_files_archives_stay(environment: Environment, tmp_path: Path) -> None:
    given = archives(tmp_path / "spark")
    assert environment.path(tmp_path / "spark", *given) == list(given)


def test_other_archives_stay(environment: Environment) -> None:
    """Those of ``--py-files``, and of YARN, which are in a container's own folder."""
    spark_home = installed_spark(environment.site_packages)
    given = [f"{spark_home}/jars/mine.jar", "/container/pyspark.zip", "*", "/job/py4j-0.10.9.9-src.zip"]
    assert environment.path(spark_home, *given) == given


def test_without_spark_nothing_changes(environment: Environment) -> None:
    installed_spark(environment.site_packages)
    assert environment.run("-c", PRINT_PATH, PYTHONPATH=MINE) == MINE
    assert environment.run("-c", "import os; print(os.environ.get('PYTHONPATH'))") == "None\n"


@pytest.mark.parametrize(
    ("arguments", "given", "expected"),
    [
        (("-m", "pyspark.sql.streaming.python_streaming_source_runner"), {}, "1"),
        (("-m", "pyspark.daemon", "pyspark.sql.worker.create_data_source"), {}, "1"),
        (("-m", "pyspark.daemon", "pyspark.sql.worker.create_data_source"), {"OMP_NUM_THREADS": "4"}, "4"),
        (("-m", "pyspark.daemon", "pyspark.worker"), {}, "None"),
        (("-m", "pyspark.sql.connect.streaming.worker.foreach_batch_worker"), {}, "None"),
    ],
)
def test_what_plans_has_one_thread_and_what_runs_the_users_code_as_many_as_it_likes(
    arguments: tuple[str, ...], given: dict[str, str], expected: str, environment: Environment, tmp_path: Path
) -> None:
    """A module of the same name says what it got."""
    module = tmp_path / "modules" / Path(*arguments[1].split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    module.write_text("import os; print(os.environ.get('OMP_NUM_THREADS'), end='')", encoding="utf-8")
    printed = environment.run(*arguments, PYTHONPATH=str(tmp_path / "modules"), **given)
    assert printed == expected


def test_it_is_the_python_beside_it_with_all_arguments(environment: Environment) -> None:
    arguments = ("-W", "error", "-c", "import sys; print(sys.executable, sys.argv)", "-m", "a  b", "*")
    assert environment.run(*arguments) == f"{environment.python} ['-c', '-m', 'a  b', '*']\n"


def test_it_is_the_path_s_python_where_none_is_beside_it(environment: Environment, tmp_path: Path) -> None:
    """As after ``pip install --user``."""
    environment.python.unlink()
    (tmp_path / "python3").symlink_to(sys.executable)
    path = f"{tmp_path}:{os.environ['PATH']}"
    printed = environment.run("-c", "import sys; print(sys.executable)", PATH=path)
    assert printed == f"{tmp_path / 'python3'}\n"
