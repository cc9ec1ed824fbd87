"""``rocketmq-spark-python``: what to name in ``PYSPARK_PYTHON`` so that Spark's Python processes start faster.

Spark puts archives in front of all that its Python processes import: PySpark without bytecode, which each of them
compiles anew, and a jar of thousands of files that hold no Python. This is the Python that the package is installed in,
which finds the same PySpark in the files that the archive was made of, whose bytecode stays. Where it would find
another, or none, as on YARN, the archives stay.

A module of its own, which imports little: importing the package takes longer than Python itself.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder

COMMAND = "rocketmq-spark-python"
PYSPARK = os.path.join("python", "lib", "pyspark.zip")
PY4J = os.path.join("python", "lib", "py4j-")
JAR = os.path.join("jars", "spark-core")
"""What is below ``SPARK_HOME``; the last two are how names begin."""

PLANNING = frozenset(
    {
        "pyspark.sql.streaming.python_streaming_source_runner",
        "pyspark.sql.worker.create_data_source",
        "pyspark.sql.worker.data_source_pushdown_filters",
        "pyspark.sql.worker.lookup_data_sources",
        "pyspark.sql.worker.plan_data_source_read",
    }
)
"""What Spark runs to plan what a source reads."""


def main() -> None:
    """Become Python, with the arguments of the command.

    A process that plans has one thread for numpy's linear algebra if nobody has said otherwise, as Spark has it for
    tasks: more of them wait busily for what never comes.
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
    """The command beside the Python that runs; that Python itself where it is not there, or not for this system."""
    beside = os.path.join(os.path.dirname(sys.executable), COMMAND)
    return beside if os.name == "posix" and os.path.exists(beside) else sys.executable


def without_archives(python_path: Sequence[str], spark_home: str, search: Sequence[str]) -> list[str]:
    """``python_path`` without the archives of ``spark_home``, if the same PySpark's files are found then.

    ``search`` is where this Python looks for modules beside. The files of a Spark that was unpacked take the place of
    their archive.
    """
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
    """Where Python finds it."""
    spec = PathFinder.find_spec(package, search)
    return None if spec is None or spec.origin is None else os.path.dirname(os.path.realpath(spec.origin))


def _py4j_version(search: Sequence[str]) -> str:
    """Of the one that Python finds, as its archive has it in its name; ``none`` where there is none."""
    folder = _folder_of("py4j", search)
    try:
        with open(os.path.join(folder or os.devnull, "version.py"), encoding="utf-8") as file:
            return file.read().split("'")[1]
    except (OSError, IndexError):
        return "none"


if __name__ == "__main__":
    main()
