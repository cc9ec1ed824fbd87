"""Maven coordinates to files, through the Ivy resolver inside PySpark's jars.

It runs in a short-lived JVM of its own. Where it looks is Spark's matter: the variable DEFAULT_ARTIFACT_REPOSITORY
names another repository, JAVA_TOOL_OPTIONS a proxy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from rocketmq_spark.embedded.jvm import ChildJvm, messages_of, pyspark_jars
from rocketmq_spark.embedded.work_folder import work_folder

# A repository that does not answer is given up after this long, instead of never.
JVM_OPTIONS: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-Dsun.net.client.defaultConnectTimeout=15000",
    "-Dsun.net.client.defaultReadTimeout=60000",
)


class IvyError(Exception):
    """Something could not be resolved; the text is Ivy's own, one line."""


class Ivy:
    """An Ivy resolver with its working files in ``folder``; what it has fetched there it does not fetch again."""

    def __init__(self, jvm: ChildJvm, folder: Path) -> None:
        self._java = jvm.java
        self._maven = self._java.org.apache.spark.util.MavenUtils
        self._none = self._java.scala.Option.apply(None)
        self._log = self._java.java.lang.System.err
        some_folder = self._java.scala.Option.apply(str(folder))
        # Not the local Maven repository: Ivy takes one that holds a POM without its jar for complete, and fails.
        self._settings = self._maven.buildIvySettings(self._none, some_folder, False, self._log)

    def resolve(self, coordinates: Sequence[str], *, transitive: bool = False) -> list[Path]:
        """Files of ``group:artifact:version`` coordinates, and with ``transitive`` of what they need."""
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
    """An Ivy that lives as long as the block."""
    with work_folder("ivy") as work:
        options = (*JVM_OPTIONS, f"-Duser.home={work.path}", f"-Djava.io.tmpdir={work.path}")
        jvm = ChildJvm("ivy", [f"{pyspark_jars()}/*"], options, work.path, [work.owner])
        try:
            with jvm.failing_clearly():
                yield Ivy(jvm, folder)
        finally:
            jvm.kill()


def first_problem(text: str) -> str:
    """Of Ivy's ``SomeException: [problem, problem, ...]`` the first, and how many there are."""
    _, bracket, inside = text.partition("[")
    if not bracket:
        return text
    first, *others = inside.rstrip("]").split(", ")
    return f"{first} (and {len(others)} more)" if others else first
