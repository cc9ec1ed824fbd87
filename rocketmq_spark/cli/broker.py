"""``rocketmq-spark broker``: runs a real Apache RocketMQ in the foreground, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from rocketmq_spark.cli.arguments import integer_argument, properties
from rocketmq_spark.cli.topic import DEFAULT_QUEUES, MAX_QUEUES
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.jars import DEFAULT_VERSION, VERSIONS
from rocketmq_spark.embedded.replication import FAILOVERS
from rocketmq_spark.model import MAX_PORT

DEFAULT_PORT: Final = 9876
POLL_S: Final = 0.2


def main(argv: Sequence[str]) -> int:
    """Start a cluster, create the topics, print the addresses, and run until Ctrl-C or SIGTERM; then return 0. In all
    cases end all servers first, with ``--store`` after a clean shutdown. Raises EmbeddedBrokerError,
    [EMBEDDED_JVM_FAILED] if a server's process ends by itself, and BrokerError for a topic that the broker rejects.
    Wrong arguments raise SystemExit."""
    arguments = new_parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    cluster = EmbeddedCluster(
        arguments.brokers,
        replicas=arguments.replicas,
        failover=arguments.failover,
        broker_config=arguments.conf,
        store_dir=arguments.store,
        namesrv_port=arguments.port,
        version=arguments.version,
        acl=arguments.acl,
        tls=arguments.tls,
        proxy=arguments.proxy,
    )
    try:
        print(f"starting Apache RocketMQ {arguments.version or DEFAULT_VERSION} ...", file=sys.stderr, flush=True)
        cluster.start()
        for name, queues in arguments.topic:
            cluster.create_topic(name, queues)
        announce(cluster, has_proxy=arguments.proxy)
        while True:
            cluster.check()
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        return 0
    finally:
        # A store that is kept justifies the seconds of a clean shutdown.
        cluster.close(clean=arguments.store is not None)


def announce(cluster: EmbeddedCluster, *, has_proxy: bool) -> None:
    """Print the addresses of all servers and the connection options, secrets in plain text, to standard output; scripts
    parse the first line."""
    print(f"name server: {cluster.namesrv_addr}")
    for broker_name in cluster.broker_names:
        for name in cluster.server_names(broker_name):
            print(f"{name}: {cluster.advertised_addr(name)}")
    if has_proxy:
        print(f"proxy, gRPC: {cluster.endpoints}")
        print(f"proxy, remoting: {cluster.proxy_addr}")
    if cluster.security_options:
        print("connection options, for a query or for a file of --options:")
    for name, value in cluster.security_options.items():
        print(f"{name}={value}")
    print("Ctrl-C stops it.", flush=True)


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark broker", description="Run a real Apache RocketMQ in the foreground, until Ctrl-C."
    )
    parser.add_argument(
        "--port",
        type=integer_argument(0, MAX_PORT),
        default=DEFAULT_PORT,
        metavar="N",
        help="port of the name server; 0 selects a free port (default: %(default)s)",
    )
    _add_server_options(parser)
    parser.add_argument(
        "--conf",
        type=properties,
        default={},
        metavar="FILE",
        help="broker.conf for all brokers; see conf/broker.conf",
    )
    parser.add_argument(
        "--version",
        choices=VERSIONS,
        metavar="V",
        help=f"version of RocketMQ: {', '.join(VERSIONS)} (default: {DEFAULT_VERSION})",
    )
    parser.add_argument("--acl", action="store_true", help="require authentication; prints the generated keys")
    parser.add_argument("--tls", action="store_true", help="require TLS; prints the path of the certificate")
    parser.add_argument("--proxy", action="store_true", help="start a proxy too, for gRPC and for remoting")
    parser.add_argument(
        "--store", type=Path, help="keep the data in this folder (default: a temporary folder, deleted at the end)"
    )
    parser.add_argument(
        "--topic",
        type=topic_and_queues,
        action="append",
        default=[],
        metavar="NAME[:QUEUES]",
        help=f"create this topic, with {DEFAULT_QUEUES} queues by default",
    )
    return parser


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--brokers``, ``--replicas`` and ``--failover`` to ``parser``: how many servers run, and what replaces a
    master."""
    parser.add_argument(
        "--brokers",
        type=integer_argument(1, 9),
        default=1,
        metavar="N",
        help="number of brokers (default: %(default)s)",
    )
    parser.add_argument(
        "--replicas",
        type=integer_argument(1, 5),
        default=1,
        metavar="N",
        help="servers of each broker, a master and its slaves, each in its own JVM (default: %(default)s)",
    )
    parser.add_argument(
        "--failover",
        choices=FAILOVERS,
        default=FAILOVERS[0],
        help="what replaces a master that ends: a replica that a controller elects, a slave that serves reads as the "
        "acting master, or nothing (default: %(default)s)",
    )


def topic_and_queues(text: str) -> tuple[str, int]:
    """Parse ``NAME``, with DEFAULT_QUEUES (4), or ``NAME:QUEUES``. QUEUES that are empty, or no number from 1 to
    MAX_QUEUES (1,000), raise argparse.ArgumentTypeError; NAME is not checked."""
    name, colon, queues = text.partition(":")
    return name, integer_argument(1, MAX_QUEUES)(queues) if colon else DEFAULT_QUEUES


def _interrupt(_signal: int, _frame: object) -> NoReturn:
    """Handle SIGTERM as Ctrl-C: raise KeyboardInterrupt."""
    raise KeyboardInterrupt
