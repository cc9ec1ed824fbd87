"""SlaveReads: brokers without a responsive master that a member reads at a slave, if ``readFrom`` is not ``master``. It
sends no request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.failures import NO_LIMIT_MS
from rocketmq_spark.remoting.outage_log import broker_subject, master_subject
from rocketmq_spark.remoting.replicas import FROM_MASTER
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.state_table import transition_of


class MasterState(Enum):
    """State of a master that the routes name."""

    RESPONSIVE = "responds, or has not been called"
    UNRESPONSIVE = "does not respond, and is in a pause"
    DUE = "does not respond, and is to be tried now"
    RESPONDED = "has responded to the try"


class MasterEvent(Enum):
    """Event that changes the state of a master."""

    NO_RESPONSE = "its last request got no response, and its broker has a slave"
    PAUSE_ENDED = "the pause after its last request is over"
    RESPONSE = "the try got a response"
    DISCARDED = "at an update after its response, or of routes that name another master, no master or no slave"


_RESPONSIVE, _UNRESPONSIVE, _DUE, _RESPONDED = MasterState

TRANSITIONS: Final[Mapping[tuple[MasterState, MasterEvent], MasterState]] = MappingProxyType(
    {
        (_RESPONSIVE, MasterEvent.NO_RESPONSE): _UNRESPONSIVE,
        (_UNRESPONSIVE, MasterEvent.PAUSE_ENDED): _DUE,
        (_DUE, MasterEvent.NO_RESPONSE): _UNRESPONSIVE,
        (_DUE, MasterEvent.RESPONSE): _RESPONDED,
        **{(state, MasterEvent.DISCARDED): _RESPONSIVE for state in (_UNRESPONSIVE, _DUE, _RESPONDED)},
    }
)
"""All valid transitions."""


@dataclass(slots=True)
class _Master:
    address: BrokerAddress
    state: MasterState = _RESPONSIVE

    def apply(self, event: MasterEvent) -> None:
        """Change the state by ``TRANSITIONS``. Raises ValueError, without a change, for an invalid event."""
        self.state = transition_of(TRANSITIONS, self.state, event, f"the master at {self.address}")


class SlaveReads:
    """Slaves that are queried instead of a missing or unresponsive master. Each is an outage of the master, without a
    limit, logged at its start and end. While the query cannot end, there is a second outage, with a limit.

    Name servers list a master that hangs for up to two minutes. It counts as missing from the update of the routes
    after its first request without a response. This ends when it has responded and a later route still names it:
    another one may be elected meanwhile. All changes take effect at ``update``, so a plan uses one server of each
    broker. Not thread-safe.
    """

    def __init__(self, options: ReadOptions, routes: RouteTable, outage_tracker: OutageTracker) -> None:
        self._options = options
        self._routes = routes
        self._outage_tracker = outage_tracker
        self._masters: dict[str, _Master] = {}
        """Masters in the routes, by broker name, that are not RESPONSIVE."""
        self.addresses: dict[str, BrokerAddress] = {}
        """Slaves that are read, by broker name, as of the last ``update``."""
        self._required: frozenset[str] = frozenset()
        """Names of brokers whose masters the query needs to end: see ``require_masters``."""

    @property
    def brokers(self) -> frozenset[str]:
        """Names of the brokers that are read at a slave."""
        return frozenset(self.addresses)

    @property
    def due_masters(self) -> dict[str, BrokerAddress]:
        """Masters to try now, by broker name, as of the last ``update``: see ``record_tries``."""
        return {name: master.address for name, master in self._masters.items() if master.state is _DUE}

    def master(self, broker_name: str) -> BrokerAddress | None:
        """Return the address of the broker's master, or None while no route has it, or it is unresponsive."""
        return None if broker_name in self._masters else self._routes.master(broker_name)

    def address(self, broker_name: str) -> BrokerAddress | None:
        """Return the address for requests that change nothing: the master's (``master``), or without it that of the
        slave with the lowest ID. Return None without a slave, and with ``readFrom=master``."""
        master = self.master(broker_name)
        if master is not None or self._options.read_from == FROM_MASTER:
            return master
        return self._routes.slave(broker_name)

    def update(self) -> None:
        """Choose again, from the routes and failures now, which brokers are read at a slave: those without a responsive
        master. Record the outages of their masters, and end the outages of brokers that are read at a master again.
        Sends nothing; does nothing with ``readFrom=master``."""
        if self._options.read_from == FROM_MASTER:
            return
        self._update_masters()
        names = filter(self._options.reads_from, (*self._routes.brokers_without_master(), *self._masters))
        addresses = {name: address for name in names if (address := self.address(name)) is not None}
        for name in self.addresses.keys() - addresses.keys():
            self._outage_tracker.record_success(master_subject(name))
            self._outage_tracker.record_success(_end_subject(name))
        self.addresses = addresses
        for name in addresses:
            self._record_outage(name)

    def _update_masters(self) -> None:
        """Discard masters that have responded, that the routes no longer name, or that have no slave; make the rest due
        after their pause. Add masters whose broker gave no response to its last request and has a slave. A failure of a
        broker that was read at a slave is the slave's: discard it."""
        named = self._routes.masters()
        for name, master in self._masters.items():
            if master.state is _RESPONDED or named.get(name) != master.address or self._routes.slave(name) is None:
                master.apply(MasterEvent.DISCARDED)
            elif master.state is _UNRESPONSIVE and self._outage_tracker.may_try(master_subject(name)):
                master.apply(MasterEvent.PAUSE_ENDED)
        self._masters = {name: one for name, one in self._masters.items() if one.state is not _RESPONSIVE}
        for name in filter(self._options.reads_from, named.keys() - self._masters.keys()):
            if name in self.addresses:
                self._outage_tracker.discard(broker_subject(name))  # that of the slave, which is no longer queried
            elif self._outage_tracker.is_unanswered(name) and self._routes.slave(name) is not None:
                self._outage_tracker.discard(broker_subject(name))  # from now on that of the slave
                self._masters[name] = _Master(named[name])
                self._masters[name].apply(MasterEvent.NO_RESPONSE)

    def _record_outage(self, name: str) -> None:
        """Record the outage of the master of a broker that is read at a slave. Leave this to ``record_tries`` while the
        master is unresponsive and due or in its pause. If the query requires the master to end, record also a second
        outage, with limit ``clusterTimeoutMs``. Otherwise discard the second one."""
        master = self._masters.get(name)
        is_due = master is not None and master.state is _DUE
        if master is None or (not is_due and self._outage_tracker.may_try(master_subject(name))):
            self._record_failure(name)
        if name in self._required:
            self._outage_tracker.record_failure(
                _end_subject(name), self._error_of(name), self._options.cluster_timeout_ms
            )
        else:
            self._outage_tracker.discard(_end_subject(name))

    def _record_failure(self, name: str) -> None:
        """Record the outage of the broker's master, RouteError[READING_FROM_SLAVE], without a limit."""
        self._outage_tracker.record_failure(master_subject(name), self._error_of(name), NO_LIMIT_MS)

    def _error_of(self, name: str) -> RouteError:
        """Return the error of a broker that is read at a slave, not raised. Raises KeyError for another broker."""
        return RouteError("READING_FROM_SLAVE", broker=name, address=str(self.addresses[name]))

    def record_tries(self, responded: Collection[str]) -> None:
        """Record that a request was sent to each of ``due_masters``: none is due then. ``responded``: broker names. The
        next ``update`` uses masters that responded, if the routes still name them. Masters that did not are due again
        after a growing pause."""
        for name in self.due_masters:
            if name in responded:
                self._masters[name].apply(MasterEvent.RESPONSE)
            else:
                self._masters[name].apply(MasterEvent.NO_RESPONSE)
                self._record_failure(name)

    def require_masters(self, broker_names: Iterable[str]) -> None:
        """Record, in place of earlier ones, the brokers whose masters the query needs to end: it reads no further. From
        the next ``update`` on, it waits at most ``clusterTimeoutMs`` for each that is read at a slave."""
        self._required = frozenset(broker_names)

    def end_requirement(self, *, is_reading: bool) -> None:
        """Require no master any more if ``is_reading``: the query reads again. Else do nothing."""
        if is_reading:
            self._required = frozenset()

    def heartbeat_addresses(self) -> set[BrokerAddress]:
        """Return the addresses that must have a member's heartbeat before it plans. They are masters whose last request
        did not fail, and slaves that are read instead of a master."""
        return {*self.addresses.values(), *self._outage_tracker.responsive_masters().values()}


def _end_subject(broker_name: str) -> str:
    """Return the subject of the outage of a master that the query needs to end."""
    return f"{master_subject(broker_name)}, without which the query does not end,"
