"""Administration of the embedded cluster: RPCs to its servers, and RocketMQ's own ``mqadmin``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Final

from rocketmq_spark.embedded.jars import rocketmq_class_path
from rocketmq_spark.embedded.jvm import FOR_ROCKETMQ_4, LOGBACK, QUIET_LOGGING, find_java
from rocketmq_spark.embedded.work_folder import work_folder
from rocketmq_spark.errors import EmbeddedBrokerError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.security import UNSECURED, Credentials, Security

MAIN_CLASS: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
JVM_OPTIONS: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
MQADMIN_TIMEOUT_S: Final = 60
RPC_TIMEOUT_MS: Final = 10_000


@contextmanager
def broker_at(address: str, security: Security = UNSECURED) -> Iterator[Broker]:
    """Yield a client of the broker, which connects on use and waits up to 10 s for a response; close it after the
    block."""
    with closing(ConnectionPool(RPC_TIMEOUT_MS, security=security)) as pool:
        yield Broker(BrokerAddress(address), pool, RPC_TIMEOUT_MS)


@contextmanager
def name_server_at(address: str, security: Security = UNSECURED) -> Iterator[NameServers]:
    """Yield a client of the name server, which connects on use and waits up to 10 s for a response; close it after the
    block."""
    with closing(ConnectionPool(RPC_TIMEOUT_MS, security=security)) as pool:
        yield NameServers([address], pool, RPC_TIMEOUT_MS)


def mqadmin(*arguments: str, version: str | None = None, security: Security = UNSECURED) -> str:
    """Run ``mqadmin`` in a JVM of its own, because it ends its JVM on errors, wait up to 60 s, and return its standard
    output. ``arguments``: its subcommand and options, ``-n`` among them. It signs and encrypts as ``security``
    requires. Missing jars are downloaded first.

    Files that some commands write into the current folder are deleted. Arguments may be secret: they are passed in a
    file, not on a command line, which other users could read. Raises what ``rocketmq_class_path`` and ``find_java`` do;
    after 60 s subprocess.TimeoutExpired is raised.

    Raises
    ------
    EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE]   it reports an exception or wrong usage; the text is its output
    """
    with work_folder("mqadmin") as work:
        home: tuple[str, ...] = (f"-Duser.home={work.path}", f"-Drocketmq.home.dir={work.path}")
        # RocketMQ 4 reads this file regardless of its settings.
        (work.path / "conf").mkdir()
        shutil.copy(LOGBACK, work.path / "conf" / "logback_tools.xml")
        if security.credentials is not None:
            (work.path / "conf" / "tools.yml").write_text(_tools_yml(security.credentials), encoding="utf-8")
        if security.tls is not None:
            home = (*home, "-Dtls.enable=true")
        options = (*JVM_OPTIONS, QUIET_LOGGING, *FOR_ROCKETMQ_4, *home)
        class_path = os.pathsep.join(rocketmq_class_path(version))
        argument_file = work.path / "arguments"
        argument_file.touch(mode=0o600)
        argument_file.write_text(
            _argument_file([*options, "-classpath", class_path, MAIN_CLASS, *arguments]), encoding="utf-8"
        )
        completed = subprocess.run(
            [find_java(), f"@{argument_file}"],
            capture_output=True,
            text=True,
            timeout=MQADMIN_TIMEOUT_S,
            check=False,
            cwd=work.path,
            pass_fds=[work.owner],
        )
    if completed.returncode != 0 or "SubCommandException" in completed.stderr:
        raise EmbeddedBrokerError(
            "EMBEDDED_CLUSTER_INVALID_STATE", problem=f"mqadmin failed: {completed.stderr} {completed.stdout}"
        )
    return completed.stdout


def _argument_file(arguments: Iterable[str]) -> str:
    """Return the text of a file for ``java @file``: each argument quoted, on a line of its own."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for argument in arguments)
    return "\n".join(f'"{argument}"' for argument in quoted)


def _tools_yml(credentials: Credentials) -> str:
    """Return the text of tools.yml, with the credentials of ``mqadmin``. JSON strings are valid YAML."""
    lines = {"accessKey": credentials.access_key, "secretKey": credentials.secret_key.reveal()}
    return "".join(f"{name}: {json.dumps(text)}\n" for name, text in lines.items())
