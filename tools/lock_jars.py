"""Write a lock of rocketmq_spark/embedded/locks anew: ``python tools/lock_jars.py 5.5.0``.

Resolves what the name server, the broker and the admin tools need, leaves out what no embedded broker loads, resolves
the rest once more by exact coordinates, as users do, and writes down sizes and sums. It takes the sums on trust: look
at the difference before you commit it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rocketmq_spark.embedded.ivy import open_ivy
from rocketmq_spark.embedded.jars import Jar, format_lock, lock_file, sha256_of

MODULES = ("namesrv", "broker", "tools", "client")
# An artifact ends where a dash is followed by a digit.
FILE_NAME = re.compile(r"(?P<group>[^_]+)_(?P<artifact>.+?)-(?P<version>\d.*)\.jar")
LEFT_OUT = (
    # Native code that Netty does without, and protocols that RocketMQ does not speak.
    r".*-(linux|osx)-.*",
    r"io\.netty_netty-(resolver-dns.*|transport-(classes-kqueue|native-(epoll|kqueue)|rxtx|sctp|udt))-.*",
    r"io\.netty_netty-(codec-(dns|http2|memcache|mqtt|redis|smtp|stomp|xml)|handler-ssl-ocsp)-.*",
    # Used by the proxy, by the controller's Raft, and by tests.
    r"io\.grpc_grpc-(core|netty-shaded)-.*|io\.perfmark_.*|com\.google\.android_.*",
    r"com\.alipay\.sofa.*|com\.lmax_.*|io\.dropwizard\.metrics_.*|org\.jctools_.*",
    r"org\.awaitility_.*|org\.hamcrest_.*",
    # Annotations.
    r"com\.google\.(code\.findbugs|errorprone|j2objc)_.*|org\.(checkerframework|codehaus\.mojo|jetbrains)_.*",
    r"org\.apache\.tomcat_annotations-api-.*",
)
# Netty is in it as a whole, or, as newer ones are, in others, and it is empty.
EMPTY_JAR_BYTES = 100_000
HEADER = """\
# The jars of the embedded broker: SHA-256, size in bytes, coordinate. Written by tools/lock_jars.py.
"""


def coordinate_of(file: Path) -> str:
    """The coordinate behind a name that Ivy gave."""
    match = FILE_NAME.fullmatch(file.name)
    if match is None:
        raise ValueError(f"unexpected name: {file.name}")
    return ":".join(match.group("group", "artifact", "version"))


def is_needed(file: Path) -> bool:
    """Whether an embedded broker, a client or mqadmin may load something from it."""
    if file.name.startswith("io.netty_netty-all-"):
        return file.stat().st_size > EMPTY_JAR_BYTES
    return not any(re.fullmatch(pattern, file.name) for pattern in LEFT_OUT)


def main(version: str) -> None:
    """Lock RocketMQ ``version``."""
    roots = [f"org.apache.rocketmq:rocketmq-{module}:{version}" for module in MODULES]
    with TemporaryDirectory() as folder, open_ivy(Path(folder)) as ivy:
        found = ivy.resolve(roots, transitive=True)
        coordinates = [coordinate_of(file) for file in found if is_needed(file)]
        files = ivy.resolve(coordinates)
        jars = [Jar(coordinate_of(file), sha256_of(file), file.stat().st_size) for file in files]
        lock_file(version).write_text(HEADER + format_lock(jars), encoding="utf-8")
    print(f"{len(jars)} of {len(found)} jars, {sum(jar.size_bytes for jar in jars) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
