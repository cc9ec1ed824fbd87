"""Java programs that tests and the benchmark bring along: compiled once, each in a child JVM of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connector_tests.support.timeouts import PROCESS_S
from rocketmq_spark.embedded.jars import hold_file_lock
from rocketmq_spark.embedded.jvm import QUIET_LOGGING, ChildJvm, find_java

COMPILE_TIMEOUT_S: Final = PROCESS_S
CLASSES: Final = Path(__file__).parents[2] / "build" / "java"


@contextmanager
def java_program(
    name: str, sources: Iterable[Path], class_path: Sequence[str], options: Sequence[str]
) -> Iterator[ChildJvm]:
    """A JVM with ``options`` and the compiled ``sources``, as long as the block runs."""
    classes = compiled(sorted(sources), class_path)
    with TemporaryDirectory(prefix=f"java-{name}-") as folder:
        files = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}", QUIET_LOGGING)
        jvm = ChildJvm(name, [str(classes), *class_path], (*options, *files), Path(folder))
        try:
            with jvm.raising_embedded_errors():
                yield jvm
        finally:
            jvm.kill()


def compiled(sources: Sequence[Path], class_path: Sequence[str]) -> Path:
    """The folder of their class files, which whoever is the first to need them makes, and all runs keep.

    Raises FileNotFoundError without a JDK, RuntimeError with what javac states.
    """
    compiler = find_javac()
    digest = hashlib.sha256("\n".join([compiler, *class_path]).encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = CLASSES / digest.hexdigest()
    CLASSES.mkdir(parents=True, exist_ok=True)
    with hold_file_lock(CLASSES / "compiling"):
        if not folder.exists():
            with TemporaryDirectory(dir=CLASSES) as unfinished:
                compile_java(compiler, sources, class_path, Path(unfinished, "classes"))
                Path(unfinished, "classes").rename(folder)
    return folder


def find_javac() -> str:
    compiler = shutil.which("javac", path=str(Path(find_java()).parent)) or shutil.which("javac")
    if compiler is None:
        raise FileNotFoundError("there is no 'javac' beside 'java' or on the PATH: this program needs a JDK")
    return str(Path(compiler).resolve())


def compile_java(compiler: str, sources: Iterable[Path], class_path: Sequence[str], into: Path) -> None:
    """Make class files in ``into``. Raises RuntimeError with what javac states."""
    command = [compiler, "-nowarn", "-d", str(into), "-classpath", os.pathsep.join(class_path), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
