"""Replicas of a broker: their settings, by what replaces a master that ends, and the controller of elections."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.embedded.servers import LOOPBACK, BrokerServer, Server, apply_settings, free_port

# A broker that is killed is replaced at once, because its connection closes; an unresponsive one after 3 s.
QUICK_ELECTION: Final[Mapping[str, str]] = {
    "scanNotActiveBrokerInterval": "1000",
    "controllerHeartBeatTimeoutMills": "3000",
    "checkSyncStateSetPeriod": "1000",
    "brokerHeartbeatInterval": "500",
}

REPLICATED: Final[Mapping[str, str]] = {
    "brokerIP2": LOOPBACK,
    "minInSyncReplicas": "1",
    "enableAutoInSyncReplicas": "true",
    "slaveReadEnable": "true",
}
ACTING_MASTER: Final[Mapping[str, str]] = {
    "enableSlaveActingMaster": "true",
    # The name server removes a broker that sends no heartbeat for as long.
    "brokerNotActiveTimeoutMillis": "3000",
    # A restarted master would be missing from the route for a minute.
    "skipPreOnline": "true",
}

Failover: TypeAlias = Literal["election", "acting-master", "none"]
"""What replaces a broker's master that has ended. ``election``: a replica, elected by a controller. ``acting-master``:
a slave for reading only, which the route then lists as the master. ``none``: nothing; slaves can be read."""
FAILOVERS: Final[tuple[Failover, ...]] = ("election", "acting-master", "none")


def broker_names_by_server(brokers: int, replicas: int) -> dict[str, str]:
    """Return the broker name of each server, by server name: broker-a and broker-a-2 are replicas of broker-a. The
    first replicas of all brokers come first."""
    names = [f"broker-{letter}" for letter in string.ascii_lowercase[:brokers]]
    return {name if number == 1 else f"{name}-{number}": name for number in range(1, replicas + 1) for name in names}


def replica_settings(server: str, replicas: int, failover: Failover, controller_address: str | None) -> dict[str, str]:
    """Return the properties of broker.conf for ``server``, one of ``replicas`` of its broker; {} if it is the only one.
    A master confirms a message when all in-sync replicas have it. With ``controller_address``, that controller elects
    the master. Without it, the first replica is the master, all later ones are slaves; ``acting-master`` lets a slave
    replace it for reading."""
    if replicas == 1:
        return {}
    settings = {**REPLICATED, "totalReplicas": str(replicas), "inSyncReplicas": str(replicas)}
    if controller_address is not None:
        elected = {"enableControllerMode": "true", "allAckInSyncStateSet": "true", "controllerAddr": controller_address}
        return {**settings, **QUICK_ELECTION, **elected}
    broker_id = _replica_number(server) - 1
    settings |= {"brokerId": str(broker_id), "brokerRole": "SLAVE" if broker_id else "SYNC_MASTER"}
    return {**settings, **ACTING_MASTER} if failover == "acting-master" else settings


def broker_servers(
    brokers: int,
    replicas: int,
    failover: Failover,
    controller_address: str | None,
    stores: Path,
    settings: Mapping[str, str],
) -> dict[str, BrokerServer]:
    """Return a BrokerServer, not started, for each replica of each broker, by server name. ``controller_address``: see
    ``replica_settings``, whose properties ``settings`` override. ``stores``: parent of the servers' data folders."""
    return {
        name: BrokerServer(
            name,
            stores / name,
            {**replica_settings(name, replicas, failover, controller_address), **settings},
            broker_name,
        )
        for name, broker_name in broker_names_by_server(brokers, replicas).items()
    }


def name_server_settings(failover: Failover) -> dict[str, str]:
    """Return the properties of namesrv.conf for ``acting-master``; {} for another ``failover``."""
    if failover != "acting-master":
        return {}
    return {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true", "scanNotActiveBrokerInterval": "1000"}


def _replica_number(server: str) -> int:
    """Return the number at the end of a server's name, 2 for broker-a-2; 1 for the name without one, broker-a."""
    number = server.rpartition("-")[2]
    return int(number) if number.isdigit() else 1


class ElectionController(Server):
    """A ControllerManager, alone in its DLedger group, in the name server's JVM. ``home``: its folder. Its port is
    selected at once: the brokers need it before it is started."""

    def __init__(self, home: Path) -> None:
        super().__init__(free_port())
        self._home = home

    def start(self, jvm: ChildJvm) -> None:
        """Start a new ControllerManager in ``jvm``, the name server's, on this object's port and folder, and return
        once it listens. Raises what ``ChildJvm.raising_embedded_errors`` does."""
        with jvm.raising_embedded_errors():
            rocketmq = jvm.connect().org.apache.rocketmq
            config = rocketmq.common.ControllerConfig()
            netty = rocketmq.remoting.netty.NettyServerConfig()
            apply_settings(
                jvm,
                {
                    **QUICK_ELECTION,
                    "bindAddress": LOOPBACK,
                    "listenPort": str(self._port),
                    "controllerDLegerGroup": "elections",
                    "controllerDLegerPeers": f"n0-{self.address}",
                    "controllerDLegerSelfId": "n0",
                    "controllerStorePath": str(self._home),
                    "mappedFileSize": str(16 * 1024 * 1024),  # 1 GiB by default
                },
                (config, netty),
            )
            client = rocketmq.remoting.netty.NettyClientConfig()
            controller = rocketmq.controller.ControllerManager(config, netty, client)
            controller.initialize()
            controller.start()
        self._jvm, self._controller = jvm, controller
