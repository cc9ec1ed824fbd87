"""Java programs of the benchmark: compiled when it runs, each in a child JVM of its own.

Python calls them once for each run; whatever is repeated is a loop in Java.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rocketmq_spark.embedded.jvm import QUIET_LOGGING, ChildJvm, find_java

SOURCES: Final = Path(__file__).with_name("java")
COMPILE_TIMEOUT_S: Final = 120
CLIENT_JVM: Final = ("-Xms512m", "-Xmx1g", "-XX:+UseG1GC")


@contextmanager
def java_program(name: str, sources: Sequence[str], class_path: Sequence[str]) -> Iterator[ChildJvm]:
    """A JVM with the compiled ``sources`` (file names in ``java/``), as long as the block runs."""
    with TemporaryDirectory(prefix=f"benchmark-{name}-") as folder:
        compile_java([SOURCES / source for source in sources], class_path, Path(folder))
        files = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}", QUIET_LOGGING)
        jvm = ChildJvm(name, [folder, *class_path], (*CLIENT_JVM, *files), Path(folder))
        try:
            with jvm.failing_clearly():
                yield jvm
        finally:
            jvm.kill()


def compile_java(sources: Sequence[Path], class_path: Sequence[str], into: Path) -> None:
    """Make class files in ``into``. Raises FileNotFoundError without a JDK, RuntimeError with what javac says."""
    compiler = shutil.which("javac", path=str(Path(find_java()).parent)) or shutil.which("javac")
    if compiler is None:
        raise FileNotFoundError("there is no 'javac' beside 'java' or on the PATH: the Java peers need a JDK")
    command = [compiler, "-nowarn", "-d", str(into), "-classpath", os.pathsep.join(class_path), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
