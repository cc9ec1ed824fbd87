"""Package metadata. Tool settings are in pyproject.toml."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "rocketmq_spark/_version.py").read_text(encoding="utf-8"))[1]

# What the listener of rocketmq_spark.metrics needs.
PROMETHEUS = ["prometheus-client>=0.21"]
# What rocketmq_spark.plot_lag needs.
PLOT = ["matplotlib>=3.9"]
# What the tests and the demo need besides the connector itself. The embedded broker needs only Java. With setuptools
# the tests install the package without a network; what the official client says of the protocol, ours is held against.
TEST = [
    *PROMETHEUS,
    *PLOT,
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "hypothesis>=6.100",
    "psutil>=6",
    "pyyaml>=6",
    "rocketmq-python-client==5.1.2",
    "setuptools>=70.1",
]
# The benchmark's progress bar and chart; how busy processes are.
BENCH = [*PLOT, "psutil>=6", "tqdm>=4.66"]
MUTATE = ["mutmut==3.8.1"]
# With types of what speaks gRPC.
CHECK = ["ruff>=0.15,<0.18", "mypy>=1.15,<3", "import-linter>=2.7,<3", "types-grpcio", "types-protobuf"]
# The documentation's site: 'make site'.
DOCS = ["mkdocs-material>=9.6,<10", "mkdocs>=1.6,<2"]
# What compiles wire/grpc/messaging.proto: 'make stubs'. What another version makes of it is another text.
STUBS = ["grpcio-tools==1.76.0"]


def native() -> dict[str, Any]:
    """The Rust twin of wire/arrow, by ROCKETMQ_SPARK_BUILD_NATIVE: 1 fails where it cannot be built, 0 leaves it out;
    without the variable it is tried where cargo is, and left out where that fails."""
    wanted = os.environ.get("ROCKETMQ_SPARK_BUILD_NATIVE", "")
    if wanted == "0" or (wanted != "1" and shutil.which("cargo") is None):
        return {}
    try:
        from setuptools_rust import Binding, RustExtension

        subprocess.run([sys.executable, str(HERE / "native" / "lock.py")], check=True)
    except (ImportError, subprocess.CalledProcessError):
        if wanted == "1":
            raise
        return {}
    twin = RustExtension(
        "rocketmq_spark.wire._native",
        path="native/Cargo.toml",
        args=["--locked"],
        features=["python"],
        binding=Binding.PyO3,
        debug=False,  # an editable install would be slower than Python otherwise
        optional=wanted != "1",
    )
    return {"rust_extensions": [twin], "zip_safe": False}


setup(
    name="rocketmq-spark",
    version=VERSION,
    description="Apache RocketMQ for PySpark: a streaming source, and sinks of batches and streams, in Python",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    package_dir={"": "."},  # an editable install then is a plain path, where Spark finds pyspark_rocketmq
    packages=find_packages(include=["rocketmq_spark", "rocketmq_spark.*"]),
    py_modules=["pyspark_rocketmq", "rocketmq_spark_python"],
    package_data={"rocketmq_spark": ["py.typed"], "rocketmq_spark.embedded": ["locks/*.lock", "*.xml"]},
    **native(),
    # numpy comes along because PySpark's Arrow path imports it; plain pyspark brings neither it nor pyarrow.
    # grpcio and protobuf are what 'endpoints' needs, in the versions that PySpark's own Connect client takes too.
    install_requires=[
        "pyspark>=4.0,<4.4",
        "py4j>=0.10.9.9",
        "pyarrow>=18",
        "numpy>=1.26",
        "grpcio>=1.76",
        "protobuf>=6.33.5,<8",
    ],
    extras_require={
        "prometheus": PROMETHEUS,
        "plot": PLOT,
        "test": TEST,
        "dev": TEST + CHECK + MUTATE + STUBS,
        "bench": BENCH,
        "docs": DOCS,
    },
    entry_points={
        "console_scripts": [
            "rocketmq-spark = rocketmq_spark.cli.main:main",
            "rocketmq-spark-python = rocketmq_spark_python:main",
        ],
        "pytest11": ["rocketmq_spark = rocketmq_spark.embedded.pytest_plugin"],
    },
    classifiers=[
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
