"""SlaveReads: brokers without a master that a member reads at a slave, if ``readFrom`` is not ``master``. It sends no
request."""

from __future__ import annotations

from rocketmq_spark.consumer.outage_tracker import OutageTracker
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.failures import NO_LIMIT_MS
from rocketmq_spark.remoting.replicas import FROM_MASTER
from rocketmq_spark.remoting.retry import master_subject
from rocketmq_spark.remoting.route_table import RouteTable


class SlaveReads:
    """Slaves that are queried instead of a missing master. Each is an outage of the master, without a limit, which is
    logged at its start and end; and one with a limit while the query cannot end. Not thread-safe."""

    def __init__(self, options: ReadOptions, routes: RouteTable, outage_tracker: OutageTracker) -> None:
        self._options = options
        self._routes = routes
        self._outage_tracker = outage_tracker
        self.brokers: frozenset[str] = frozenset()
        """Names of the brokers that are read at a slave, as of the last ``update``."""
        self.is_end_awaited = False
        """Whether the query reads no more and only waits for its end: see ``await_end``."""

    def address(self, broker_name: str) -> BrokerAddress | None:
        """Return the address for requests that change nothing: of the master, or of a slave while no route has a
        master; None while there is neither."""
        return self._routes.queryable(broker_name, self._options.read_from)

    def update(self) -> None:
        """Record the brokers that have no master in the routes now and are read at a slave, and those that have one
        again."""
        if self._options.read_from == FROM_MASTER:
            return
        names = filter(self._options.reads_from, self._routes.brokers_without_master())
        addresses = {name: address for name in names if (address := self.address(name)) is not None}
        for name in self.brokers - addresses.keys():
            self._outage_tracker.record_success(master_subject(name))
            self._outage_tracker.record_success(_end_subject(name))
        for name, address in addresses.items():
            error = RouteError("READING_FROM_SLAVE", broker=name, address=str(address))
            self._outage_tracker.record_failure(master_subject(name), error, NO_LIMIT_MS)
            if self.is_end_awaited:
                self._outage_tracker.record_failure(_end_subject(name), error, self._options.cluster_timeout_ms)
            else:
                self._outage_tracker.discard(_end_subject(name))
        self.brokers = frozenset(addresses)

    def await_end(self) -> frozenset[str]:
        """Record that the query reads no more, but needs the masters to end: from the next ``update`` on, it waits at
        most ``clusterTimeoutMs`` for each. Return ``brokers``, which it waits for."""
        self.is_end_awaited = True
        return self.brokers

    def heartbeat_addresses(self) -> set[BrokerAddress]:
        """Return the addresses that must have a member's heartbeat before it plans: masters that did not fail at their
        last request, and slaves that are read instead."""
        slaves = {address for name in self.brokers if (address := self.address(name)) is not None}
        return slaves | set(self._outage_tracker.responsive_masters().values())


def _end_subject(broker_name: str) -> str:
    return f"{master_subject(broker_name)}, without which the query does not end,"
