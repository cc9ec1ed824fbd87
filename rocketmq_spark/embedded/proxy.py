"""RocketMQ's own proxy, in cluster mode: in its own JVM between clients and brokers, as in most deployments.

In local mode a proxy shares a broker's JVM and its TLS settings, and cannot be killed alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rocketmq_spark.embedded.certificate import ServerCertificate
from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.embedded.servers import LOOPBACK, free_port, set_remoting_version
from rocketmq_spark.errors import EmbeddedBrokerError
from rocketmq_spark.security import Credentials

CLUSTER: Final = "DefaultCluster"
CONFIG_PATH: Final = "com.rocketmq.proxy.configPath"
STARTS: Final = 3
"""A proxy ends its JVM if the name server does not respond to a lookup of its system topic within 3 s, which happens on
a busy machine. It has no setting for that."""
LOOKUP_FAILED: Final = "create system broadcast topic"
_PROVIDERS: Final = "org.apache.rocketmq.proxy.auth"


class ProxyServer:
    """RocketMQ's proxy in cluster mode, with a gRPC port and a remoting port; both stay the same over restarts.

    It listens on all interfaces, which RocketMQ cannot change. ``certificate``: enables TLS, with the same Java options
    as for brokers. ``inner_credentials``: enable ACL, and sign the proxy's requests to the brokers for users and
    rights. ``extra_settings``: of rmq-proxy.json.
    """

    def __init__(
        self,
        home: Path,
        certificate: ServerCertificate | None,
        inner_credentials: Credentials | None,
        extra_settings: Mapping[str, object],
    ) -> None:
        self._home = home
        self._settings = {
            **(tls_settings(certificate) if certificate else {}),
            **(acl_settings(inner_credentials, home) if inner_credentials else {}),
            **extra_settings,
        }
        self._grpc_port = self._remoting_port = 0

    @property
    def endpoints(self) -> str:
        """Return ``host:port`` for gRPC clients, with port 0 before the first start."""
        return f"{LOOPBACK}:{self._grpc_port}"

    @property
    def address(self) -> str:
        """Return ``host:port`` for remoting clients, to which the proxy is both name server and broker; port 0 before
        the first start."""
        return f"{LOOPBACK}:{self._remoting_port}"

    def start(self, launch_jvm: Callable[[], ChildJvm], namesrv_address: str) -> None:
        """Write rmq-proxy.json and start the proxy in a JVM that ``launch_jvm`` returns; return once both ports are
        open. If the proxy ends because the name server was slow, start it again in a new JVM, up to 3 starts in all.
        The first start selects free ports. Raises EmbeddedBrokerError[EMBEDDED_SERVER_FAILED | EMBEDDED_JVM_FAILED] of
        the last start."""
        for starts_left in reversed(range(STARTS)):
            try:
                self._start(launch_jvm(), namesrv_address)
            except EmbeddedBrokerError as error:
                if not starts_left or LOOKUP_FAILED not in str(error):
                    raise
            else:
                return

    def _start(self, jvm: ChildJvm, namesrv_address: str) -> None:
        """Select the ports if there are none, write rmq-proxy.json, and run ProxyStartup once in ``jvm``, until both
        ports are open. Raises what ``ChildJvm.raising_embedded_errors`` does; the JVM ends if the proxy fails."""
        with jvm.raising_embedded_errors():
            set_remoting_version(jvm)
            self._grpc_port = self._grpc_port or free_port()
            self._remoting_port = self._remoting_port or free_port()
            self._home.mkdir(mode=0o700, exist_ok=True)
            file = self._home / "rmq-proxy.json"
            file.write_text(json.dumps(self._all_settings(namesrv_address)), encoding="utf-8")
            java = jvm.connect().java
            java.lang.System.setProperty(CONFIG_PATH, str(file))
            no_arguments = java.lang.reflect.Array.newInstance(java.lang.Class.forName("java.lang.String"), 0)
            # ProxyStartup prints an error, and ends the JVM.
            jvm.connect().org.apache.rocketmq.proxy.ProxyStartup.main(no_arguments)

    def _all_settings(self, namesrv_address: str) -> dict[str, object]:
        """Return the content of rmq-proxy.json for cluster mode; the settings of the constructor take precedence."""
        return {
            "proxyMode": "cluster",
            "rocketMQClusterName": CLUSTER,
            "proxyName": "proxy",
            "namesrvAddr": namesrv_address,
            "localServeAddr": LOOPBACK,
            "grpcServerPort": self._grpc_port,
            "remotingListenPort": self._remoting_port,
            **self._settings,
        }


def tls_settings(certificate: ServerCertificate) -> dict[str, object]:
    """Return the TLS settings of rmq-proxy.json."""
    return {
        "tlsTestModeEnable": False,
        "tlsCertPath": str(certificate.certificate),
        "tlsKeyPath": str(certificate.key),
        # If true, the remoting port serves gRPC too, and requires a native library.
        "enableRemotingLocalProxyGrpc": False,
    }


def acl_settings(inner_credentials: Credentials, home: Path) -> dict[str, object]:
    """Return the ACL settings of rmq-proxy.json. The proxy requires signed requests, and reads users and rights from
    the brokers with ``inner_credentials``, which the result has in plain text."""
    signing = {"accessKey": inner_credentials.access_key, "secretKey": inner_credentials.secret_key.reveal()}
    return {
        "authConfigPath": str(home / "auth"),
        "enableAclRpcHookForClusterMode": True,
        "innerClientAuthenticationCredentials": json.dumps(signing),
        "authenticationEnabled": True,
        "authenticationMetadataProvider": f"{_PROVIDERS}.ProxyAuthenticationMetadataProvider",
        "authorizationEnabled": True,
        "authorizationMetadataProvider": f"{_PROVIDERS}.ProxyAuthorizationMetadataProvider",
    }
