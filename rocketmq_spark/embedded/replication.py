"""Replicas of a broker under a controller, which elects their master: the settings, and the controller itself."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.embedded.servers import LOOPBACK, Server, apply_settings, free_port

# A broker that is killed is replaced at once, because its connection closes; one that is silent after 3 s.
QUICK_ELECTION: Final[Mapping[str, str]] = {
    "scanNotActiveBrokerInterval": "1000",
    "controllerHeartBeatTimeoutMills": "3000",
    "checkSyncStateSetPeriod": "1000",
    "brokerHeartbeatInterval": "500",
}


def broker_names_by_server(brokers: int, replicas: int) -> dict[str, str]:
    """Return the name of the broker that each server is a replica of: broker-a and broker-a-2 are of broker-a."""
    names = [f"broker-{letter}" for letter in string.ascii_lowercase[:brokers]]
    return {name if number == 1 else f"{name}-{number}": name for number in range(1, replicas + 1) for name in names}


def replica_settings(controller_address: str, replicas: int) -> dict[str, str]:
    """Return the properties of broker.conf of each replica. A master confirms a message when all replicas that keep up
    have it."""
    return {
        **QUICK_ELECTION,
        "enableControllerMode": "true",
        "controllerAddr": controller_address,
        "brokerIP2": LOOPBACK,
        "totalReplicas": str(replicas),
        "inSyncReplicas": str(replicas),
        "minInSyncReplicas": "1",
        "enableAutoInSyncReplicas": "true",
        "allAckInSyncStateSet": "true",
        "slaveReadEnable": "true",
    }


class ElectionController(Server):
    """A ControllerManager, alone in its DLedger group, in the name server's JVM. ``home``: its folder. Its port is
    selected at once: the brokers need it before it is started."""

    def __init__(self, home: Path) -> None:
        super().__init__(free_port())
        self._home = home

    def start(self, jvm: ChildJvm) -> None:
        """Start it in ``jvm`` on its port and store. Raises what ``ChildJvm.raising_embedded_errors`` does."""
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
