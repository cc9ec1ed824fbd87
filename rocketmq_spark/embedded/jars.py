"""RocketMQ's jars: pinned versions, their cache, and their verification.

A file in ``locks`` for each version pins coordinates, sizes and SHA-256 sums; another one pins the additional jars of a
proxy. ``tools/lock_jars.py`` writes them. Every jar is verified before every use. It gets its name in the cache only
after verification, so an interrupted run loses only its current step.

The Ivy resolver in PySpark's jars downloads the coordinates, in a short-lived JVM. Spark determines the repository: the
variable DEFAULT_ARTIFACT_REPOSITORY sets another one, JAVA_TOOL_OPTIONS a proxy.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from rocketmq_spark.embedded.jvm import ChildJvm, messages_of, pyspark_jars
from rocketmq_spark.embedded.work_folder import work_folder
from rocketmq_spark.errors import EmbeddedBrokerError

LOCKS: Final = Path(__file__).with_name("locks")
DEFAULT_VERSION: Final = "5.5.0"
VERSIONS: Final = ("4.9.7", "5.1.4", "5.2.0", "5.4.0", DEFAULT_VERSION)
PROXY_VERSIONS: Final = (DEFAULT_VERSION,)
JARS_PER_STEP: Final = 10
ATTEMPTS: Final = 3
PAUSE_S: Final = 1.0
BYTES_PER_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a lock."""

    coordinate: str
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        """Return the file name as Ivy forms it: artifacts of different groups may share a name."""
        group, artifact, version = self.coordinate.split(":")
        return f"{group}_{artifact}-{version}.jar"

    def is_intact(self, file: Path) -> bool:
        """Return whether the file exists and has the jar's size and SHA-256 sum; this reads it."""
        return file.is_file() and file.stat().st_size == self.size_bytes and sha256_of(file) == self.sha256


def parse_lock(text: str) -> tuple[Jar, ...]:
    """Return the jars of lines ``sha256 size coordinate``, in their order; skip empty lines and ``#`` comments. Raises
    ValueError for another line."""
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(Jar(coordinate, sha256, int(size)) for sha256, size, coordinate in rows)


def format_lock(jars: Iterable[Jar]) -> str:
    """Return the lines that ``parse_lock`` reads, sorted by coordinate."""
    in_order = sorted(jars, key=lambda jar: jar.coordinate)
    return "".join(f"{jar.sha256} {jar.size_bytes:>8} {jar.coordinate}\n" for jar in in_order)


def lock_file(version: str) -> Path:
    """Return the path of the lock of this version of RocketMQ."""
    return LOCKS / f"{version}.lock"


def proxy_lock_file(version: str) -> Path:
    """Return the path of the lock of the jars that only the version's proxy requires."""
    return LOCKS / f"{version}-proxy.lock"


def read_lock(version: str = DEFAULT_VERSION, *, proxy: bool = False) -> tuple[Jar, ...]:
    """Read the lock of a tested version, and return its jars; with ``proxy`` also the jars that only its proxy
    requires. Raises EmbeddedBrokerError[JARS_UNAVAILABLE] for a version not in VERSIONS, or with ``proxy`` not in
    PROXY_VERSIONS."""
    versions, subject = (PROXY_VERSIONS, "a proxy's") if proxy else (VERSIONS, "them")
    if version not in versions:
        problem = f"no lock pins {subject}; there are locks for {', '.join(versions)}"
        raise EmbeddedBrokerError("JARS_UNAVAILABLE", version=version, problem=problem)
    files = [lock_file(version), *([proxy_lock_file(version)] if proxy else [])]
    return tuple(jar for file in files for jar in parse_lock(file.read_text(encoding="utf-8")))


def version_of(lock: Iterable[Jar]) -> str:
    """Return RocketMQ's version in a lock, that of ``rocketmq-broker``, which it must have."""
    return next(jar.coordinate.split(":")[2] for jar in lock if ":rocketmq-broker:" in jar.coordinate)


def sha256_of(file: Path) -> str:
    """Return the file's SHA-256 sum in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's cache folder, which may not exist: ``$ROCKETMQ_SPARK_CACHE``, else ``rocketmq_spark`` in
    ``$XDG_CACHE_HOME``, else ``rocketmq_spark`` in the home folder's ``.cache``. An empty variable counts as not
    set."""
    own_cache, base = environ.get("ROCKETMQ_SPARK_CACHE"), environ.get("XDG_CACHE_HOME")
    if own_cache:
        return Path(own_cache)
    return (Path(base) if base else Path.home() / ".cache") / "rocketmq_spark"


def rocketmq_class_path(
    version: str | None = None, environ: Mapping[str, str] = os.environ, *, proxy: bool = False
) -> list[str]:
    """Verify RocketMQ's jars in the cache, download missing or damaged ones, and return the class path with py4j.
    ``version``: by default 5.5.0. ``proxy``: include the jars that only a proxy requires.

    With ``ROCKETMQ_HOME`` set, the jars are that distribution's: nothing is verified or downloaded, and only
    ``version``, if set, is compared with a file name.

    Raises EmbeddedBrokerError[JARS_UNAVAILABLE] if no repository responds, ROCKETMQ_HOME has no jars or another
    version's, or no lock exists for that version. Raises [JAR_CHECKSUM_MISMATCH] if a repository returned another file,
    and what ``open_ivy`` does.
    """
    home = environ.get("ROCKETMQ_HOME")
    if home:
        jars = distribution_jars(Path(home), version)
    else:
        jars = fetch_jars(read_lock(version or DEFAULT_VERSION, proxy=proxy), cache_dir(environ))
    return [*map(str, pyspark_jars().glob("py4j-*.jar")), *map(str, jars)]


def distribution_jars(home: Path, version: str | None = None) -> list[Path]:
    """Return all jars in ``lib`` of an unpacked distribution, sorted by name.

    Raises EmbeddedBrokerError[JARS_UNAVAILABLE] if there is none or, with ``version``, no
    ``rocketmq-broker-<version>.jar``.
    """
    jars = sorted((home / "lib").glob("*.jar"))
    pattern = f"rocketmq-broker-{version}.jar" if version else "*.jar"
    if not any(jar.match(pattern) for jar in jars):
        problem = f"ROCKETMQ_HOME is {home}, and there is no lib/{pattern} in it"
        raise EmbeddedBrokerError("JARS_UNAVAILABLE", version=version or DEFAULT_VERSION, problem=problem)
    return jars


def fetch_jars(lock: Sequence[Jar], cache: Path) -> list[Path]:
    """Verify all jars of the lock in ``cache``, download missing or damaged ones, and return the files of all, in the
    order of the lock. Wait without a limit while another process downloads. Raises what ``fetch`` does."""
    folder = cache / "jars"
    if missing_jars(lock, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with hold_file_lock(cache / "fetching"):
            fetch(lock, folder, cache / "ivy")
    return [folder / jar.file_name for jar in lock]


def missing_jars(lock: Iterable[Jar], folder: Path) -> list[Jar]:
    """Return the jars of the lock that are missing or damaged in ``folder``; this reads all files, for their sums."""
    return [jar for jar in lock if not jar.is_intact(folder / jar.file_name)]


@contextmanager
def hold_file_lock(file: Path) -> Iterator[None]:
    """Create ``file``, or empty it. Then wait without a limit for an exclusive lock on it among processes, and hold the
    lock during the block. The kernel releases it if the process ends. The file stays."""
    with file.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def fetch(lock: Sequence[Jar], folder: Path, ivy_folder: Path) -> None:
    """Download the missing or damaged jars in ``folder``, 10 at a time, in a child JVM, and report progress on standard
    error. Do nothing without any. The caller holds the file lock. ``ivy_folder`` is deleted before and after. Raises
    EmbeddedBrokerError[JARS_UNAVAILABLE], and what ``move_checked`` and ``open_ivy`` do; finished steps stay."""
    missing = missing_jars(lock, folder)
    if not missing:
        return
    # Files of an interrupted run may be damaged.
    shutil.rmtree(ivy_folder, ignore_errors=True)
    try:
        with open_ivy(ivy_folder) as ivy:
            for begin in range(0, len(missing), JARS_PER_STEP):
                report_progress(lock, missing[begin:])
                step = missing[begin : begin + JARS_PER_STEP]
                move_checked(step, resolve_with_retries(ivy, step), folder)
            report_progress(lock, [])
    except IvyError as error:
        raise EmbeddedBrokerError("JARS_UNAVAILABLE", version=version_of(lock), problem=str(error)) from error
    finally:
        shutil.rmtree(ivy_folder, ignore_errors=True)


def resolve_with_retries(ivy: Ivy, jars: Sequence[Jar]) -> list[Path]:
    """Download ``jars`` into Ivy's folder and return their files, unverified. Make at most 3 attempts, 1 s apart: one
    network error must not end a long download. Raises IvyError of the last attempt."""
    for _ in range(ATTEMPTS - 1):
        try:
            return ivy.resolve([jar.coordinate for jar in jars])
        except IvyError:
            time.sleep(PAUSE_S)
    return ivy.resolve([jar.coordinate for jar in jars])


def move_checked(jars: Sequence[Jar], files: Sequence[Path], folder: Path) -> None:
    """Verify size and SHA-256 sum of each jar's file in ``files``, found by its name, and move it to ``folder``
    atomically.

    Raises EmbeddedBrokerError[JAR_CHECKSUM_MISMATCH] for the first file that differs; those before it are moved.
    """
    by_name = {file.name: file for file in files}
    for jar in jars:
        file = by_name[jar.file_name]
        if not jar.is_intact(file):
            raise EmbeddedBrokerError("JAR_CHECKSUM_MISMATCH", jar=jar.coordinate)
        file.replace(folder / jar.file_name)


def report_progress(lock: Sequence[Jar], still_missing: Sequence[Jar]) -> None:
    """Write one line to standard error: RocketMQ's version, the number and MB (10^6 bytes) of the jars of ``lock`` that
    are present (not in ``still_missing``), and of all its jars."""
    total, remaining = (sum(jar.size_bytes for jar in jars) // BYTES_PER_MB for jars in (lock, still_missing))
    count = len(lock) - len(still_missing)
    sys.stderr.write(
        f"Apache RocketMQ {version_of(lock)}: {count} of {len(lock)} jars, {total - remaining} of {total} MB\n"
    )


# Timeouts of a repository in ms; Java's default is to wait without limit.
JVM_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-Dsun.net.client.defaultConnectTimeout=15000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)


class IvyError(Exception):
    """A coordinate could not be resolved; the text is Ivy's own, one line."""


class Ivy:
    """An Ivy resolver with working files in ``folder``, where it reuses files of earlier downloads."""

    def __init__(self, jvm: ChildJvm, folder: Path) -> None:
        self._java = jvm.connect()
        self._maven = self._java.org.apache.spark.util.MavenUtils
        self._none = self._java.scala.Option.apply(None)
        self._log = self._java.java.lang.System.err
        some_folder = self._java.scala.Option.apply(str(folder))
        # Without the local Maven repository: Ivy fails if that has a POM without its jar.
        self._settings = self._maven.buildIvySettings(self._none, some_folder, False, self._log)

    def resolve(self, coordinates: Sequence[str], *, transitive: bool = False) -> list[Path]:
        """Download ``group:artifact:version`` coordinates, with ``transitive`` also their dependencies, and return the
        files. Raises IvyError with Ivy's first problem if a coordinate cannot be resolved."""
        none_excluded = self._java.scala.jdk.javaapi.CollectionConverters.asScala([]).toSeq()
        request = ",".join(coordinates)
        try:
            files: Any = self._maven.resolveMavenCoordinates(
                request, self._settings, self._none, transitive, none_excluded, False, self._log
            )
        except Py4JJavaError as error:
            raise IvyError(first_problem(messages_of(error.java_exception))) from error
        return [Path(file) for file in self._java.scala.jdk.javaapi.CollectionConverters.asJava(files)]


@contextmanager
def open_ivy(folder: Path) -> Iterator[Ivy]:
    """Start a child JVM, yield an Ivy in it, and kill the JVM after the block. Errors of py4j and OSErrors in the block
    become those of ``ChildJvm.raising_embedded_errors``. Raises what ``ChildJvm.connect``, ``find_java`` and
    ``pyspark_jars`` do."""
    with work_folder("ivy") as work:
        options = (*JVM_OPTIONS, f"-Duser.home={work.path}", f"-Djava.io.tmpdir={work.path}")
        jvm = ChildJvm("ivy", [f"{pyspark_jars()}/*"], options, work.path, [work.owner])
        try:
            with jvm.raising_embedded_errors():
                yield Ivy(jvm, folder)
        finally:
            jvm.kill()


def first_problem(text: str) -> str:
    """Return the first problem of Ivy's ``SomeException: [problem, problem, ...]``, followed by "(and N more)" if it
    has several; another text unchanged."""
    _, bracket, inside = text.partition("[")
    if not bracket:
        return text
    first, *more_problems = inside.rstrip("]").split(", ")
    return f"{first} (and {len(more_problems)} more)" if more_problems else first
