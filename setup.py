"""Package metadata. Tool settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "rocketmq_spark/_version.py").read_text(encoding="utf-8"))[1]

# What the tests and the demo need besides the connector itself. The embedded broker needs only Java. With setuptools
# the tests install the package without a network.
TEST = [
    "pytest>=8",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "hypothesis>=6.100",
    "psutil>=6",
    "setuptools>=70.1",
]
# The benchmark's progress bar and chart; how busy processes are.
BENCH = ["matplotlib>=3.9", "psutil>=6", "tqdm>=4.66"]
MUTATE = ["mutmut==3.8.1"]
CHECK = ["ruff>=0.15,<0.18", "mypy>=1.15,<3", "import-linter>=2.7,<3"]

setup(
    name="rocketmq-spark",
    version=VERSION,
    description="Apache RocketMQ as a PySpark streaming source, in pure Python",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    package_dir={"": "."},  # an editable install then is a plain path, where Spark finds pyspark_rocketmq
    packages=find_packages(include=["rocketmq_spark", "rocketmq_spark.*"]),
    py_modules=["pyspark_rocketmq"],
    package_data={"rocketmq_spark": ["py.typed"], "rocketmq_spark.embedded": ["locks/*.lock", "*.xml"]},
    # numpy comes along because PySpark's Arrow path imports it; plain pyspark brings neither it nor pyarrow.
    install_requires=["pyspark>=4.2,<4.4", "py4j>=0.10.9.9", "pyarrow>=18", "numpy>=1.26"],
    extras_require={"test": TEST, "dev": TEST + CHECK + MUTATE, "bench": BENCH},
    entry_points={
        "console_scripts": ["rocketmq-spark = rocketmq_spark.cli.main:main"],
        "pytest11": ["rocketmq_spark = rocketmq_spark.embedded.pytest_plugin"],
    },
    classifiers=[
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
