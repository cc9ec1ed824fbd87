"""The option ``--namesrv`` of the commands that speak to a cluster that is running."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.options.connection import name_servers
from rocketmq_spark.remoting.broker import Broker
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.pool import ConnectionPool

USUAL_ADDRESS: Final = "127.0.0.1:9876"
TIMEOUT_MS: Final = 5_000


def add_namesrv(parser: argparse.ArgumentParser) -> None:
    """``--namesrv``, by default what RocketMQ's own tools take: NAMESRV_ADDR, and else the usual port here."""
    parser.add_argument(
        "--namesrv",
        default=os.environ.get("NAMESRV_ADDR", USUAL_ADDRESS),
        metavar="HOST:PORT",
        help=f"of the name server, several separated by semicolons (default: $NAMESRV_ADDR, else {USUAL_ADDRESS})",
    )


@dataclass(frozen=True, slots=True)
class Cluster:
    """Name servers and whatever brokers they know, on connections of their own."""

    name_servers: NameServers
    pool: ConnectionPool

    def broker(self, address: str) -> Broker:
        return Broker(address, self.pool, TIMEOUT_MS)


@contextmanager
def cluster_at(namesrv_addr: str) -> Iterator[Cluster]:
    """For as long as the block runs. Raises OptionError for what is no address."""
    addresses = name_servers(namesrv_addr)
    with closing(ConnectionPool(TIMEOUT_MS)) as pool:
        yield Cluster(NameServers(addresses, pool, TIMEOUT_MS), pool)
