"""The package as users install it: a script that registers nothing finds the source, and reads every message once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyarrow.parquet as pq
import pytest

from connector_tests.support.message_bytes import Record
from connector_tests.support.streams import Topic
from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.wire.implementation import NATIVE, VARIABLE

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
PACKAGE = (
    "setup.py",
    "setup.cfg",
    "MANIFEST.in",
    "pyproject.toml",
    "README.md",
    "pyspark_rocketmq.py",
    "rocketmq_spark_python.py",
)
CRATE = ("Cargo.toml", "crates.lock", "lock.py", "src")
BUILD_NATIVE = "ROCKETMQ_SPARK_BUILD_NATIVE"
BUILD_TIMEOUT_S = 3 * PROCESS_S
STORED = Record(body=b"payload", properties={"TAGS": "TagA"}, queue_offset=7)
TIMEOUT_S = PROCESS_S
TOO_LATE = ("Python worker failed to connect back", "JAVA_GATEWAY_EXITED")
"""Spark's own limit of 10 s for a Python process that starts, which a busy machine exceeds and which has no setting;
and a JVM of Spark that ends at its start."""
STARTS = 5
QUICK_START = (
    "--conf spark.ui.enabled=false --conf spark.driver.bindAddress=127.0.0.1 --conf spark.driver.host=127.0.0.1 "
    "--conf spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
)
SCRIPT = """\
import sys
from pyspark.sql import SparkSession

namesrv_addr, group, topic, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
reader = spark.readStream.format("rocketmq").option("namesrvAddr", namesrv_addr).option("consumerGroup", group)
messages = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
writer = messages.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
writer.trigger(availableNow=True).start(f"{folder}/table").awaitTermination()
"""

DECODE = f"""\
import rocketmq_spark, sys
from rocketmq_spark.wire.implementation import column_decoder
from rocketmq_spark.wire.arrow.column_table import COLUMNS

assert rocketmq_spark.__file__.startswith(sys.prefix), rocketmq_spark.__file__
decoder = column_decoder()(tuple(COLUMNS), broker_name="b", tags=None)
(row,) = decoder.decode_fast_path([bytes.fromhex({STORED.encode().hex()!r})], 0, 10).to_pylist()
assert (row["queueOffset"], row["body"], row["tags"], row["bornHost"]) == (7, b"payload", "TagA", "10.0.0.1:40001"), row
"""
NEEDS_CARGO = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo, which builds the wheel, is not here")


@dataclass(frozen=True)
class Installation:
    """A virtual environment with this package, and all others from ours, in a folder of its own."""

    folder: Path
    environment: Mapping[str, str]

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    @property
    def script(self) -> str:
        return str(self.folder / "script.py")

    def run(self, *command: str) -> None:
        """Run a command away from the source tree, with nothing but the environment to find the package by. What ends
        because Spark's processes started too slowly is run again, and goes on from its checkpoint."""
        for _ in range(STARTS):
            done = self._run(command)
            if not any(words in done.stderr for words in TOO_LATE):
                break
        assert done.returncode == 0, done.stderr

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "PYSPARK_PYTHON": self.python,
            "PYSPARK_SUBMIT_ARGS": f"--master local[2] {QUICK_START} pyspark-shell",
            BUILD_NATIVE: "0",
            **self.environment,
        }
        return subprocess.run(
            command, env=environment, cwd=self.folder, timeout=TIMEOUT_S, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is installed: a build writes into its source tree."""
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGE:
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "rocketmq_spark", source / "rocketmq_spark", ignore=shutil.ignore_patterns("__pycache__"))
    return source


def installed(
    source: Path, folder: Path, *how: str, environment: Mapping[str, str] = MappingProxyType({})
) -> Installation:
    """Our own packages are added by a path file. Python follows no path files in what is added so, which leaves out an
    editable install of this package in our own environment."""
    venv.create(folder / "venv", symlinks=True)
    one = Installation(folder, environment)
    (site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site_packages / "ours.pth").write_text("\n".join(ours), encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", one.python, "install", "--quiet", "--disable-pip-version-check")
    one.run(*pip, "--no-index", "--no-deps", "--no-build-isolation", *how, str(source))
    Path(one.script).write_text(SCRIPT, encoding="utf-8")
    return one


def quick_python(folder: Path) -> dict[str, str]:
    """For Spark to start Python by our command."""
    return {"PYSPARK_PYTHON": str(folder / "venv" / "bin" / "rocketmq-spark-python")}


@pytest.fixture(scope="module")
def ordinary(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return installed(source, tmp_path_factory.mktemp("ordinary"))


@pytest.fixture(scope="module")
def editable(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("editable")
    return installed(source, folder, "--editable", environment=quick_python(folder))


def with_crate(source: Path, crate: Path) -> None:
    """A copy with what a build of the native decoder needs."""
    shutil.copytree(source, crate, ignore=shutil.ignore_patterns("*.egg-info", "build", "*.so"))
    (crate / "native").mkdir()
    for name in CRATE:
        part = ROOT / "native" / name
        (shutil.copytree if part.is_dir() else shutil.copy)(part, crate / "native" / name)


@pytest.fixture(scope="module")
def source_distribution(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source_distribution")
    with_crate(source, folder / "source")
    build = f"import setuptools.build_meta as build; build.build_sdist({str(folder)!r})"
    environment = os.environ | {BUILD_NATIVE: "0"}
    subprocess.run((sys.executable, "-c", build), cwd=folder / "source", env=environment, timeout=TIMEOUT_S, check=True)
    (made,) = folder.glob("*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make wheel`` makes. Only here a compiler is needed, and a network."""
    folder = tmp_path_factory.mktemp("wheel")
    crate = folder / "source"
    with_crate(source, crate)
    command = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(crate))
    environment = os.environ | {BUILD_NATIVE: "1", "CARGO_TARGET_DIR": str(ROOT / "native" / "target")}
    done = subprocess.run(
        command, env=environment, timeout=BUILD_TIMEOUT_S, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def from_a_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Installed without building anything; a decoder that is missing is an error."""
    folder = tmp_path_factory.mktemp("from_a_wheel")
    environment = {VARIABLE: NATIVE, **quick_python(folder)}
    return installed(wheel, folder, "--only-binary", ":all:", environment=environment)


@pytest.fixture
def arguments(cluster: EmbeddedCluster, topic: str, group: str, tmp_path: Path) -> tuple[str, ...]:
    """What the script is given."""
    return (cluster.namesrv_addr, group, topic, str(tmp_path))


def table(folder: Path) -> list[str]:
    """The bodies of all rows."""
    return sorted(body.decode() for body in pq.read_table(folder / "table", columns=["body"])["body"].to_pylist())


ONE_RUN = (30,)
THREE_RUNS = (30, 20, 10)


@pytest.mark.parametrize(
    ("how", "counts"),
    [
        pytest.param("ordinary", ONE_RUN, id="ordinary-once"),
        pytest.param("ordinary", THREE_RUNS, id="ordinary", marks=pytest.mark.long),
        pytest.param("editable", ONE_RUN, id="editable-once"),
        pytest.param("editable", THREE_RUNS, id="editable", marks=pytest.mark.long),
    ],
)
def test_runs_of_a_script_read_each_message_once(
    how: str,
    counts: tuple[int, ...],
    request: pytest.FixtureRequest,
    messages: Topic,
    group: str,
    arguments: tuple[str, ...],
    tmp_path: Path,
) -> None:
    installation: Installation = request.getfixturevalue(how)
    sent: list[str] = []
    for count in counts:
        sent += messages.send(count)
        installation.run(installation.python, installation.script, *arguments)
        assert table(tmp_path) == sorted(sent)
        assert messages.lag(group) == 0


@pytest.mark.long
def test_the_script_runs_through_spark_submit_with_the_settings_of_conf(
    ordinary: Installation, messages: Topic, group: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    sent = messages.send(30)
    settings = ("--properties-file", str(ROOT / "conf" / "spark-defaults.conf"))
    ordinary.run("spark-submit", "--master", "local[2]", *settings, ordinary.script, *arguments)
    assert table(tmp_path) == sorted(sent)
    assert messages.lag(group) == 0


def test_an_editable_install_is_the_source_tree_and_an_ordinary_one_a_copy(
    ordinary: Installation, editable: Installation, source: Path
) -> None:
    for installation, place in ((ordinary, ordinary.folder), (editable, source)):
        where = f"import rocketmq_spark as r; assert r.__file__.startswith({str(place)!r}), r.__file__"
        installation.run(installation.python, "-c", where)


def files_below(folder: Path) -> set[str]:
    """All but what Python or cargo writes there, and the source of generated modules."""
    files = {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}
    return {str(file) for file in files if "__pycache__" not in file.parts and file.suffix not in {".so", ".proto"}}


def test_a_source_distribution_has_the_crate_and_installs_every_file(
    source: Path, source_distribution: Path, tmp_path: Path
) -> None:
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {f"native/{name}" for name in CRATE}
    one = installed(source_distribution, tmp_path)
    (site_packages,) = (one.folder / "venv" / "lib").glob("python*/site-packages")
    assert files_below(site_packages / "rocketmq_spark") == files_below(source / "rocketmq_spark")
    one.run(one.python, "-c", "import pyspark_rocketmq, sys; assert pyspark_rocketmq.__file__.startswith(sys.prefix)")
    one.run(str(one.folder / "venv" / "bin" / "rocketmq-spark"), "--version")


@pytest.mark.full
@NEEDS_CARGO
def test_a_wheel_is_for_every_python_from_the_oldest_on_and_holds_the_native_decoder(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        assert "rocketmq_spark/wire/_native.abi3.so" in archive.namelist()


@pytest.mark.full
@NEEDS_CARGO
def test_what_a_wheel_installed_decodes_natively(from_a_wheel: Installation) -> None:
    from_a_wheel.run(from_a_wheel.python, "-c", DECODE)
    from_a_wheel.run(str(from_a_wheel.folder / "venv" / "bin" / "rocketmq-spark"), "--version")


@pytest.mark.full
@NEEDS_CARGO
def test_a_query_of_what_a_wheel_installed_reads_each_message_once(
    from_a_wheel: Installation, messages: Topic, group: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    sent = messages.send(30)
    from_a_wheel.run(from_a_wheel.python, from_a_wheel.script, *arguments)
    assert table(tmp_path) == sorted(sent)
    assert messages.lag(group) == 0
