"""A PySpark that is too old, as a folder of that name with the modules that 3.5 has."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.spark_version import HAS_READ_LIMITS, ReadMaxRows, forget_zip_importers

ROOT = Path(__file__).parents[2]
OF_3_5 = {
    "__init__.py": "",
    "version.py": '__version__ = "3.5.9"\n',
    "sql/__init__.py": "",
    "sql/types.py": "class StructType: pass\n",
    "sql/streaming/__init__.py": "",
}


@pytest.fixture
def path_of_3_5(tmp_path: Path) -> str:
    for name, text in OF_3_5.items():
        file = tmp_path / "pyspark" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return os.pathsep.join((str(tmp_path), str(ROOT)))


@pytest.mark.parametrize(
    "module", ["rocketmq_spark.spark_version", "rocketmq_spark.source.datasource", "pyspark_rocketmq"]
)
def test_spark_without_python_sources_names_the_version_needed(path_of_3_5: str, module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        env=os.environ | {"PYTHONPATH": path_of_3_5},
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_S,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "rocketmq_spark.errors.OptionError: [ROCKETMQ_UNSUPPORTED_SPARK_VERSION] PySpark 3.5.9 is not supported: "
        f"it has no pyspark.sql.datasource, which Spark 4.0 introduced. It runs on {platform.node()} with Python "
        f"{platform.python_version()} ({sys.executable}). On the driver and on every executor, install Spark 4.0 "
        "to 4.3 and Python 3.11 to 3.13. For the Python of 'spark.pyspark.python' or PYSPARK_PYTHON, run pip "
        "install 'pyspark>=4.0,<4.4'. No version supports Spark 3.5."
    )


def test_read_limits_are_those_of_spark_where_it_has_them() -> None:
    assert (find_spec("pyspark.sql.streaming.datasource") is not None) == HAS_READ_LIMITS
    assert ReadMaxRows(5).max_rows == 5


def cached_zip_importers() -> set[str]:
    return {Path(one.archive).name for one in sys.path_importer_cache.values() if isinstance(one, zipimporter)}


def test_without_cached_zip_importers_modules_of_the_archive_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyspark", "other"):
        with ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr(f"first_of_{name}.py", "VALUE = 1")
            archive.writestr(f"second_of_{name}.py", "VALUE = 2")
        monkeypatch.syspath_prepend(str(tmp_path / f"{name}.zip"))
        assert import_module(f"first_of_{name}").VALUE == 1
    assert {"pyspark.zip", "other.zip"} <= cached_zip_importers()
    forget_zip_importers()
    assert "pyspark.zip" not in cached_zip_importers()
    assert "other.zip" in cached_zip_importers(), "it may change, and is then read again"
    assert import_module("second_of_pyspark").VALUE == 2
