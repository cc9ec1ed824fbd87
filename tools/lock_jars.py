"""Write a lock of rocketmq_spark/embedded/locks again: ``python tools/lock_jars.py 5.5.0``.

Resolves what the name server, the broker and the admin tools need, leaves out what no embedded broker loads, resolves
the rest once more by exact coordinates, as users do, and writes down sizes and sums. What a proxy needs beside them
gets a lock of its own: few want one. It does not verify the sums: check the difference before you commit it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rocketmq_spark.embedded.jars import (
    PROXY_VERSIONS,
    Ivy,
    Jar,
    format_lock,
    lock_file,
    open_ivy,
    proxy_lock_file,
    sha256_of,
)

MODULES = ("namesrv", "broker", "tools", "client")
# An artifact ends where a dash is followed by a digit.
FILE_NAME = re.compile(r"(?P<group>[^_]+)_(?P<artifact>.+?)-(?P<version>\d.*)\.jar")
EXCLUDED = (
    # Native code that Netty does without, and protocols that RocketMQ does not use.
    r".*-(linux|osx)-.*",
    r"io\.netty_netty-(resolver-dns.*|transport-(classes-kqueue|native-(epoll|kqueue)|rxtx|sctp|udt))-.*",
    r"io\.netty_netty-(codec-(dns|http2|memcache|mqtt|redis|smtp|stomp|xml)|handler-ssl-ocsp)-.*",
    r"io\.netty_netty-tcnative-.*",
    # Used by the controller's other Raft, and by tests. The first one writes with Hessian.
    r"com\.google\.android_.*",
    r"com\.alipay\.sofa(?!_hessian-).*|com\.lmax_.*|io\.dropwizard\.metrics_.*|org\.jctools_.*",
    r"org\.awaitility_.*|org\.hamcrest_.*",
    # Annotations.
    r"com\.google\.(code\.findbugs|errorprone|j2objc)_.*|org\.(checkerframework|codehaus\.mojo|jetbrains)_.*",
    r"org\.apache\.tomcat_annotations-api-.*",
)
ONLY_PROXIES_LOAD = r"io\.grpc:grpc-(core|netty-shaded):.*|io\.perfmark:.*"
# Netty is in it as a whole, or, as newer ones are, in other jars, and it is empty.
EMPTY_JAR_BYTES = 100_000
HEADER = "# The jars of the embedded {}: SHA-256, size in bytes, coordinate. Written by tools/lock_jars.py.\n"


def coordinate_of(file: Path) -> str:
    """The coordinate behind a name that Ivy gave."""
    match = FILE_NAME.fullmatch(file.name)
    if match is None:
        raise ValueError(f"unexpected name: {file.name}")
    return ":".join(match.group("group", "artifact", "version"))


def is_needed(file: Path) -> bool:
    """Whether an embedded broker or proxy, a client or mqadmin may load something from it."""
    if file.name.startswith("io.netty_netty-all-"):
        return file.stat().st_size > EMPTY_JAR_BYTES
    return not any(re.fullmatch(pattern, file.name) for pattern in EXCLUDED)


def needed(ivy: Ivy, version: str, modules: Iterable[str]) -> list[str]:
    """Coordinates of what these modules of RocketMQ need, and of themselves."""
    roots = [f"org.apache.rocketmq:rocketmq-{module}:{version}" for module in modules]
    return [coordinate_of(file) for file in ivy.resolve(roots, transitive=True) if is_needed(file)]


def write_lock(ivy: Ivy, coordinates: Sequence[str], lock: Path, of: str) -> None:
    """Lock these, and nothing that they need."""
    files = ivy.resolve(coordinates)
    jars = [Jar(coordinate_of(file), sha256_of(file), file.stat().st_size) for file in files]
    lock.write_text(HEADER.format(of) + format_lock(jars), encoding="utf-8")
    print(f"{lock.name}: {len(jars)} jars, {sum(jar.size_bytes for jar in jars) / 1e6:.0f} MB")


def main(version: str) -> None:
    """Lock RocketMQ ``version``."""
    with TemporaryDirectory() as folder, open_ivy(Path(folder)) as ivy:
        found = needed(ivy, version, MODULES)
        brokers = [one for one in found if not re.fullmatch(ONLY_PROXIES_LOAD, one)]
        write_lock(ivy, brokers, lock_file(version), "broker")
        if version in PROXY_VERSIONS:
            with_proxy = needed(ivy, version, (*MODULES, "proxy"))
            write_lock(ivy, sorted({*with_proxy} - {*brokers}), proxy_lock_file(version), "proxy, beside a broker's")


if __name__ == "__main__":
    main(*sys.argv[1:])
