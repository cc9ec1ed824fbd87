"""The choice of the server of its broker that a range is pulled from, as one table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.remoting.replicas import Server, ServerKind
from rocketmq_spark.state_table import transition_of


class ServerEvent(Enum):
    """Outcome of a pull that changes the server."""

    FAILED = "a pull from this server failed, and another server, or a new route, may help"
    OFFSETS_ABSENT = "a response lacks offsets of the range"
    MASTER_SUGGESTED = "a response suggests the master instead of this server"
    SLAVE_SUGGESTED = "a response suggests a slave instead of this server"


_ONLY_MASTER, _SUGGESTED_MASTER, _SUGGESTED_SLAVE, _ANY_SLAVE, _ANY_MASTER = ServerKind

TRANSITIONS: Final[Mapping[tuple[ServerKind, ServerEvent], ServerKind]] = MappingProxyType(
    {
        (_ONLY_MASTER, ServerEvent.FAILED): _ONLY_MASTER,
        (_SUGGESTED_MASTER, ServerEvent.FAILED): _ANY_SLAVE,
        (_SUGGESTED_MASTER, ServerEvent.SLAVE_SUGGESTED): _SUGGESTED_SLAVE,
        (_SUGGESTED_SLAVE, ServerEvent.FAILED): _ANY_MASTER,
        (_SUGGESTED_SLAVE, ServerEvent.MASTER_SUGGESTED): _SUGGESTED_MASTER,
        (_SUGGESTED_SLAVE, ServerEvent.SLAVE_SUGGESTED): _SUGGESTED_SLAVE,
        (_ANY_SLAVE, ServerEvent.FAILED): _ANY_MASTER,
        (_ANY_MASTER, ServerEvent.FAILED): _ANY_SLAVE,
        **{(kind, ServerEvent.OFFSETS_ABSENT): _ONLY_MASTER for kind in ServerKind},
    }
)
"""All possible transitions."""


def next_server(server: Server, event: ServerEvent, suggested_id: int = MASTER_ID) -> Server:
    """Return the server after ``event``. ``suggested_id``: ID of a suggested one. Raises ValueError if there is no such
    event of ``server``."""
    return Server(transition_of(TRANSITIONS, server.kind, event, "a range's server"), suggested_id)


def suggested_server(server: Server, suggested_id: int) -> Server | None:
    """Return the server that a response suggests, or None if it is ``server`` or no suggestion replaces ``server``."""
    event = ServerEvent.MASTER_SUGGESTED if suggested_id == MASTER_ID else ServerEvent.SLAVE_SUGGESTED
    if suggested_id == server.suggested_id or (server.kind, event) not in TRANSITIONS:
        return None
    return next_server(server, event, suggested_id)
