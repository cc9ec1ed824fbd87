"""The JVMs of a cluster's servers: which server runs in which one, and their end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Final

from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import FOR_ROCKETMQ_4, QUIET_LOGGING, ChildJvm
from rocketmq_spark.embedded.work_folder import WorkFolder
from rocketmq_spark.errors import EmbeddedBrokerError

SHARED_JVM: Final = "rocketmq"
NAME_SERVER_JVM: Final = "namesrv"
PROXY_JVM: Final = "proxy"


class ServerJvms:
    """One JVM for all servers or, with ``separate``, one for each; a proxy always has its own.

    They work in ``folder``, and end with ``resources``.
    """

    def __init__(
        self,
        version: str | None,
        folder: WorkFolder,
        resources: ExitStack,
        java_options: Sequence[str],
        *,
        separate: bool,
    ) -> None:
        self.java_options = [*java_options]
        self._version = version
        self._folder = folder
        self._resources = resources
        self._separate = separate
        self._jvms: dict[str, ChildJvm] = {}

    @cached_property
    def class_path(self) -> list[str]:
        """Return the class path of brokers and name servers. The first access verifies or downloads the jars, waits and
        raises errors, as ``rocketmq_class_path`` does."""
        return rocketmq_class_path(self._version)

    def launch(self, server: str) -> None:
        """Launch the JVM of ``server`` unless it is running; do not wait until it responds, and start no server in it.
        ``server``: name of a broker server, NAME_SERVER_JVM or PROXY_JVM. Closing ``resources`` kills the JVM. Missing
        jars are downloaded first. Raises what ``rocketmq_class_path`` and ``find_java`` do."""
        name = self._name(server)
        if name in self._jvms and self._jvms[name].is_running:
            return
        class_path = rocketmq_class_path(self._version, proxy=True) if name == PROXY_JVM else self.class_path
        home = self._folder.path / f"jvm-{name}"
        home.mkdir(exist_ok=True)
        files = (f"-Duser.home={home}", f"-Djava.io.tmpdir={home}", QUIET_LOGGING, *FOR_ROCKETMQ_4)
        jvm = ChildJvm(name, class_path, (*self.java_options, *files), home, [self._folder.owner])
        self._resources.callback(jvm.kill)
        self._jvms[name] = jvm

    def launch_jvm(self, server: str) -> ChildJvm:
        """Launch the server's JVM unless it is running, as ``launch`` does, and return it, new or not. May download
        jars; does not wait until the JVM responds."""
        self.launch(server)
        return self._jvms[self._name(server)]

    def dedicated_jvm(self, server: str) -> ChildJvm:
        """Return the JVM in which only this server runs; it may have ended. Raises
        EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if the server runs in the shared JVM, and KeyError if its
        JVM was never launched."""
        name = self._name(server)
        if name == SHARED_JVM:
            raise EmbeddedBrokerError(
                "EMBEDDED_CLUSTER_INVALID_STATE",
                problem=f"{server} has no JVM of its own; pass separate_jvms=True",
            )
        return self._jvms[name]

    def check(self) -> None:
        """Raise EmbeddedBrokerError[EMBEDDED_JVM_FAILED] if a JVM has ended, or was killed and not launched again."""
        for jvm in self._jvms.values():
            jvm.check()

    def pause(self) -> None:
        """Stop all running JVMs by SIGSTOP; wait until all threads of each have stopped."""
        for jvm in self._running():
            jvm.pause()

    def resume(self) -> None:
        """Continue all JVMs that have not ended by SIGCONT, after ``pause``."""
        for jvm in self._running():
            jvm.resume()

    def _running(self) -> list[ChildJvm]:
        """Return the JVMs that have not ended, also paused ones, in the order of their first launches."""
        return [jvm for jvm in self._jvms.values() if jvm.is_running]

    def _name(self, server: str) -> str:
        """Return the name of the server's JVM: ``server``, or SHARED_JVM for one that has no JVM of its own."""
        return server if self._separate or server == PROXY_JVM else SHARED_JVM
