"""SlaveReads: brokers without a responsive master that a member reads at a slave, if ``readFrom`` is not ``master``. It
sends no request."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.failures import NO_LIMIT_MS
from rocketmq_spark.remoting.outage_log import broker_subject, master_subject
from rocketmq_spark.remoting.replicas import FROM_MASTER
from rocketmq_spark.remoting.route_table import RouteTable


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
        self._unresponsive: dict[str, BrokerAddress] = {}
        """Masters in the routes that do not respond, by broker name."""
        self._responded: frozenset[str] = frozenset()
        self.due_masters: dict[str, BrokerAddress] = {}
        """Unresponsive masters that are to be tried now, as of the last ``update``: see ``record_tries``."""
        self.addresses: dict[str, BrokerAddress] = {}
        """Slaves that are read, by broker name, as of the last ``update``."""
        self._required: frozenset[str] = frozenset()
        """Names of brokers whose masters the query needs to end: see ``require_masters``."""

    @property
    def brokers(self) -> frozenset[str]:
        """Names of the brokers that are read at a slave."""
        return frozenset(self.addresses)

    def master(self, broker_name: str) -> BrokerAddress | None:
        """Return the address of the broker's master, or None while no route has it, or it is unresponsive."""
        return None if broker_name in self._unresponsive else self._routes.master(broker_name)

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
        self._update_unresponsive()
        names = filter(self._options.reads_from, (*self._routes.brokers_without_master(), *self._unresponsive))
        addresses = {name: address for name in names if (address := self.address(name)) is not None}
        for name in self.addresses.keys() - addresses.keys():
            self._outage_tracker.record_success(master_subject(name))
            self._outage_tracker.record_success(_end_subject(name))
        self.addresses = addresses
        for name in addresses:
            self._record_outage(name)

    def _update_unresponsive(self) -> None:
        """Compute ``due_masters`` and the unresponsive masters. Remove masters that have responded, that the routes no
        longer name, or that have no slave. Add masters whose broker gave no response to its last request and has a
        slave. A failure of a broker that was read at a slave is the slave's: discard it."""
        masters = self._routes.masters()
        self._unresponsive = {
            name: address
            for name, address in self._unresponsive.items()
            if masters.get(name) == address and name not in self._responded and self._routes.slave(name) is not None
        }
        self._responded = frozenset()
        self.due_masters = {
            name: address
            for name, address in self._unresponsive.items()
            if self._outage_tracker.may_try(master_subject(name))
        }
        for name in filter(self._options.reads_from, masters.keys() - self._unresponsive.keys()):
            if name in self.addresses:
                self._outage_tracker.discard(broker_subject(name))  # that of the slave, which is no longer queried
            elif self._outage_tracker.is_unanswered(name) and self._routes.slave(name) is not None:
                self._outage_tracker.discard(broker_subject(name))  # from now on that of the slave
                self._unresponsive[name] = masters[name]

    def _record_outage(self, name: str) -> None:
        """Record the outage of the master of a broker that is read at a slave. Leave this to ``record_tries`` while the
        master is unresponsive and due or in its pause. If the query requires the master to end, record also a second
        outage, with limit ``clusterTimeoutMs``. Otherwise discard the second one."""
        is_waiting = name in self.due_masters or not self._outage_tracker.may_try(master_subject(name))
        if name not in self._unresponsive or not is_waiting:
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
        """Record that a request was sent to each of ``due_masters``, and empty them. ``responded``: by broker name. The
        next ``update`` uses masters that responded, if the routes still name them. Masters that did not are due again
        after a growing pause."""
        self._responded = frozenset(responded)
        for name in self.due_masters.keys() - self._responded:
            self._record_failure(name)
        self.due_masters = {}

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
