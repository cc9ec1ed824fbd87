"""The embedded cluster: a real name server and real brokers for tests, demos and experiments."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from rocketmq_spark.embedded.acl import Right, acl_1_arguments, acl_settings, has_acl_1, new_credentials, write_acl_1
from rocketmq_spark.embedded.admin import broker_at, mqadmin, name_server_at
from rocketmq_spark.embedded.certificate import ServerCertificate
from rocketmq_spark.embedded.proxy import ProxyServer
from rocketmq_spark.embedded.registration import POLL_S, Registration
from rocketmq_spark.embedded.replication import (
    ElectionController,
    Failover,
    broker_servers,
    name_server_settings,
)
from rocketmq_spark.embedded.server_jvms import NAME_SERVER_JVM, PROXY_JVM, ServerJvms
from rocketmq_spark.embedded.servers import LOOPBACK, BrokerServer, NameServer
from rocketmq_spark.embedded.work_folder import work_folder
from rocketmq_spark.errors import EmbeddedBrokerError
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.security import Credentials, Security, Tls

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
# Proxies share their clients there. A proxy creates it too, and exits if it has no route a moment later.
SYNC_TOPIC: Final = "DefaultHeartBeatSyncerTopic"
# Direct memory is allocated on demand: each thread that stores messages keeps 4 MB, the maximum message size. Delays,
# transactions and the timer have forty such threads; with popped messages, 288 MB were measured.
SMALL_JVM: Final = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=384m", "-XX:+UseSerialGC")
# Without it each server generates a certificate, which takes longer than the rest of the start.
NO_TLS: Final = "-Dtls.server.mode=disabled"


class EmbeddedCluster:
    """One name server and ``brokers`` brokers, ``broker-a`` to at most ``broker-z``, of Apache RocketMQ itself.

    All servers run in one child JVM or, with ``separate_jvms``, each in its own, so that it can be killed or paused
    alone. Addresses are on the loopback interface only; their ports are free at first and then stay the same.

    Parameters
    ----------
    replicas : number of servers of each broker, each in its own JVM. Those of ``broker-a`` have the names ``broker-a``,
        ``broker-a-2`` and so on, see ``server_names``.
    failover : what replaces a broker's master that has ended: with ``election`` a replica, elected by a controller;
        with ``acting-master`` a slave, for reading only; with ``none`` nothing. Slaves can be read. See ``master``.
    broker_config : properties of broker.conf, for every broker.
    store_dir : data folder of the brokers, which is not deleted. By default a temporary directory.
    advertised_host : host that brokers register instead of 127.0.0.1, such as 127.0.0.2, with a proxy on the same port.
    namesrv_port : 0 selects a free one.
    version : one of ``jars.VERSIONS``; by default 5.5.0, or ROCKETMQ_HOME's. RocketMQ 4 listens on all interfaces.
    java_options : additional options of every JVM.
    acl : whether brokers require signed requests; see ``security_options``, ``create_user``.
    tls : whether servers require TLS. Their certificate is made for this cluster.
    proxy : whether to run a proxy in cluster mode, in its own JVM on all interfaces; see ``endpoints``, ``proxy_addr``.
    proxy_config : properties of rmq-proxy.json.

    Methods that wait for brokers raise EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if one has not registered
    within 120 s, and so do those that kill, pause or resume a server without its own JVM. An unknown name of a server
    raises KeyError. Threads: one at a time.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        replicas: int = 1,
        failover: Failover = "election",
        separate_jvms: bool = False,
        broker_config: Mapping[str, str] = NO_SETTINGS,
        store_dir: Path | None = None,
        advertised_host: str = LOOPBACK,
        namesrv_port: int = 0,
        java_options: Sequence[str] = (),
        version: str | None = None,
        acl: bool = False,
        tls: bool = False,
        proxy: bool = False,
        proxy_config: Mapping[str, object] = NO_SETTINGS,
    ) -> None:
        """Create the work folder, and start nothing. With ``acl`` verify the jars, and download missing ones."""
        self._version = version
        self._resources = ExitStack()
        self._work = self._resources.enter_context(work_folder("embedded"))
        self._certificate = ServerCertificate(self._work.path / "tls") if tls else None
        tls_options = self._certificate.java_options() if self._certificate else (NO_TLS,)
        all_options = [*SMALL_JVM, *tls_options, *java_options]
        separate_jvms |= replicas > 1
        self._jvms = ServerJvms(version, self._work, self._resources, all_options, separate=separate_jvms)
        stores = store_dir or self._work.path / "stores"
        credentials = new_credentials() if acl else None
        self._security = Security(credentials, Tls(str(self._certificate.certificate)) if self._certificate else None)
        self._has_acl_1 = acl and has_acl_1(self._jvms.class_path)
        if credentials is not None and self._has_acl_1:
            write_acl_1(self._work.path / "acl", credentials)
            self._jvms.java_options.append(f"-Drocketmq.home.dir={self._work.path / 'acl'}")
        acl_options = {"aclEnable": "true"} if self._has_acl_1 else acl_settings(credentials) if credentials else {}
        has_elections = replicas > 1 and failover == "election"
        self._elections = ElectionController(self._work.path / "controller") if has_elections else None
        controller = self._elections.address if self._elections else None
        settings = {"brokerIP1": advertised_host, **acl_options, **broker_config}
        self._brokers = broker_servers(brokers, replicas, failover, controller, stores, settings)
        self._name_server = NameServer(self._work.path, namesrv_port, name_server_settings(failover))
        self._registration = Registration(self._name_server, self._brokers)
        proxy_home = self._work.path / "proxy"
        self._proxy = ProxyServer(proxy_home, self._certificate, credentials, proxy_config) if proxy else None

    def __enter__(self) -> Self:
        """Call ``start``, after an error also ``close``, and return the cluster."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EmbeddedCluster({self.namesrv_addr}, {', '.join(map(repr, self._brokers.values()))})"

    # ---- start and end

    def start(self) -> None:
        """Download missing jars, launch the JVMs, write the certificate with ``tls``, and start all servers. Wait up to
        120 s until all brokers are registered and their replicas in sync. A proxy is started last; wait until both of
        its ports are open. After an error, the caller calls ``close``; a ``with`` block calls both."""
        for name in (NAME_SERVER_JVM, *self._brokers, *([PROXY_JVM] if self._proxy else [])):
            self._jvms.launch(name)
        if self._certificate is not None:
            self._certificate.write(self._jvms.launch_jvm(NAME_SERVER_JVM))
        self._start_name_server()
        for broker in self._brokers.values():
            broker.start(self._jvms.launch_jvm(broker.name), self.namesrv_addr)
        self._registration.wait(list(self._brokers))
        if self._proxy is not None:
            self.create_topic(SYNC_TOPIC, 1)
            self.start_proxy()

    def close(self, *, clean: bool = False) -> None:
        """Kill all JVMs and delete temporary files, but not ``store_dir``. With ``clean``, first shut down the running
        brokers, one after another: each flushes its data for seconds. An error is raised after the kill. Idempotent."""
        with self._resources:
            for broker in self._brokers.values():
                if clean and broker.is_running:
                    broker.stop()

    def check(self) -> None:
        """Raise EmbeddedBrokerError[EMBEDDED_JVM_FAILED] if a JVM has ended, or was killed and not started again."""
        self._jvms.check()

    # ---- addresses and folders

    @property
    def namesrv_addr(self) -> str:
        """Return the name server's address, with port 0 before ``start`` unless ``namesrv_port`` is set."""
        return self._name_server.address

    @property
    def broker_names(self) -> tuple[str, ...]:
        """Return the names of the brokers, each once, not those of their replicas: see ``server_names``."""
        return tuple(dict.fromkeys(broker.broker_name for broker in self._brokers.values()))

    def server_names(self, broker_name: str = "broker-a") -> tuple[str, ...]:
        """Return the names of the broker's servers, its replicas; () for an unknown broker."""
        return tuple(server.name for server in self._brokers.values() if server.broker_name == broker_name)

    def master(self, broker_name: str = "broker-a") -> str:
        """Return the name of the server that is the broker's master in the running name server's route. Raises
        EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if there is none now."""
        return self._registration.master(broker_name).name

    def broker_addr(self, name: str = "broker-a") -> str:
        """Return the address at which the server ``name`` listens, with port 0 before its first start."""
        return self._brokers[name].address

    def advertised_addr(self, name: str = "broker-a") -> str:
        """Return the address that the server ``name`` registers, see ``advertised_host``."""
        return self._brokers[name].advertised_address

    @property
    def endpoints(self) -> str:
        """Return the proxy's gRPC address, for clients of RocketMQ 5. Requires ``proxy=True``."""
        return self._require_proxy().endpoints

    @property
    def proxy_addr(self) -> str:
        """Return the proxy's remoting address, a name server to other clients. Requires ``proxy=True``."""
        return self._require_proxy().address

    def store_dir(self, name: str = "broker-a") -> Path:
        """Return the data folder of the server ``name``, which has ``config/consumerOffset.json``."""
        return self._brokers[name].home

    # ---- users, rights and topics

    @property
    def security(self) -> Security:
        """Return the security settings of a client with all rights."""
        return self._security

    @property
    def security_options(self) -> dict[str, str]:
        """Return ``security`` as options of a reader, secrets in plain text; {} without ``acl`` and ``tls``."""
        return options_of(self._security)

    def create_user(self, name: str, *rights: Right) -> Credentials:
        """Create a user with only these rights on running brokers, and return its credentials. Requires ``acl``."""
        user = new_credentials(name)
        for server in self._brokers.values():
            if server.is_running and self._has_acl_1:
                self.mqadmin("updateAclConfig", "-b", server.address, *acl_1_arguments(user, rights))
            elif server.is_running:
                server.create_user(user, rights)
        return user

    def create_topic(
        self, name: str, queues: int = 4, *, perm: int = 6, attributes: Mapping[str, str] = NO_SETTINGS
    ) -> str:
        """Create or change the topic on each master in the route, and return ``name``. Wait up to 120 s until the route
        has its queues on all running brokers, and until running slaves have copied it. ``queues``: on each broker;
        ``perm``: 4 to read, 2 to write, 6 for both; ``attributes``: such as ``{"message.type": "FIFO"}``."""

        def create(server: BrokerServer) -> None:
            """Create or change the topic on this master."""
            with broker_at(server.address, self._security) as broker:
                broker.create_topic(name, queues, perm, attributes)

        self._registration.create_topic(name, queues, create)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete topic, messages and groups' offsets on running brokers, then its route on the running name server."""
        for server in self._brokers.values():
            if server.is_running:
                with broker_at(server.address, self._security) as broker:
                    broker.delete_topic(name)
        with name_server_at(self.namesrv_addr, self._security) as name_servers:
            name_servers.delete_topic(name)

    def mqadmin(self, *arguments: str) -> str:
        """Return the output of RocketMQ's admin tool: ``mqadmin("topicStatus", "-t", "T")``. Takes some seconds."""
        return mqadmin(*arguments, "-n", self.namesrv_addr, version=self._version, security=self._security)

    # ---- stopping, pausing and restarting servers

    def stop_broker(self, name: str = "broker-a") -> None:
        """Shut the running broker down cleanly, which takes about ten seconds. Its JVM stays."""
        self._brokers[name].stop()

    def start_broker(self, name: str = "broker-a") -> None:
        """Start a stopped or killed broker on its previous port and store, in a new JVM if its JVM has ended. Wait up
        to 120 s until it is registered and the replicas are in sync; do not wait if the name server is not running."""
        self._brokers[name].start(self._jvms.launch_jvm(name), self.namesrv_addr)
        if self._name_server.is_running:
            self._registration.wait([name])

    def restart_broker(self, name: str = "broker-a", *, clean: bool = True) -> None:
        """Stop the broker, or kill it if not ``clean``, then start it: see ``start_broker``."""
        (self.stop_broker if clean else self.kill_broker)(name)
        self.start_broker(name)

    def kill_broker(self, name: str = "broker-a") -> None:
        """Kill the broker's JVM by SIGKILL; wait, without a limit, until the name server, if it is running, has removed
        the broker. Raises EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] if other servers run in that JVM."""
        self._jvms.dedicated_jvm(name).kill()
        self._brokers[name].mark_stopped()
        while self._name_server.is_running and self._registration.has(name):
            time.sleep(POLL_S)

    def pause_broker(self, name: str = "broker-a") -> None:
        """Stop the JVM of the broker alone by SIGSTOP, unless it is paused: connections stay open."""
        self._jvms.dedicated_jvm(name).pause()

    def resume_broker(self, name: str = "broker-a") -> None:
        """Continue the JVM of the broker alone by SIGCONT, after ``pause_broker`` or ``pause``."""
        self._jvms.dedicated_jvm(name).resume()

    def expire_messages(self, name: str = "broker-a") -> None:
        """Delete all messages, read or not, except those in the commit log's last file, as retention does. With
        ``broker_config={"mappedFileSizeCommitLog": "65536"}`` files have 64 KiB."""
        self._brokers[name].expire_messages()

    def stop_name_server(self) -> None:
        """Shut the running name server down, and wait until its port is free. Its JVM and the brokers stay."""
        self._name_server.stop()

    def kill_name_server(self) -> None:
        """Kill the name server's JVM by SIGKILL; see ``kill_broker`` for a JVM with other servers."""
        self._jvms.dedicated_jvm(NAME_SERVER_JVM).kill()
        self._name_server.mark_stopped()

    def start_name_server(self) -> None:
        """Start the name server on its previous port; wait until the running brokers have registered again."""
        self._start_name_server()
        self._registration.wait([name for name, broker in self._brokers.items() if broker.is_running])

    def start_proxy(self) -> None:
        """Start a killed proxy on its previous ports; wait, without a limit, until both accept connections. Raises
        EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] without ``proxy``, and those of ``ProxyServer.start``."""
        self._require_proxy().start(partial(self._jvms.launch_jvm, PROXY_JVM), self.namesrv_addr)

    def kill_proxy(self) -> None:
        """Kill the proxy's JVM by SIGKILL. Raises KeyError without ``proxy=True``."""
        self._jvms.dedicated_jvm(PROXY_JVM).kill()

    def pause_proxy(self) -> None:
        """Stop the proxy's JVM by SIGSTOP; its connections stay open. Raises KeyError without a proxy."""
        self._jvms.dedicated_jvm(PROXY_JVM).pause()

    def resume_proxy(self) -> None:
        """Continue the proxy's JVM by SIGCONT, after ``pause_proxy`` or ``pause``."""
        self._jvms.dedicated_jvm(PROXY_JVM).resume()

    def pause(self) -> None:
        """Stop all JVMs by SIGSTOP, so that they use no CPU. A name server removes unresponsive brokers after 120 s."""
        self._jvms.pause()

    def resume(self) -> None:
        """Continue all JVMs by SIGCONT, after ``pause``. Connections are unchanged."""
        self._jvms.resume()

    def _start_name_server(self) -> None:
        """Start the name server and, with elections, their controller in the same JVM; do not wait for brokers."""
        self._name_server.start(self._jvms.launch_jvm(NAME_SERVER_JVM))
        if self._elections is not None and not self._elections.is_running:
            self._elections.start(self._jvms.launch_jvm(NAME_SERVER_JVM))

    def _require_proxy(self) -> ProxyServer:
        """Return the proxy. Raises EmbeddedBrokerError[EMBEDDED_CLUSTER_INVALID_STATE] without ``proxy=True``."""
        if self._proxy is None:
            raise EmbeddedBrokerError("EMBEDDED_CLUSTER_INVALID_STATE", problem="it has no proxy; pass proxy=True")
        return self._proxy
