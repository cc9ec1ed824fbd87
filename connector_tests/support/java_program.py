"""Java programs that tests and the benchmark bring along: compiled when they run, each in a child JVM of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded.jvm import QUIET_LOGGING, ChildJvm, find_java

COMPILE_TIMEOUT_S: Final = PROCESS_S


@contextmanager
def java_program(
    name: str, sources: Iterable[Path], class_path: Sequence[str], options: Sequence[str]
) -> Iterator[ChildJvm]:
    """A JVM with ``options`` and the compiled ``sources``, as long as the block runs."""
    with TemporaryDirectory(prefix=f"java-{name}-") as folder:
        compile_java(sources, class_path, Path(folder))
        files = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}", QUIET_LOGGING)
        jvm = ChildJvm(name, [folder, *class_path], (*options, *files), Path(folder))
        try:
            with jvm.raising_embedded_errors():
                yield jvm
        finally:
            jvm.kill()


def compile_java(sources: Iterable[Path], class_path: Sequence[str], into: Path) -> None:
    """Make class files in ``into``. Raises FileNotFoundError without a JDK, RuntimeError with what javac states."""
    compiler = shutil.which("javac", path=str(Path(find_java()).parent)) or shutil.which("javac")
    if compiler is None:
        raise FileNotFoundError("there is no 'javac' beside 'java' or on the PATH: this program needs a JDK")
    command = [compiler, "-nowarn", "-d", str(into), "-classpath", os.pathsep.join(class_path), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
