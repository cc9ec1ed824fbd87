from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rocketmq_spark_python
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark_python import without_archives

SCRIPT = rocketmq_spark_python.__file__
PLANNERS = (
    "create_data_source",
    "data_source_pushdown_filters",
    "lookup_data_sources",
    "plan_data_source_read",
)
PRINT_PATH = "import os; print(repr(os.environ.get('PYTHONPATH')), end='')"
UNSET = frozenset({"SPARK_HOME", "PYTHONPATH", "OMP_NUM_THREADS"})


def package(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    return folder / name


def installed_spark(site_packages: Path) -> Path:
    """What ``pip install pyspark`` leaves; returns SPARK_HOME."""
    (package(site_packages, "py4j") / "version.py").write_text("__version__ = '0.10.9.9'\n", encoding="utf-8")
    spark_home = package(site_packages, "pyspark")
    (spark_home / "python" / "pyspark").mkdir(parents=True)
    return spark_home


def unpacked_spark(folder: Path) -> Path:
    """What is in the archive that Spark's project offers; returns SPARK_HOME."""
    package(folder / "python", "pyspark")
    return folder


def archives(spark_home: Path) -> list[str]:
    """What Spark puts in front of all else."""
    python = f"{spark_home}/python/lib"
    return [f"{python}/pyspark.zip", f"{python}/py4j-0.10.9.9-src.zip", f"{spark_home}/jars/spark-core_2.13-4.3.0.jar"]


def test_archives_go_where_their_modules_are_found_in_the_same_files(tmp_path: Path) -> None:
    spark_home = installed_spark(tmp_path)
    given = archives(spark_home)
    assert without_archives([*given, "/mine"], str(spark_home), [str(tmp_path)]) == ["/mine"]
    assert without_archives(given, str(spark_home), [str(tmp_path)]) == []
    assert without_archives(given, f"{spark_home}/", [str(tmp_path)]) == []


def test_a_spark_behind_a_link_is_the_same(tmp_path: Path) -> None:
    installed_spark(tmp_path / "real")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "pyspark")
    assert without_archives(archives(link), str(link), [str(tmp_path / "real")]) == []


def test_all_else_stays_in_its_order(tmp_path: Path) -> None:
    """An empty entry is the current folder; other archives are those of ``--py-files``."""
    spark_home = installed_spark(tmp_path)
    pyspark, py4j, jar = archives(spark_home)
    others = ["", f"{spark_home}/jars/mine.jar", "relative", "/job/pyspark.zip", "/a*b"]
    given = [others[0], pyspark, others[1], others[2], py4j, jar, *others[3:]]
    assert without_archives(given, str(spark_home), [str(tmp_path)]) == others


def test_archives_stay_where_python_would_find_nothing_else(tmp_path: Path) -> None:
    spark_home = installed_spark(tmp_path)
    given = archives(spark_home)
    assert without_archives(given, str(spark_home), []) == given
    (spark_home / "__init__.py").unlink()
    assert without_archives(given, str(spark_home), [str(tmp_path)]) == given


def test_archives_stay_where_python_would_find_another_pyspark_first(tmp_path: Path) -> None:
    spark_home = installed_spark(tmp_path / "ours")
    package(tmp_path / "other", "pyspark")
    given = [*archives(spark_home), str(tmp_path / "other")]
    assert without_archives(given, str(spark_home), [str(tmp_path / "ours")]) == given
    behind = [str(tmp_path / "ours"), str(tmp_path / "other")]
    assert without_archives(given[:-1], str(spark_home), behind) == []


def test_archives_stay_where_another_pyspark_is_installed_beside_spark(tmp_path: Path) -> None:
    installed_spark(tmp_path)
    given = archives(tmp_path / "spark")
    assert without_archives(given, str(tmp_path / "spark"), [str(tmp_path)]) == given


@pytest.mark.parametrize("found", ["__version__ = '0.10.9.7'", "__version__ = '0.10.9'", "", None])
def test_py4js_archive_stays_where_python_would_find_another_version(found: str | None, tmp_path: Path) -> None:
    spark_home = installed_spark(tmp_path)
    version = tmp_path / "py4j" / "version.py"
    version.unlink() if found is None else version.write_text(found, encoding="utf-8")
    pyspark, py4j, jar = archives(spark_home)
    assert without_archives([pyspark, py4j, jar], str(spark_home), [str(tmp_path)]) == [py4j]


def test_py4js_archive_stays_where_python_would_find_none(tmp_path: Path) -> None:
    spark_home = installed_spark(tmp_path)
    (tmp_path / "py4j" / "__init__.py").unlink()
    assert without_archives(archives(spark_home), str(spark_home), [str(tmp_path)]) == archives(spark_home)[1:2]


def test_archives_stay_where_another_archive_would_come_first(tmp_path: Path) -> None:
    """As on YARN, where they are in a container's own folder."""
    spark_home = installed_spark(tmp_path)
    other = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    given = [*archives(spark_home), str(other)]
    assert without_archives(given, str(spark_home), [str(tmp_path)]) == given


def test_a_spark_that_was_unpacked_has_its_files_beside_the_archive(tmp_path: Path) -> None:
    """Also where another one is installed. Its py4j is only in an archive."""
    installed_spark(tmp_path / "installed")
    spark_home = unpacked_spark(tmp_path / "spark")
    pyspark, py4j, jar = archives(spark_home)
    found = without_archives(["/first", pyspark, py4j, jar, ""], str(spark_home), [str(tmp_path / "installed")])
    assert found == ["/first", f"{spark_home}/python", py4j, ""]


def run(*arguments: str, **variables: str) -> str:
    """What it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in UNSET} | variables
    command = (sys.executable, SCRIPT, *arguments)
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=PROCESS_S
    ).stdout


def test_it_is_this_python_with_all_arguments() -> None:
    arguments = ("-W", "error", "-c", "import sys; print(sys.executable, sys.argv)", "-m", "a  b", "*")
    assert run(*arguments) == f"{sys.executable} ['-c', '-m', 'a  b', '*']\n"


def test_its_process_is_that_of_python() -> None:
    command = (sys.executable, SCRIPT, "-c", "import os, sys; print(os.getpid()); sys.exit(37)")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate(timeout=PROCESS_S)
    assert (int(printed), process.returncode) == (process.pid, 37)


def test_python_receives_what_is_left(tmp_path: Path) -> None:
    spark_home = unpacked_spark(tmp_path)
    pyspark, _, jar = archives(spark_home)
    assert run("-c", PRINT_PATH, SPARK_HOME=str(spark_home), PYTHONPATH=f"{pyspark}:{jar}:") == f"'{tmp_path}/python:'"
    assert run("-c", PRINT_PATH, SPARK_HOME=str(spark_home), PYTHONPATH=f":{jar}") == "'.'"
    assert run("-c", PRINT_PATH, SPARK_HOME=str(spark_home), PYTHONPATH=jar) == "''"


def test_without_spark_nothing_changes(tmp_path: Path) -> None:
    given = archives(unpacked_spark(tmp_path))[0]
    assert run("-c", PRINT_PATH, PYTHONPATH=given) == repr(given)
    assert run("-c", PRINT_PATH, SPARK_HOME=str(tmp_path)) == "None"


@pytest.mark.parametrize(
    ("arguments", "given", "expected"),
    [
        (("-m", "pyspark.sql.streaming.python_streaming_source_runner", "again"), {}, "1"),
        (("-m", "pyspark.sql.worker.create_data_source", "again"), {}, "1"),
        *((("-m", "pyspark.daemon", f"pyspark.sql.worker.{name}"), {}, "1") for name in PLANNERS),
        (("-m", "pyspark.daemon", "pyspark.sql.worker.create_data_source"), {"OMP_NUM_THREADS": "4"}, "4"),
        (("-m", "pyspark.daemon", "pyspark.worker"), {}, "None"),
        (("-m", "pyspark.sql.connect.streaming.worker.foreach_batch_worker"), {}, "None"),
    ],
)
def test_what_plans_has_one_thread_and_what_runs_other_code_as_many_as_it_likes(
    arguments: tuple[str, ...], given: dict[str, str], expected: str, tmp_path: Path
) -> None:
    """A module of the same name states what it got."""
    *packages, name = arguments[1].split(".")
    folder = tmp_path
    for each in packages:
        folder = package(folder, each)
    (folder / f"{name}.py").write_text("import os; print(os.environ.get('OMP_NUM_THREADS'), end='')", encoding="utf-8")
    assert run(*arguments, PYTHONPATH=str(tmp_path), **given) == expected


def test_where_the_package_is_not_installed_python_stands_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert rocketmq_spark_python.command() == str(tmp_path / "python")
    (tmp_path / "rocketmq-spark-python").touch()
    assert rocketmq_spark_python.command() == str(tmp_path / "rocketmq-spark-python")
    monkeypatch.setattr(os, "name", "nt")
    assert rocketmq_spark_python.command() == str(tmp_path / "python")
