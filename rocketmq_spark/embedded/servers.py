"""RocketMQ's own name server and broker controllers inside a child JVM, each on a fixed port.

The controllers are built directly, because RocketMQ's *Startup classes call System.exit on every error.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from rocketmq_spark.embedded.acl import Right, create_user
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.errors import EmbeddedBrokerError
from rocketmq_spark.model import TopicRoute
from rocketmq_spark.security import Credentials
from rocketmq_spark.wire.body.routes import decode_topic_route

LOOPBACK: Final = "127.0.0.1"
AUTH_CONFIG: Final = "org/apache/rocketmq/auth/config/AuthConfig.class"
FREE_PORT_TIMEOUT_MS: Final = 15_000
POLL_S: Final = 0.02
PORT_RANGE: Final = range(20_000, 32_000)
MAX_FILES_PER_DELETION: Final = 10_000
SECOND_PORT_DISTANCE: Final = 2

# Small files and no page-cache warm-up: a store of a few megabytes that starts at once.
SMALL_BROKER: Final[Mapping[str, str]] = {
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": "400000",
    "mappedFileSizeTimerLog": str(4 * 1024 * 1024),
    "maxIndexNum": "20000",
    "maxHashSlotNum": "5000",
    "haListenPort": "0",
    "enablePropertyFilter": "true",
    # On a small machine a request may wait for 200 ms, after which the broker would reject it.
    "brokerFastFailureEnable": "false",
}

# Settings that reduce the CPU use of an idle broker; by default RocketMQ 5.5.0 uses 10 % of a core, at times 100 %.
QUIET_BROKER: Final[Mapping[str, str]] = {
    # TransactionalOpBatchService spins for ever, an interval after the last transaction: so the longest one is set. It
    # delays nothing, because each end of a transaction exceeds the maximum batch size and is written at once.
    "transactionOpBatchInterval": str(2**31 - 1),
    "transactionOpMsgMaxSize": "1",
    # Each flush compares the timer wheel's 38 MB byte by byte; a killed broker loses up to one interval.
    "timerFlushIntervalMs": "5000",
    # Each of these threads polls an empty queue a hundred times a second.
    "timerGetMessageThreadNum": "1",
    "timerPutMessageThreadNum": "1",
}


class Server:
    """Common part of name server, broker and election controller: a RocketMQ controller object in a JVM, and its fixed
    port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._jvm: ChildJvm | None = None
        self._controller: Any = None

    @property
    def address(self) -> str:
        """Return the address at which the server listens; before its first start the port may be 0."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether it was started, not stopped since, and its JVM has not ended; a paused JVM has not."""
        return self._jvm is not None and self._jvm.is_running

    def stop(self) -> None:
        """Shut the running server down cleanly, which flushes all data; a broker needs several seconds. Wait up to
        15 s more until its port is free, and record its end. Its JVM stays. Raises what
        ``ChildJvm.raising_embedded_errors`` and ``await_free_port`` do."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            self._controller.shutdown()
            await_free_port(self._jvm, self._port)
        self.mark_stopped()

    def mark_stopped(self) -> None:
        """Record that the server, or its JVM, has ended; its port stays for the next start. Send nothing."""
        self._jvm = self._controller = None


class NameServer(Server):
    """A NamesrvController. ``port`` 0 selects a free one, which later starts reuse. ``settings``: properties of
    namesrv.conf."""

    def __init__(self, home: Path, port: int, settings: Mapping[str, str]) -> None:
        super().__init__(port)
        self._home = home
        self._settings = settings

    def start(self, jvm: ChildJvm) -> None:
        """Start a new NamesrvController in ``jvm``, on the port of its last start, if there was one; return once it
        listens. Raises what ``ChildJvm.raising_embedded_errors`` does."""
        with jvm.raising_embedded_errors():
            set_remoting_version(jvm)
            self._port = self._port or initial_port(jvm)
            rocketmq = jvm.connect().org.apache.rocketmq
            config = rocketmq.common.namesrv.NamesrvConfig()
            config.setKvConfigPath(str(self._home / "kvConfig.json"))
            config.setConfigStorePath(str(self._home / "namesrv.properties"))
            netty = rocketmq.remoting.netty.NettyServerConfig()
            apply_settings(
                jvm, {**self._settings, "bindAddress": LOOPBACK, "listenPort": str(self._port)}, (config, netty)
            )
            controller = rocketmq.namesrv.NamesrvController(config, netty)
            controller.initialize()
            controller.start()
            self._port = netty.getListenPort()
        self._jvm, self._controller = jvm, controller

    def route(self, topic: str) -> TopicRoute:
        """Read the registered route of ``topic`` in the name server's JVM, and return it; without brokers and queues if
        there is none. Requires that the name server is running. Raises what ``ChildJvm.raising_embedded_errors``
        does."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            route = self._controller.getRouteInfoManager().pickupTopicRouteData(topic)
            # As one value: brokers may register between single calls.
            encoded = None if route is None else bytes(route.encode())
        return TopicRoute(topic, (), ()) if encoded is None else decode_topic_route(topic, encoded)


class BrokerServer(Server):
    """A BrokerController, with its store in ``home``: the only master of broker ``name``, or one of its replicas.

    It listens on the loopback address and registers as ``brokerIP1`` with the same port, where a test's proxy may
    listen. ``settings`` are broker.conf's properties. ``broker_name``: of a replica.
    """

    def __init__(self, name: str, home: Path, settings: Mapping[str, str], broker_name: str | None = None) -> None:
        super().__init__(int(settings.get("listenPort", "0")))
        self.name = name
        self.broker_name = broker_name or name
        self.home = home
        self._settings = settings

    @property
    def advertised_address(self) -> str:
        """Return the address that the broker registers: ``brokerIP1`` of its settings, and the port of ``address``."""
        return f"{self._settings.get('brokerIP1', LOOPBACK)}:{self._port}"

    def __repr__(self) -> str:
        return f"{self.name}({self.address if self.is_running else 'ended'})"

    def start(self, jvm: ChildJvm, namesrv_address: str) -> None:
        """Start the broker in ``jvm``, on the existing store; return once it listens, before it is registered. Its port
        is the previous one, at first ``listenPort`` of the settings or a free one. Raises
        EmbeddedBrokerError[EMBEDDED_SERVER_FAILED] if RocketMQ fails or cannot load the store,
        EmbeddedBrokerError[EMBEDDED_JVM_FAILED]."""
        with jvm.raising_embedded_errors():
            set_remoting_version(jvm)
            configs = new_configs(jvm)
            apply_settings(jvm, self._all_settings(namesrv_address), configs)
            fill_auth_config(configs)
            netty = configs[1]
            is_replica = "totalReplicas" in self._settings
            # A replica's address goes to its controller before the broker listens.
            self._port = self._port or (free_port() if is_replica else initial_port(jvm))
            netty.setListenPort(self._port)
            controller = jvm.connect().org.apache.rocketmq.broker.BrokerController(*configs)
            # initialize() binds a second port at this distance below the first: here port 0, a free one.
            netty.setListenPort(self._port if is_replica else SECOND_PORT_DISTANCE)
            if not controller.initialize():
                raise EmbeddedBrokerError("EMBEDDED_SERVER_FAILED", problem=f"{self.name} could not load its store")
            netty.setListenPort(self._port)
            controller.start()
            stop_idle_services(controller)
            self._port = netty.getListenPort()
        self._jvm, self._controller = jvm, controller

    def register(self) -> None:
        """Send a registration of every topic to the name server, without a check of the result; the first one after a
        start is usually lost. Requires that the broker is running."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            self._controller.registerBrokerAll(True, False, True)

    def replicas_in_sync(self) -> int:
        """Return the number of replicas with which this running master confirms messages, itself included; 0 at a
        slave."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            replicas = self._controller.getReplicasManager()
            if replicas is not None:
                return int(replicas.getSyncStateSet().getSyncStateSet().size())
            store = self._controller.getMessageStore()
            return int(store.getHaService().inSyncReplicasNums(store.getMaxPhyOffset()))

    def copy_from_master(self) -> None:
        """At a running slave, copy topics, groups and the groups' offsets from the master now. RocketMQ itself does so
        every 10 s with a controller, every 60 s without. Copy nothing, without an error, if the slave does not have the
        master's address yet, or the master does not respond within 3 s."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            self._controller.getSlaveSynchronize().syncAll()

    def read_queue_count(self, topic: str) -> int | None:
        """Return the number of read queues of a topic at this running broker, or None if the broker lacks the topic."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            config = self._controller.getTopicConfigManager().selectTopicConfig(topic)
            return None if config is None else int(config.getReadQueueNums())

    def create_user(self, user: Credentials, rights: Iterable[Right]) -> None:
        """Create a user of this running broker in ACL 2.0, with only these rights, and wait: see
        ``acl.create_user``."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            create_user(self._jvm, self._controller, user, rights)

    def expire_messages(self) -> None:
        """Delete every file of the commit log but the last, even with unread messages. Then raise the min offset of
        each queue to its first message that is left. Requires that the broker is running."""
        assert self._jvm is not None
        with self._jvm.raising_embedded_errors():
            store = self._controller.getMessageStore()
            log = store.getCommitLog()
            while log.deleteExpiredFile(0, 0, 0, True, MAX_FILES_PER_DELETION):
                pass
            for queues in store.getQueueStore().getConsumeQueueTable().values():
                for queue in queues.values():
                    queue.correctMinOffset(log.getMinOffset())

    def _all_settings(self, namesrv_address: str) -> dict[str, str]:
        """Return the properties of broker.conf: ``settings`` override the defaults, but not the broker's name, the name
        server and the folders."""
        return {
            **SMALL_BROKER,
            **QUIET_BROKER,
            "bindAddress": LOOPBACK,
            "brokerIP1": LOOPBACK,
            **self._settings,
            "brokerName": self.broker_name,
            "namesrvAddr": namesrv_address,
            "storePathRootDir": str(self.home),
            "storePathCommitLog": str(self.home / "commitlog"),
        }


def new_configs(jvm: ChildJvm) -> tuple[Any, ...]:
    """Create and return default configs in ``jvm``, in the order of BrokerController's constructor: BrokerConfig,
    NettyServerConfig, NettyClientConfig and MessageStoreConfig. A version of RocketMQ with ACL 2.0 also has
    AuthConfig."""
    rocketmq = jvm.connect().org.apache.rocketmq
    configs = (
        rocketmq.common.BrokerConfig(),
        rocketmq.remoting.netty.NettyServerConfig(),
        rocketmq.remoting.netty.NettyClientConfig(),
        rocketmq.store.config.MessageStoreConfig(),
    )
    return (*configs, rocketmq.auth.config.AuthConfig()) if has_auth_config(jvm) else configs


def fill_auth_config(configs: tuple[Any, ...]) -> None:
    """Set broker name, cluster name and folder in the AuthConfig, the fifth of ``new_configs``, from BrokerConfig and
    MessageStoreConfig, as BrokerStartup does. Do nothing if there are only four configs."""
    if len(configs) > 4:
        broker, _, _, store, auth = configs
        auth.setConfigName(broker.getBrokerName())
        auth.setClusterName(broker.getBrokerClusterName())
        auth.setAuthConfigPath(f"{store.getStorePathRootDir()}/config")


def stop_idle_services(controller: Any) -> None:
    """Stop up to three threads of the started broker that poll for nothing. The flush of transaction metrics always
    ends. Fast failure ends if it is disabled. The thread that waits for slaves ends if the role is ASYNC_MASTER."""
    # It spins until its first interval is over, 10 s by default, and then writes a file that no process reads.
    stop_service(controller, "transactionMetricsFlushService")
    # These wake a hundred times a second.
    if not controller.getBrokerConfig().isBrokerFastFailureEnable():
        stop_service(controller, "brokerFastFailure")
    store = controller.getMessageStore()
    if store.getMessageStoreConfig().getBrokerRole().name() == "ASYNC_MASTER":  # waits for no slave
        stop_service(store.getHaService(), "groupTransferService")


def stop_service(owner: Any, field: str) -> None:
    """Shut down the service in the private Java field ``field`` of ``owner``; do nothing if this version of RocketMQ
    has no such field."""
    try:
        declared = owner.getClass().getDeclaredField(field)
    except Py4JJavaError:
        return
    declared.setAccessible(True)
    declared.get(owner).shutdown()


def has_auth_config(jvm: ChildJvm) -> bool:
    """Return whether this version of RocketMQ has AuthConfig, and so ACL 2.0."""
    loader = jvm.connect().java.lang.ClassLoader.getSystemClassLoader()
    return loader.getResource(AUTH_CONFIG) is not None


def apply_settings(jvm: ChildJvm, settings: Mapping[str, str], configs: tuple[Any, ...]) -> None:
    """Set in each config the properties of ``settings`` that the config has, as BrokerStartup does with the lines of
    its file. Ignore a property that no config has."""
    properties = jvm.connect().java.util.Properties()
    properties.putAll(dict(settings))
    for config in configs:
        jvm.connect().org.apache.rocketmq.common.MixAll.properties2Object(properties, config)


def initial_port(jvm: ChildJvm) -> int:
    """Return the port for a server's first start without a configured one. It is 0 for RocketMQ 5, whose server then
    selects a free port and reports it. RocketMQ 4 does not report it, and gets a port of ``free_port``."""
    rocketmq = jvm.connect().org.apache.rocketmq
    if not rocketmq.common.MQVersion.getVersionDesc(rocketmq.common.MQVersion.CURRENT_VERSION).startswith("V4_"):
        return 0
    return free_port()


def free_port() -> int:
    """Return a random port from PORT_RANGE that is free now on the loopback interface, for a server that would not
    report its own; reserve nothing.

    It is lower than the ports that the system assigns to connections: one of these could occupy it before the server
    does. Raises EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if none is free.
    """
    for port in random.sample(PORT_RANGE, len(PORT_RANGE)):
        try:
            socket.create_server((LOOPBACK, port)).close()
        except OSError:
            continue
        return port
    raise EmbeddedBrokerError("EMBEDDED_CLUSTER_INVALID_STATE", problem="no port is free; stop servers on this host")


def set_remoting_version(jvm: ChildJvm) -> None:
    """Set the system property of the JVM by which RocketMQ sends its real version. A name server ignores the topics of
    a broker of version 0. Call it before the server starts. Waits for the JVM, and raises what ``ChildJvm.connect``
    does."""
    rocketmq = jvm.connect().org.apache.rocketmq
    key = rocketmq.remoting.protocol.RemotingCommand.REMOTING_VERSION_KEY
    jvm.connect().java.lang.System.setProperty(key, str(rocketmq.common.MQVersion.CURRENT_VERSION))


def await_free_port(jvm: ChildJvm, port: int) -> None:
    """Wait up to 15 s, by attempts in ``jvm``, until the port can be bound: RocketMQ's servers release it some time
    after shutdown().

    Raises EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if it cannot be bound then.
    """
    deadline = time.monotonic() + FREE_PORT_TIMEOUT_MS / 1000
    address = jvm.connect().java.net.InetAddress.getByName(LOOPBACK)
    while time.monotonic() < deadline:
        try:
            jvm.connect().java.net.ServerSocket(port, 1, address).close()
        except Py4JJavaError:
            time.sleep(POLL_S)
        else:
            return
    raise EmbeddedBrokerError(
        "EMBEDDED_CLUSTER_INVALID_STATE",
        problem=f"port {port} did not become free within {FREE_PORT_TIMEOUT_MS} ms",
    )
