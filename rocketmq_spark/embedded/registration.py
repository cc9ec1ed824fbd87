"""Which brokers the name server has registered, and waiting for them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rocketmq_spark.embedded.servers import BrokerServer, NameServer
from rocketmq_spark.errors import EmbeddedBrokerError
from rocketmq_spark.model import MASTER_ID, TopicRoute

# Every broker creates it at its first start, with one queue.
SYSTEM_TOPIC: Final = "SELF_TEST_TOPIC"
READY_TIMEOUT_MS: Final = 120_000
POLL_S: Final = 0.02
SYNCHRONIZED_POLL_S: Final = 0.2


class Registration:
    """Queries the running name server for registered servers and masters, and waits until servers are registered.
    ``brokers``: all broker servers of the cluster, by server name. ``EmbeddedCluster`` calls it."""

    def __init__(self, name_server: NameServer, brokers: Mapping[str, BrokerServer]) -> None:
        self._name_server = name_server
        self._brokers = brokers

    def masters(self) -> list[BrokerServer]:
        """Return the servers that are masters in the route now, also those that ended a moment ago."""
        addresses = {data.addresses.get(MASTER_ID) for data in self._name_server.route(SYSTEM_TOPIC).brokers}
        return [one for one in self._brokers.values() if one.advertised_address in addresses]

    def master(self, broker_name: str) -> BrokerServer:
        """Return the server that the route has as the master of ``broker_name``. Raises
        EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if the broker has no master there now."""
        for server in self.masters():
            if server.broker_name == broker_name:
                return server
        raise EmbeddedBrokerError("EMBEDDED_CLUSTER_INVALID_STATE", problem=f"{broker_name} has no master now")

    def has(self, server: str) -> bool:
        """Return whether the route has the server's address, and queues of its broker."""
        return self._queue_count(server, self._name_server.route(SYSTEM_TOPIC)) is not None

    def wait(self, servers: Sequence[str], topic: str = SYSTEM_TOPIC, queues: int = 1) -> None:
        """Wait until the route of ``topic`` has each of ``servers``, with exactly ``queues`` readable queues on the
        server's broker. At each poll, make missing servers register again. Then wait until each master confirms
        messages with all running replicas of its broker. Raises EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE]
        after 120 s in either wait."""

        def unregistered() -> list[str]:
            """Return those of ``servers`` without exactly ``queues`` queues in the route; make them register again."""
            route = self._name_server.route(topic)
            missing = [server for server in servers if self._queue_count(server, route) != queues]
            for server in missing:
                self._brokers[server].register()
            return missing

        wait_until_empty(unregistered, "did not register")
        wait_until_empty(self._reregister_unsynchronized, "did not synchronize the replicas", SYNCHRONIZED_POLL_S)

    def create_topic(self, topic: str, queues: int, create: Callable[[BrokerServer], None]) -> None:
        """Call ``create`` for each master, then ``wait`` until the route has the topic's queues on all running brokers,
        and ``copy_topic`` to their slaves."""
        for server in self.masters():
            create(server)
        running = [server for server in self._brokers.values() if server.is_running]
        self.wait([server.name for server in running], topic, queues)
        self.copy_topic(topic, queues, running, create)

    def copy_topic(
        self, topic: str, queues: int, servers: Sequence[BrokerServer], create: Callable[[BrokerServer], None]
    ) -> None:
        """Make the slaves among running ``servers`` copy topics from their masters until each of ``servers`` has
        ``topic`` with ``queues`` read queues. At each poll, make slaves that lack it register again: the response has
        the master's address. Call ``create`` for a master that lacks it: it was elected since the topic was created.
        Raises EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] after 120 s."""

        def incomplete() -> list[str]:
            """Make slaves copy topics, and servers without the queues get them; return the names of these servers."""
            masters = self.masters()
            for server in servers:
                if server not in masters:
                    server.copy_from_master()
            missing = [server for server in servers if server.read_queue_count(topic) != queues]
            for server in missing:
                if server in masters:
                    create(server)
                else:
                    server.register()
            return [server.name for server in missing]

        wait_until_empty(incomplete, f"did not copy topic {topic}", SYNCHRONIZED_POLL_S)

    def _reregister_unsynchronized(self) -> list[str]:
        """Return the names of brokers with at least two running servers that have no master in the route, or whose
        master does not confirm messages with all of these servers. Make their running servers register again. In the
        response, a slave gets the address from which it replicates."""
        running = Counter(one.broker_name for one in self._brokers.values() if one.is_running)
        replicated = {name for name, count in running.items() if count > 1}
        in_sync = {one.broker_name: one.replicas_in_sync() for one in self.masters() if one.broker_name in replicated}
        behind = [name for name in replicated if in_sync.get(name) != running[name]]
        for one in self._brokers.values():
            if one.broker_name in behind and one.is_running:
                one.register()
        return behind

    def _queue_count(self, server: str, route: TopicRoute) -> int | None:
        """Return the number of readable queues of the server's broker in the route. Return None if the route lacks the
        server's advertised address, or queues of its broker."""
        broker = self._brokers[server]
        if not any(broker.advertised_address in data.addresses.values() for data in route.brokers):
            return None
        return {data.broker_name: data.read_queue_count for data in route.queues}.get(broker.broker_name)


def wait_until_empty(missing: Callable[[], list[str]], problem: str, poll_s: float = POLL_S) -> None:
    """Call ``missing`` every ``poll_s`` seconds until it returns no name. Raises
    EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] after 120 s, with the last names and ``problem``, such as "did
    not register"."""
    deadline = time.monotonic() + READY_TIMEOUT_MS / 1000
    while names := missing():
        if time.monotonic() > deadline:
            raise EmbeddedBrokerError(
                "EMBEDDED_CLUSTER_INVALID_STATE",
                problem=f"{', '.join(names)} {problem} within {READY_TIMEOUT_MS} ms; the host may be overloaded",
            )
        time.sleep(poll_s)
