"""``rocketmq-spark-python``: a command for ``PYSPARK_PYTHON`` with which Spark's Python processes start faster.

Spark puts archives first on ``PYTHONPATH``: PySpark without bytecode, which each process compiles again, and a jar of
thousands of files without Python modules. The command runs the Python in which the package is installed. It removes the
archives if this Python finds the same PySpark in unpacked files, whose bytecode is stored. If it finds another PySpark
or none, as on YARN, the archives stay.

This module imports little: importing the package takes longer than starting Python.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder

COMMAND = "rocketmq-spark-python"
PYSPARK = os.path.join("python", "lib", "pyspark.zip")
PY4J = os.path.join("python", "lib", "py4j-")
JAR = os.path.join("jars", "spark-core")
"""Paths below ``SPARK_HOME``; PY4J and JAR are the beginnings of file names."""

PLANNING = frozenset(
    {
        "pyspark.sql.streaming.python_streaming_source_runner",
        "pyspark.sql.worker.create_data_source",
        "pyspark.sql.worker.data_source_pushdown_filters",
        "pyspark.sql.worker.lookup_data_sources",
        "pyspark.sql.worker.plan_data_source_read",
    }
)
"""Modules that Spark runs in a Python process to plan the reads of a source."""


def main() -> None:
    """Replace this process by Python with the command's arguments; never return. With SPARK_HOME and PYTHONPATH set,
    PYTHONPATH becomes the result of ``without_archives``.

    If an argument is one of PLANNING, set OMP_NUM_THREADS to 1 unless it is set, as Spark does for tasks: further
    threads for numpy's linear algebra would wait busily, without work.
    """
    arguments = sys.argv[1:]
    if not PLANNING.isdisjoint(arguments):
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    spark_home, python_path = os.environ.get("SPARK_HOME"), os.environ.get("PYTHONPATH")
    if spark_home and python_path:
        kept = without_archives(python_path.split(os.pathsep), spark_home, sys.path[1:])
        os.environ["PYTHONPATH"] = os.pathsep.join([os.curdir] if kept == [""] else kept)
    os.execv(sys.executable, (sys.executable, *arguments))  # noqa: S606


def command() -> str:
    """Return the path of the command beside the running Python; the running Python's if the command is missing there,
    or on a system that is not POSIX."""
    beside = os.path.join(os.path.dirname(sys.executable), COMMAND)
    return beside if os.name == "posix" and os.path.exists(beside) else sys.executable


def without_archives(python_path: Sequence[str], spark_home: str, search: Sequence[str]) -> list[str]:
    """Return a copy of ``python_path`` without the needless archives of ``spark_home``. If it has an unpacked folder
    ``python``, this replaces PySpark's archive, and the jar is removed. Else, if the PySpark in ``spark_home`` is found
    in the other entries or in ``search``, the folders searched after them, remove PySpark's archive, the jar, and the
    archive of the py4j version that is found there. Else remove nothing."""
    home = os.path.realpath(spark_home)
    looked_in = [*python_path, *search]
    below = {entry: os.path.relpath(os.path.realpath(entry), home) for entry in looked_in}
    unpacked = os.path.join(home, "python")
    if os.path.exists(os.path.join(unpacked, "pyspark", "__init__.py")):
        named = (unpacked if below[entry] == PYSPARK else entry for entry in python_path)
        return [entry for entry in named if not below.get(entry, "").startswith(JAR)]
    rest = [entry for entry in looked_in if not below[entry].startswith((PYSPARK, PY4J, JAR))]
    if _folder_of("pyspark", rest) != home:
        return list(python_path)
    needless = (PYSPARK, JAR, f"{PY4J}{_py4j_version(rest)}-")
    return [entry for entry in python_path if not below[entry].startswith(needless)]


def _folder_of(package: str, search: Sequence[str]) -> str | None:
    """Return the real path of the folder in which Python finds ``package`` in ``search``; None if it does not."""
    spec = PathFinder.find_spec(package, search)
    return None if spec is None or spec.origin is None else os.path.dirname(os.path.realpath(spec.origin))


def _py4j_version(search: Sequence[str]) -> str:
    """Return the version of the py4j that Python finds in ``search``, as in the archive's name; ``none`` if it finds
    none, or cannot read its version."""
    folder = _folder_of("py4j", search)
    try:
        with open(os.path.join(folder or os.devnull, "version.py"), encoding="utf-8") as file:
            return file.read().split("'")[1]
    except (OSError, IndexError):
        return "none"


if __name__ == "__main__":
    main()
