"""Options of whoever talks to a cluster, whatever for."""

from __future__ import annotations

from dataclasses import dataclass

from rocketmq_spark.options.kinds import ADDRESSES, integer
from rocketmq_spark.options.table import Section, option, rows


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Where a cluster is, and how long it may take. Times are milliseconds."""

    name_servers: tuple[str, ...] = option(
        "namesrvAddr",
        ADDRESSES,
        section=Section.CONNECTION,
        essential=True,
        aliases=("nameServer",),
        required=True,
        doc="Name servers, `host:port` separated by `;`. One that does not answer is passed over for the next.",
    )
    broker_timeout_ms: int = option(
        "brokerTimeoutMs",
        integer(100, 600_000),
        section=Section.CONNECTION,
        default="3000",
        doc="How long one request waits for its answer. A request that can be repeated is, up to `clusterTimeoutMs`.",
    )
    cluster_timeout_ms: int = option(
        "clusterTimeoutMs",
        integer(0),
        section=Section.CONNECTION,
        essential=True,
        default="300000",
        doc="How long a query goes on retrying a cluster that cannot be reached before it fails.",
    )


def name_servers(namesrv_addr: str) -> tuple[str, ...]:
    """The addresses in a text as the option ``namesrvAddr`` takes it, for who has no other option. Raises
    OptionError."""
    row = next(row for attribute, row in rows(ConnectionOptions) if attribute == "name_servers")
    return tuple(row.parse(namesrv_addr))
