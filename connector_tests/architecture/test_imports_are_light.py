"""What an import costs. Spark imports ``pyspark_rocketmq`` wherever it looks up a source, also for other formats."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LIST_MODULES = "import json, sys\n{imports}\nprint(json.dumps(sorted(sys.modules)))"


def loaded_by(imports: str) -> frozenset[str]:
    """Names of all modules that a fresh interpreter has after ``imports``."""
    run = subprocess.run(
        [sys.executable, "-c", LIST_MODULES.format(imports=imports)], capture_output=True, text=True, check=True
    )
    return frozenset(json.loads(run.stdout))


def packages(modules: frozenset[str]) -> frozenset[str]:
    return frozenset(module.partition(".")[0] for module in modules) - sys.stdlib_module_names


@pytest.fixture(scope="module")
def bare() -> frozenset[str]:
    return loaded_by("pass")


@pytest.fixture(scope="module")
def with_spark() -> frozenset[str]:
    return loaded_by("import pyspark.sql.datasource")


@pytest.fixture(scope="module")
def when_found(with_spark: frozenset[str]) -> frozenset[str]:
    """What Spark loads to find the source, beyond what it has by then."""
    return loaded_by("import pyspark_rocketmq") - with_spark


def test_importing_the_package_imports_nothing_but_itself(bare: frozenset[str]) -> None:
    loaded = loaded_by("import rocketmq_spark") - bare
    assert packages(loaded) == {"rocketmq_spark"}
    assert loaded >= {"rocketmq_spark._version"}
    assert not {"rocketmq_spark.wire", "rocketmq_spark.remoting"} & loaded


def test_what_spark_imports_to_find_the_source_brings_no_other_package(when_found: frozenset[str]) -> None:
    assert packages(when_found) == {"rocketmq_spark", "pyspark_rocketmq"}


@pytest.mark.parametrize(
    "heavy",
    [
        "pyarrow",
        "numpy",
        "grpc",
        "rocketmq_spark.wire.arrow.columns",
        "rocketmq_spark.remoting.connection",
        "rocketmq_spark.consumer.member",
        "rocketmq_spark.embedded",
        "ssl",
        "socket",
    ],
)
def test_finding_the_source_loads_nothing_that_only_reading_needs(when_found: frozenset[str], heavy: str) -> None:
    assert heavy not in when_found


def test_the_pure_core_needs_no_other_package(bare: frozenset[str]) -> None:
    rooms = ("consumer.membership", "pull.pull_request", "source.stream.planning")
    loaded = loaded_by("\n".join(f"import rocketmq_spark.{room}" for room in rooms))
    assert packages(loaded - bare) == {"rocketmq_spark"}


@pytest.mark.parametrize(
    "heavy", ["pyarrow.compute", "rocketmq_spark.wire.arrow.columns", "rocketmq_spark.pull.range_puller"]
)
def test_what_plans_a_query_does_not_load_what_reads_it(heavy: str) -> None:
    """Each query starts processes that plan."""
    assert heavy not in loaded_by(
        "import rocketmq_spark.source.stream.stream_reader, rocketmq_spark.source.stream.source_run"
    )


def test_what_load_imports_needs_neither_arrow_nor_a_socket(with_spark: frozenset[str]) -> None:
    """It runs in a process of its own, for which a user waits."""
    options = {"namesrvAddr": "127.0.0.1:1", "consumerGroup": "g", "subscribe": "T", "propertyColumns": "region"}
    loaded_modules = (
        loaded_by(f"import pyspark_rocketmq\npyspark_rocketmq.DefaultSource({options}).schema()") - with_spark
    )
    assert "rocketmq_spark.source.schema" in loaded_modules
    assert not {"pyarrow", "numpy", "grpc", "ssl", "socket"} & loaded_modules
