"""Fixtures that several kinds of tests share."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.decoders import (
    IMPLEMENTATIONS,
    decoder_class,
    fail_if_unmarked,
    implementations_line,
    reset_decoder_choice,
)
from connector_tests.support.durations import OF_REST, SHORT_S, Durations, longest_s, part_of
from connector_tests.support.executor_process import close_executor_connections
from connector_tests.support.java import java_oracle
from connector_tests.support.jvm_options import spark_options
from connector_tests.support.leaks import LeakCheck
from connector_tests.support.limits_of_tests import scale_limits
from connector_tests.support.rest_files import is_ignored, may_be_of_rest
from connector_tests.support.started_processes import StartedProcesses
from connector_tests.support.work_units import SharedShapes, unit_of, unit_places
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.source.stream.source_run import ENDING_SIGNALS
from rocketmq_spark.wire.arrow.columns import ColumnDecoder
from rocketmq_spark.wire.implementation import NATIVE, VARIABLE

WITH_SPARK: Final = ("examples", "spark")

LEAKS: Final = pytest.StashKey[LeakCheck]()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the garbage collector, which took a fifth of the time, and ignores ten thousand items from then on."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return is_ignored(collection_path, config.option.markexpr) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Spark or the native decoder, scale time limits of tests, and put units in their places, in each
    the longest file first."""
    for item in items:
        if folder_of(item) in WITH_SPARK:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.broker)
        if needs_native_decoder(item):
            item.add_marker(pytest.mark.native)
    scale_limits(items)
    check_rest_files(items)
    seconds = file_seconds(items)
    place_of = unit_places(seconds)

    def place(item: pytest.Item) -> tuple[float, str, int]:
        file = file_of(item)
        unit = unit_of(file)
        return place_of[unit], unit, -seconds[file]

    items.sort(key=place)


def file_seconds(items: Sequence[pytest.Item]) -> dict[str, int]:
    """How long the tests of each file take that are here."""
    measured = longest_s()
    seconds: Counter[str] = Counter()
    for file, rest in {(file_of(item), is_of_rest(item)) for item in items}:
        seconds[file] += measured.get(part_of(file, is_of_rest=rest), SHORT_S)
    return seconds


def is_of_rest(item: pytest.Item) -> bool:
    """Whether 'make test-rest' runs it, not 'make test'."""
    return any(map(item.get_closest_marker, OF_REST))


def check_rest_files(items: Sequence[pytest.Item]) -> None:
    """UsageError for a test that 'make test' leaves out in a file that 'make test-rest' would not import."""
    marked = {item.path for item in items if is_of_rest(item)}
    if unknown := [str(file) for file in sorted(marked) if not may_be_of_rest(file)]:
        raise pytest.UsageError(f"support/rest_files.py finds no mark full or native in {', '.join(unknown)}")


@pytest.hookimpl(optionalhook=True)  # mutation tests run without pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return SharedShapes(config, log) if config.option.dist == "loadfile" else None


def file_of(item: pytest.Item) -> str:
    """Its path below the root, of the node's ID: of thousands of items the parts of paths took a second."""
    return item.nodeid.partition("::")[0]


def folder_of(item: pytest.Item) -> str:
    return file_of(item).split("/")[1]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_unmarked(report)
    return report


def needs_native_decoder(item: pytest.Item) -> bool:
    """Whether a parameter requests it, or the module is about nothing else."""
    parameters = getattr(item, "callspec", None)
    in_name = "native" in file_of(item).rpartition("/")[2]
    return in_name or (parameters is not None and NATIVE in parameters.params.values())


class SessionResources:
    """What a session-wide fixture makes is no leak of the module that happens to be the first to want it.

    A plugin of its own: the hooks of a conftest below the root are not called for fixtures of the session.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        if fixturedef.scope != "session":
            return (yield)
        with request.config.stash[LEAKS].by_session():
            return (yield)


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_options())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: its children would ignore it too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[LEAKS] = LeakCheck()
    config.pluginmanager.register(SessionResources())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(StartedProcesses())
        config.pluginmanager.register(Durations())


def pytest_report_header() -> str:
    return implementations_line()


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For us and for our children, so that what is left in it is ours. Set up before, and removed after, all else."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        with LeakCheck().nothing_left():
            yield


@pytest.fixture(scope="module", autouse=True)
def no_leaks(request: pytest.FixtureRequest, own_temporary_folder: None) -> Iterator[None]:
    """A module leaves no thread, socket, process or temporary folder behind."""
    with request.config.stash[LEAKS].nothing_left():
        yield
        close_executor_connections()


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """A source runner changes what signals do to its process, and what is ignored would be for its children too."""
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def column_decoder(request: pytest.FixtureRequest) -> type[ColumnDecoder]:
    """One contract, two implementations. For a module, because hypothesis does not set fixtures up again."""
    return decoder_class(request.param)


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each of them in turn: who reads answers and decodes in this process."""
    decoder_class(request.param)
    monkeypatch.setenv(VARIABLE, request.param)
    reset_decoder_choice()
    yield request.param
    reset_decoder_choice()


@pytest.fixture(scope="session")
def grpc_library() -> Iterator[None]:
    """In use: while it is, it keeps the descriptors that its own threads wait with."""
    from connector_tests.support.scripted_proxy import in_use

    with ExitStack() as using:
        with LeakCheck.by_process():
            using.enter_context(in_use())
        yield


@pytest.fixture(scope="session")
def cluster_pool(request: pytest.FixtureRequest) -> Iterator[ClusterPool]:
    with closing(ClusterPool(request.config.stash[LEAKS].by_session)) as pool:
        yield pool


@pytest.fixture(scope="module")
def clusters(cluster_pool: ClusterPool) -> Iterator[ClusterPool]:
    """Clusters of any shape, also those that tests may break."""
    with cluster_pool.module():
        yield cluster_pool


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    """One name server and one broker for all tests that break neither."""
    return clusters.get()


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> str:
    """A topic with four queues for one test."""
    return cluster.create_topic(unique_name(request.node.name))


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A consumer group name for one test."""
    return unique_name(f"group_{request.node.name}")


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """RocketMQ's Java client classes, to compare with."""
    with java_oracle(tmp_path_factory.mktemp("oracle")) as classes:
        yield classes
