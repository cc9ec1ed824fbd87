"""Which server of a broker a request is sent to: its master, or one of its slaves. Pure.

A *master* is id 0, unless a slave acts as one (``BrokerData.is_acting``). A slave has what it has replicated: it may
lack the last messages, and has older offsets of the group. So it can be read, and proves no loss; and nothing is
written there: it would confirm offsets, grant locks and deliver popped messages without the master. A member whose
``readFrom`` is not ``master`` treats a master that does not respond as missing (``consumer.slave_reads``).

    request                      readFrom   with a master                 without a master
    pull                         master     master                        none
                                 slave      slave with the lowest id,     slave with the lowest id
                                            without a slave, or after it
                                            has failed, the master
                                 auto       the server that the broker    slave with the lowest id
                                            suggested, else the master
    pull of offsets that a       any        master                        none
    slave lacks
    bounds, search, query of     master     master                        none
    offsets and of members       else       master                        slave with the lowest id
    commit, lock, pop, ack,      any        master                        none
    send, creation of a topic

Source: ``client/impl/consumer/PullAPIWrapper.java#recalculatePullFromWhichNode``. Differs: with ``slave`` and
``master`` the broker's suggestion has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.model import MASTER_ID, BrokerAddress, BrokerData

FROM_MASTER: Final = "master"
FROM_SLAVE: Final = "slave"
AUTO: Final = "auto"

ANY_SLAVE: Final = -1
"""Instead of a broker ID that a broker suggests, also after the master has failed: the slave with the lowest ID."""

ANY_MASTER: Final = -2
"""Instead of a broker ID that a broker suggests, after a slave has failed: the master."""

FIRST_SUGGESTED_IDS: Final[Mapping[str, int | None]] = MappingProxyType(
    {FROM_MASTER: None, FROM_SLAVE: ANY_SLAVE, AUTO: MASTER_ID}
)
"""``suggested_id`` of the first pulls of a range, by the option ``readFrom``."""


def pull_address(broker: BrokerData, read_from: str, suggested_id: int | None = MASTER_ID) -> BrokerAddress | None:
    """Return the address to pull from, by the first case that applies, or None without an address.

    - ``read_from`` "master", or ``suggested_id`` None (for offsets that a slave lacks): the master.
    - ``suggested_id`` ANY_MASTER: the master, else the slave with the lowest ID.
    - ``read_from`` "slave", ``suggested_id`` ANY_SLAVE, or no master: the slave with the lowest ID, else the master.
    - Else the slave with ``suggested_id``, the broker ID that the last response suggested, or without it the master.
    """
    if read_from == FROM_MASTER or suggested_id is None:
        return broker.master_address
    slave, master = next(iter(broker.slave_addresses.values()), None), broker.master_address
    if suggested_id == ANY_MASTER:
        return master or slave
    if read_from == FROM_SLAVE or suggested_id == ANY_SLAVE or master is None:
        return slave or master
    return broker.slave_addresses.get(suggested_id, master)
