"""One child JVM, controlled from Python through py4j.

The child ends with this process, because its standard input breaks. It has its own process group: Ctrl-C in a terminal
reaches only Python, and the kernel wakes a paused child when Python has ended.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway
from py4j.protocol import ERROR, REFERENCE_TYPE, Py4JError, Py4JJavaError, get_return_value, is_fatal_error

from rocketmq_spark.errors import EmbeddedBrokerError

MINIMUM_JAVA: Final = 17
START_TIMEOUT_MS: Final = 120_000
END_TIMEOUT_MS: Final = 2_000
POLL_S: Final = 0.01
# For JVMs with RocketMQ: it logs warnings and errors only, to standard error.
LOGBACK: Final = Path(__file__).with_name("logback.xml")
QUIET_LOGGING: Final = f"-Drmq.logback.configurationFile={LOGBACK}"
# RocketMQ 4 uses the unshaded logback, and requires open packages in Java 17 to unmap files.
FOR_ROCKETMQ_4: Final = (
    f"-Dlogback.configurationFile={LOGBACK}",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)
LOG_TAIL_LINES: Final = 20
JAVA_EXCEPTION: Final = ERROR + REFERENCE_TYPE
"""How py4j's response with a Java exception begins."""


def pyspark_jars() -> Path:
    """Return the folder of the jars that PySpark ships, py4j and Ivy among them; without py4j in it, the folder
    ``jars`` of ``$SPARK_HOME``. Do not import PySpark.

    Raises EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if neither folder has py4j.
    """
    spec = importlib.util.find_spec("pyspark")
    package = Path(spec.origin).parent if spec and spec.origin else Path()
    for folder in (package / "jars", Path(os.environ.get("SPARK_HOME", os.devnull)) / "jars"):
        if any(folder.glob("py4j-*.jar")):
            return folder
    raise EmbeddedBrokerError(
        "EMBEDDED_CLUSTER_INVALID_STATE",
        problem="PySpark's jars are missing; install the full 'pyspark' package",
    )


def find_java(environ: Mapping[str, str] = os.environ) -> str:
    """Return ``$JAVA_HOME/bin/java``; only without JAVA_HOME, the ``java`` on the PATH. Do not check its version.
    Raises EmbeddedBrokerError[JAVA_NOT_FOUND] if it is missing there."""
    home = environ.get("JAVA_HOME")
    if home:
        java = shutil.which("java", path=str(Path(home) / "bin"))
        problem = f"JAVA_HOME is {home}, and there is no bin/java in it"
    else:
        java = shutil.which("java", path=environ.get("PATH"))
        problem = "JAVA_HOME is not set, and there is no 'java' on the PATH"
    if java is None:
        raise EmbeddedBrokerError("JAVA_NOT_FOUND", problem=problem)
    return java


class ChildJvm:
    """A child JVM with a py4j gateway.

    The constructor only launches it, so that several can boot at the same time; ``connect`` waits for its gateway. The
    child keeps the file descriptors ``inherited`` open. Threads: any; py4j keeps one connection per concurrent call.
    """

    def __init__(
        self,
        name: str,
        class_path: Sequence[str],
        options: Sequence[str],
        work_dir: Path,
        inherited: Sequence[int] = (),
    ) -> None:
        """Launch the JVM, and do not wait for its gateway. Raises what ``find_java`` does."""
        self.name = name
        self._stdout = work_dir / f"{name}.out"
        self._stderr = work_dir / f"{name}.err"
        self._gateway: JavaGateway | None = None
        self._client: QuietGatewayClient | None = None
        self._is_paused = False
        gateway = ["py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
        command = [find_java(), *options, "-classpath", os.pathsep.join(class_path), *gateway]
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, process_group=0, pass_fds=inherited
            )

    def __repr__(self) -> str:
        return f"ChildJvm({self.name}, pid={self.pid}, {'running' if self.is_running else 'ended'})"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether the JVM's process has not ended; that of a paused JVM has not."""
        return self._process.poll() is None

    def connect(self) -> Any:
        """At the first call, wait up to 120 s for the JVM's gateway and connect to it. Return the JVM's classes as
        attributes, such as ``connect().java.lang.System``. Raises EmbeddedBrokerError[JAVA_NOT_FOUND] if Java is older
        than 17, EmbeddedBrokerError[EMBEDDED_JVM_FAILED] if the JVM ends or prints no address of its gateway."""
        if self._gateway is None:
            self._gateway = self._connect()
        return self._gateway.jvm

    @contextmanager
    def raising_embedded_errors(self) -> Iterator[None]:
        """Convert errors inside the block. A Java exception becomes EmbeddedBrokerError[EMBEDDED_SERVER_FAILED]. For
        another error of py4j or an OSError, wait up to 2 s for the JVM's end, then raise
        EmbeddedBrokerError[EMBEDDED_JVM_FAILED]. Other errors pass. Raises EmbeddedBrokerError."""
        try:
            yield
        except Py4JJavaError as error:
            raise EmbeddedBrokerError("EMBEDDED_SERVER_FAILED", problem=messages_of(error.java_exception)) from error
        except (Py4JError, OSError) as error:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_MS / 1000)  # it may be just ending
            self.check()
            raise self._failed(str(error) or "its gateway does not respond") from error

    def check(self) -> None:
        """Do nothing while the JVM runs. If it has ended, let finalizers of Java objects send it no more calls, and
        raise EmbeddedBrokerError[EMBEDDED_JVM_FAILED]."""
        if not self.is_running:
            self._allow_finalizer_calls(False)
            raise self._failed(describe_exit(self._process.returncode))

    def pause(self) -> None:
        """Stop the running JVM by SIGSTOP; wait until every thread has stopped. Do nothing if it is paused. Connections
        stay open, and the host accepts new ones."""
        if self._is_paused:
            return  # the system reports a stop once: waiting for another one would not end
        self._allow_finalizer_calls(False)
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        self._is_paused = True

    def resume(self) -> None:
        """Continue the running JVM by SIGCONT, after one or more calls of ``pause``. It now responds to the requests
        received meanwhile."""
        os.kill(self.pid, signal.SIGCONT)
        self._is_paused = False
        self._allow_finalizer_calls(True)

    def kill(self) -> None:
        """Kill the JVM by SIGKILL, wait for its end, and close this side's connections. Idempotent."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        if self._client is not None:
            self._client.close()
            self._allow_finalizer_calls(False)

    def _allow_finalizer_calls(self, is_allowed: bool) -> None:
        """Set whether finalizers of Java objects may call the JVM. They run in any thread, from the garbage collector.
        A paused JVM would block this thread for ever, and the port of an ended one may belong to another process. Do
        nothing before ``connect``.
        """
        if self._client is not None:
            self._client.is_connected = is_allowed

    def _connect(self) -> JavaGateway:
        """Wait up to 120 s for the JVM's gateway and return a new connection to it, whose client is kept for ``kill``.
        Raises EmbeddedBrokerError[JAVA_NOT_FOUND] if Java is older than 17, and the errors of
        ``_read_gateway_address``."""
        port, token = self._read_gateway_address()
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        self._client = QuietGatewayClient(gateway_parameters=parameters)
        gateway = JavaGateway(self._client, gateway_parameters=parameters)
        version = str(gateway.jvm.java.lang.System.getProperty("java.specification.version"))
        if int(version.partition(".")[0]) < MINIMUM_JAVA:
            raise EmbeddedBrokerError("JAVA_NOT_FOUND", problem=f"{find_java()} is Java {version}")
        return gateway

    def _read_gateway_address(self) -> tuple[int, str]:
        """Wait up to 120 s until the JVM has printed two whole lines to standard output, the port and the token of
        py4j's gateway, and return both. Raises EmbeddedBrokerError[EMBEDDED_JVM_FAILED] if the JVM ends first, or does
        not print them in time. Raises ValueError if the first line is no number."""
        deadline = time.monotonic() + START_TIMEOUT_MS / 1000
        while (text := self._stdout.read_text(errors="replace")).count("\n") < 2:
            self.check()
            if time.monotonic() > deadline:
                raise self._failed(f"its gateway was not up within {START_TIMEOUT_MS} ms")
            time.sleep(POLL_S)
        port, token = text.splitlines()[:2]
        return int(port), token

    def _failed(self, problem: str) -> EmbeddedBrokerError:
        """Return, not raise, an EmbeddedBrokerError[EMBEDDED_JVM_FAILED] with ``problem`` and ``log_tail``."""
        return EmbeddedBrokerError("EMBEDDED_JVM_FAILED", problem=problem, log_tail=self.log_tail())

    def log_tail(self) -> str:
        """Return the last LOG_TAIL_LINES (20) lines of its standard error; "" if it wrote nothing."""
        return "\n".join(self._stderr.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


def describe_exit(returncode: int) -> str:
    """Return a text for the return code of Java's process: its exit code or, if negative, the name or number of the
    signal that ended Java. SIGKILL is explained by a lack of memory."""
    if returncode >= 0:
        return f"Java ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"Java was ended by signal {-returncode}"
    suffix = ", as the system does when memory runs out" if name == "SIGKILL" else ""
    return f"Java was ended by {name}{suffix}"


def messages_of(java_exception: Any) -> str:
    """Return the messages of the exception and of its causes, outermost first, joined by ": ". The class name replaces
    a missing message. A message that is part of the one before it is left out."""
    texts: list[str] = []
    while java_exception is not None:
        text = str(java_exception.getMessage() or java_exception.getClass().getSimpleName())
        if not texts or text not in texts[-1]:
            texts.append(text)
        java_exception = java_exception.getCause()
    return ": ".join(texts)


class QuietGatewayClient(GatewayClient):  # type: ignore[misc]  # py4j has no types
    """Gateway client without retry. It raises errors without logging them, and itself raises Java's exceptions.
    Threads: any, each with its own connection.

    py4j's own client retries once if the JVM has ended, and logs a traceback for each attempt, also by the root logger.
    Its caller raises Java's exceptions, by a function that PySpark replaces. After that, Spark's JVM gets requests
    about each exception, by the number of an object in this JVM.
    """

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """Send a command, wait for Java's response without a limit, and return it. With ``binary`` return it in a pair
        with a guard that owns the connection; without, the connection is reused. ``retry`` is ignored. The connection
        is closed after an error, and after a fatal response of py4j, which is returned without a guard. Raises the
        errors of ``GatewayConnection.send_command`` and, without ``binary``, Py4JJavaError for a Java exception."""
        connection = self._get_connection()
        with ExitStack() as close_on_failure:
            close_on_failure.callback(connection.close, False)
            response = connection.send_command(command)
            if is_fatal_error(response):
                return response
            close_on_failure.pop_all()
        if binary:
            return response, self._create_connection_guard(connection)
        self._give_back_connection(connection)
        if response.startswith(JAVA_EXCEPTION):
            get_return_value(response, self)
        return response
