"""What a test module leaves behind in this process, among its children and in the folder for temporary files.

A resource that a session-wide fixture made stays until the end of the session; everything else has to be gone a moment
after the module that made it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.resource_tracker import _resource_tracker
from pathlib import Path
from traceback import format_stack
from typing import Any, ClassVar

import psutil

from connector_tests.support.timeouts import WAIT_S

GRACE_S = WAIT_S
POLL_S = 0.05
OUR_THREADS = ("rocketmq-", "fault-proxy", "hostile-", "scripted-broker")
OUR_FOLDERS = "rocketmq-*"
AS_LONG_AS_PYTHON = ("org.apache.spark.deploy.SparkSubmit", "multiprocessing.resource_tracker")
DESCRIPTORS = Path("/proc/self/fd")
OF_GRPC = "anon_inode:[eventfd]"
"""What gRPC's threads wake each other with, opened and closed as the library likes. Nobody else here has one."""

SOURCE_RUNNER = "python_streaming_source_runner"


class LeakCheck:
    """Compares what is there with what was there, and with what belongs to the session or to the process."""

    _of_process: ClassVar[set[str]] = set()

    def __init__(self) -> None:
        self._of_session: set[str] = set()

    @contextmanager
    def by_session(self) -> Iterator[None]:
        """What the block makes may stay until the end of the session."""
        before = resources()
        yield
        self._of_session |= resources() - before

    @classmethod
    @contextmanager
    def by_process(cls) -> Iterator[None]:
        """What the block makes stays until this process ends: a library keeps it for its next use."""
        before = resources()
        yield
        cls._of_process |= resources() - before

    @contextmanager
    def nothing_left(self, grace_s: float = GRACE_S) -> Iterator[None]:
        """AssertionError that names what the block made and what is still there some time after it."""
        before = resources()
        yield
        deadline = time.monotonic() + grace_s
        while left := resources() - before - self._of_session - self._of_process:
            assert time.monotonic() < deadline, "left behind: " + "; ".join(sorted(left)) + _where_threads_are()
            time.sleep(POLL_S)


def resources() -> set[str]:
    """A line for each thing that somebody has to end, close or remove."""
    me = psutil.Process()
    children = me.children(recursive=True)
    connections = [one for one in me.net_connections("tcp") if one.raddr]
    return {
        *_threads(),
        *_processes(children),
        *_sockets(connections, children),
        *_descriptors({one.fd for one in connections}),
        *_folders(),
    }


def _threads() -> Iterator[str]:
    for thread in threading.enumerate():
        if thread.name.startswith(OUR_THREADS):
            yield f"thread {thread.name} ({thread.ident})"


def _where_threads_are() -> str:
    """Their innermost calls, for whoever has to find out why one stays."""
    frames = sys._current_frames()
    ours = (one for one in threading.enumerate() if one.name.startswith(OUR_THREADS) and one.ident in frames)
    return "".join(f"\n{one.name}:\n{''.join(format_stack(frames[one.ident])[-4:])}" for one in ours if one.ident)


def _processes(children: Iterable[psutil.Process]) -> Iterator[str]:
    """Our own children but those that live as long as this process, and the source runners among Spark's."""
    for child in children:
        with suppress(psutil.NoSuchProcess):  # a zombie is one, too
            command = " ".join(child.cmdline())
            is_ours = child.ppid() == os.getpid() and not any(name in command for name in AS_LONG_AS_PYTHON)
            if is_ours or SOURCE_RUNNER in command:
                yield f"process {child.pid} {command[:200]}"


def _sockets(connections: Sequence[Any], children: Iterable[psutil.Process]) -> Iterator[str]:
    """Connections of this process, but those with its children: py4j keeps them as it likes."""
    of_children = {port for child in children for port in _ports(child)} if connections else set()
    for one in connections:
        if one.raddr.port not in of_children:
            ends = f"{one.laddr.ip}:{one.laddr.port} to {one.raddr.ip}:{one.raddr.port}"
            yield f"socket {one.fd} from {ends} {one.status}"


def _descriptors(connections: set[int]) -> Iterator[str]:
    """What else is open: files, pipes, selectors, and sockets that listen or lead nowhere."""
    ignored = connections | {vars(_resource_tracker)["_fd"]} | _descriptors_of_pyspark()
    for descriptor in DESCRIPTORS.iterdir():
        if int(descriptor.name) not in ignored:
            with suppress(FileNotFoundError):  # that of the listing itself
                target = str(descriptor.readlink())
                if target != OF_GRPC:
                    yield f"descriptor {descriptor.name} of {target}"


def _descriptors_of_pyspark() -> set[int]:
    """Its JVM's standard input and the socket that the JVM calls back at, which live as long as this process."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    gateway = context and context._gateway
    if not gateway:
        return set()
    callbacks = gateway.get_callback_server()
    return {gateway.proc.stdin.fileno(), *([callbacks.server_socket.fileno()] if callbacks else [])}


def _ports(process: psutil.Process) -> Iterator[int]:
    with suppress(psutil.NoSuchProcess):
        yield from (one.laddr.port for one in process.net_connections("tcp"))


def _folders() -> Iterator[str]:
    for folder in Path(tempfile.gettempdir()).glob(OUR_FOLDERS):
        yield f"folder {folder}"
