"""Which server of a broker a request is sent to: its master, or one of its slaves. Pure.

A *master* is id 0, unless a slave acts as one (``BrokerData.is_acting``). A slave has what it has replicated: it may
lack the last messages, and has older offsets of the group. So it can be read, and proves no loss; and nothing is
written there: it would confirm offsets, grant locks and deliver popped messages without the master. A member whose
``readFrom`` is not ``master`` treats a master that does not respond as missing (``consumer.slave_reads``).

    request                      readFrom   with a master                 without a master
    pull                         any        by ``ServerKind``             by ``ServerKind``
    bounds, search, query of     master     master                        none
    offsets and of members       else       master                        slave with the lowest id
    commit, lock, pop, ack,      any        master                        none
    send, creation of a topic

Source: ``client/impl/consumer/PullAPIWrapper.java#recalculatePullFromWhichNode``. Differs: with ``slave`` and
``master`` the broker's suggestion has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_spark.model import MASTER_ID, BrokerAddress, BrokerData

FROM_MASTER: Final = "master"
FROM_SLAVE: Final = "slave"
AUTO: Final = "auto"


class ServerKind(Enum):
    """Server of a broker to pull a range from. Responses change only a suggested one, by their suggestions."""

    ONLY_MASTER = "the master, because a slave may lack messages; no other server replaces it"
    SUGGESTED_MASTER = "the master, until a response suggests a slave; without a master, the slave with the lowest ID"
    SUGGESTED_SLAVE = "the slave that the last response suggested; if it is not in the route, as SUGGESTED_MASTER"
    ANY_SLAVE = "the slave with the lowest ID; without a slave, the master"
    ANY_MASTER = "the master, because a slave has failed; without a master, the slave with the lowest ID"


class Server(NamedTuple):
    """Server of a broker to pull from. ``suggested_id``: broker ID of a suggested one, else without a meaning."""

    kind: ServerKind
    suggested_id: int = MASTER_ID


MASTER: Final = Server(ServerKind.ONLY_MASTER)

FIRST_SERVERS: Final[Mapping[str, Server]] = MappingProxyType(
    {FROM_MASTER: MASTER, FROM_SLAVE: Server(ServerKind.ANY_SLAVE), AUTO: Server(ServerKind.SUGGESTED_MASTER)}
)
"""Server of the first pulls of a range, by the option ``readFrom``."""


def pull_address(broker: BrokerData, server: Server) -> BrokerAddress | None:
    """Return the address of ``server`` in the broker's entry of the route (``ServerKind``), or None without one."""
    slave, master = next(iter(broker.slave_addresses.values()), None), broker.master_address
    if server.kind is ServerKind.ONLY_MASTER:
        return master
    if server.kind is ServerKind.ANY_SLAVE or master is None:
        return slave or master
    return broker.slave_addresses.get(server.suggested_id, master)
