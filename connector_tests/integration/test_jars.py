"""The lock and the cache; none of these tests needs a network or a broker."""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import re
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from rocketmq_spark.embedded import jars
from rocketmq_spark.embedded.jars import (
    Jar,
    cache_dir,
    fetch_jars,
    first_problem,
    format_lock,
    missing_jars,
    move_checked,
    parse_lock,
)
from rocketmq_spark.embedded.jvm import find_java
from rocketmq_spark.errors import EmbeddedBrokerError

pytestmark = pytest.mark.full

CONTENT = b"the jar's bytes"
JAR = Jar("org.apache.rocketmq:rocketmq-broker:5.5.0", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


def test_the_lock_reads_back_what_was_written() -> None:
    lock = jars.read_lock()
    assert parse_lock(format_lock(lock)) == lock
    assert parse_lock("# a comment\n\n" + format_lock([JAR])) == (JAR,)


@pytest.mark.parametrize("version", jars.VERSIONS)
def test_a_lock_pins_every_jar_exactly_once(version: str) -> None:
    lock = jars.read_lock(version)
    assert len({jar.file_name for jar in lock}) == len(lock) > 30
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in lock)
    assert {
        f"org.apache.rocketmq:rocketmq-{module}:{version}" for module in ("namesrv", "broker", "client", "tools")
    } <= {jar.coordinate for jar in lock}
    assert any(jar.coordinate.startswith("io.netty:") and jar.size_bytes > 500_000 for jar in lock)
    assert jars.version_of(lock) == version


@pytest.mark.parametrize("version", jars.PROXY_VERSIONS)
def test_what_a_proxy_needs_comes_on_top(version: str) -> None:
    without, with_proxy = jars.read_lock(version), jars.read_lock(version, proxy=True)
    assert with_proxy[: len(without)] == without
    assert f"org.apache.rocketmq:rocketmq-proxy:{version}" in {jar.coordinate for jar in with_proxy[len(without) :]}
    assert len({jar.file_name for jar in with_proxy}) == len(with_proxy)


def test_the_locks_name_no_host_and_are_those_that_are_offered() -> None:
    files = sorted(jars.LOCKS.iterdir())
    offered = [*jars.VERSIONS, *(f"{version}-proxy" for version in jars.PROXY_VERSIONS)]
    assert sorted(offered) == sorted(file.stem for file in files)
    assert not any("://" in file.read_text(encoding="utf-8") for file in files)


def test_a_version_without_a_lock_is_named() -> None:
    with pytest.raises(EmbeddedBrokerError, match=r"RocketMQ 5\.9\.9: .*there are locks for 4\.9\.7"):
        jars.rocketmq_class_path("5.9.9", environ={})
    with pytest.raises(EmbeddedBrokerError, match=r"RocketMQ 5\.1\.4: .*no lock pins a proxy's; .*for 5\.5\.0"):
        jars.rocketmq_class_path("5.1.4", environ={}, proxy=True)


def test_a_distribution_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "rocketmq-broker-5.3.1.jar").touch()
    environ = {"ROCKETMQ_HOME": str(tmp_path)}
    assert jars.rocketmq_class_path("5.3.1", environ)[-1].endswith("5.3.1.jar")
    with pytest.raises(EmbeddedBrokerError, match=r"no lib/rocketmq-broker-4\.9\.7\.jar in it"):
        jars.rocketmq_class_path("4.9.7", environ)


def test_artifacts_of_the_same_name_do_not_share_a_file() -> None:
    assert Jar("a.b:c:1", "", 0).file_name != Jar("d.e:c:1", "", 0).file_name


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"x", CONTENT[::-1]], ids=repr)
def test_a_damaged_jar_in_the_cache_counts_as_missing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / JAR.file_name
    assert missing_jars([JAR], tmp_path) == [JAR]
    file.write_bytes(CONTENT)
    assert missing_jars([JAR], tmp_path) == []
    file.write_bytes(content)
    assert missing_jars([JAR], tmp_path) == [JAR]


def test_a_jar_with_a_wrong_sum_never_gets_into_the_cache(tmp_path: Path) -> None:
    fetched = tmp_path / JAR.file_name
    fetched.write_bytes(CONTENT[::-1])
    (tmp_path / "jars").mkdir()
    with pytest.raises(EmbeddedBrokerError, match=r"JAR_CHECKSUM_MISMATCH.*rocketmq-broker:5\.5\.0"):
        move_checked([JAR], [fetched], tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_whole_cache_is_used_without_java_and_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / JAR.file_name).write_bytes(CONTENT)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert fetch_jars([JAR], tmp_path) == [tmp_path / "jars" / JAR.file_name]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Maven repository in a folder; no other can be reached."""
    folder = tmp_path / "repository"
    folder.mkdir()
    no_network = (f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9" for scheme in ("http", "https"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(no_network))
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"{folder.as_uri()}/")
    monkeypatch.setattr(jars, "PAUSE_S", 0)
    monkeypatch.setattr(jars, "JARS_PER_STEP", 1)
    return folder


def publish(repository: Path, jar: Jar, content: bytes) -> None:
    group, artifact, version = jar.coordinate.split(":")
    folder = repository / group.replace(".", "/") / artifact / version
    folder.mkdir(parents=True, exist_ok=True)
    tags = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    (folder / f"{artifact}-{version}.pom").write_text(f"<project><modelVersion>4.0.0</modelVersion>{tags}</project>")
    (folder / f"{artifact}-{version}.jar").write_bytes(content)


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_broken_run_resumes_where_it_was(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = Jar("org.apache.rocketmq:rocketmq-namesrv:5.5.0", JAR.sha256, JAR.size_bytes)
    lock, cache = [JAR, second], tmp_path / "cache"
    publish(repository, JAR, CONTENT)
    with pytest.raises(EmbeddedBrokerError, match="JARS_UNAVAILABLE") as caught:
        fetch_jars(lock, cache)
    assert {"rocketmq-namesrv", "5.5.0", "ROCKETMQ_HOME"} <= set(re.findall(r"[\w.-]*\w", str(caught.value)))
    assert "\n" not in str(caught.value)
    assert names(cache / "jars") == {JAR.file_name}

    publish(repository, second, CONTENT)
    capsys.readouterr()
    fetch_jars(lock, cache)
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "1 of 2 jars, 0 of 0 MB",
        "2 of 2 jars, 0 of 0 MB",
    ]
    assert names(cache / "jars") == {JAR.file_name, second.file_name}
    assert names(cache) == {"jars", "fetching"}


def test_a_jar_that_was_damaged_on_the_way_is_requested_again(tmp_path: Path, repository: Path) -> None:
    publish(repository, JAR, CONTENT[::-1])
    with pytest.raises(EmbeddedBrokerError, match="JAR_CHECKSUM_MISMATCH"):
        fetch_jars([JAR], tmp_path / "cache")
    publish(repository, JAR, CONTENT)
    (jar,) = fetch_jars([JAR], tmp_path / "cache")
    assert jar.read_bytes() == CONTENT


def hold(file: Path, is_held: Event, may_end: Event) -> None:
    with jars.hold_file_lock(file):
        is_held.set()
        may_end.wait()


def test_only_one_process_fetches_at_a_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    is_held, may_end = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path / "fetching", is_held, may_end))
    other.start()
    is_held.wait()
    with (tmp_path / "fetching").open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    may_end.set()
    with jars.hold_file_lock(tmp_path / "fetching"):
        other.join()


def test_a_distribution_without_jars_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedBrokerError, match=f"ROCKETMQ_HOME is {tmp_path}"):
        jars.rocketmq_class_path(environ={"ROCKETMQ_HOME": str(tmp_path)})


def test_a_distribution_comes_before_the_cache(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "rocketmq-broker.jar").touch()
    py4j, *others = jars.rocketmq_class_path(environ={"ROCKETMQ_HOME": str(tmp_path)})
    assert Path(py4j).name.startswith("py4j-")
    assert others == [str(tmp_path / "lib" / "rocketmq-broker.jar")]


def test_a_brokers_class_path_is_the_first_part_of_its_proxys() -> None:
    """An archive of the classes of one serves both."""
    broker, proxy = jars.rocketmq_class_path(), jars.rocketmq_class_path(proxy=True)
    assert proxy[: len(broker)] == broker
    assert len(proxy) > len(broker)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"ROCKETMQ_SPARK_CACHE": "/own", "XDG_CACHE_HOME": "/xdg"}, Path("/own")),
        ({"XDG_CACHE_HOME": "/xdg"}, Path("/xdg/rocketmq_spark")),
        ({}, Path.home() / ".cache" / "rocketmq_spark"),
    ],
)
def test_the_cache_is_the_users_own(environ: dict[str, str], expected: Path) -> None:
    assert cache_dir(environ) == expected


@pytest.mark.parametrize("environ", [{"PATH": ""}, {"JAVA_HOME": "/nowhere"}], ids=str)
def test_without_java_one_sentence_reports_it(environ: dict[str, str]) -> None:
    with pytest.raises(EmbeddedBrokerError, match=r"JAVA_NOT_FOUND.*Install Java 17") as caught:
        find_java(environ)
    assert "\n" not in str(caught.value)


def test_of_many_problems_the_first_is_reported() -> None:
    assert first_problem("[a: not found, b: not found, c: not found]") == "a: not found (and 2 more)"
    assert first_problem("[a: not found]") == "a: not found"
    assert first_problem("something else") == "something else"
