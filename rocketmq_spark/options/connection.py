"""Options of the connection to a cluster: the same for reading, writing and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.options.kinds import ADDRESS_MAP, ADDRESSES, BOOLEAN, NON_EMPTY_TEXT, PATH, SECRET, integer
from rocketmq_spark.options.table import Conflict, Dependency, Section, checked, option, parse_table
from rocketmq_spark.security import Credentials, Secret, Security, Tls


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Options of every call: addresses, timeouts, credentials and TLS. Times are milliseconds."""

    name_servers: tuple[str, ...] = option(
        "namesrvAddr",
        ADDRESSES,
        section=Section.CONNECTION,
        essential=True,
        aliases=("nameServer",),
        required=True,
        alternatives=("endpoints",),
        doc="Addresses of the name servers, `host:port`, separated by `;`. If one does not respond, the connector "
        "tries the next.",
    )
    broker_address_map: tuple[tuple[str, str], ...] = option(
        "brokerAddressMap",
        ADDRESS_MAP,
        section=Section.CONNECTION,
        default="",
        doc="Addresses at which this driver and its executors reach brokers whose advertised addresses (`brokerIP1`) "
        "they cannot reach, for example of brokers in containers or behind NAT: pairs `advertised=reachable`, both "
        "`host:port`, separated by `;`, such as `172.17.0.3:10911=localhost:10911`. The advertised address is the one "
        "that the name servers return; other brokers' addresses stay. It applies to masters and slaves, and has no "
        "effect on `namesrvAddr` and `endpoints`.",
    )
    broker_timeout_ms: int = option(
        "brokerTimeoutMs",
        integer(100, 600_000),
        section=Section.CONNECTION,
        default="3000",
        doc="Timeout of one request to a name server, broker or proxy, in ms. The connector retries a failed request "
        "that is safe to repeat for up to `clusterTimeoutMs`.",
    )
    cluster_timeout_ms: int = option(
        "clusterTimeoutMs",
        integer(0),
        section=Section.CONNECTION,
        essential=True,
        default="300000",
        doc="How long the connector retries while servers are unreachable, do not respond in time, or reject requests "
        "for a temporary reason, in ms. After that the query, task or call fails. It has no effect on "
        "`rocketmq_spark.send` and the command line, which make a fixed number of attempts.",
    )
    access_key: str | None = option(
        "accessKey",
        NON_EMPTY_TEXT,
        section=Section.SECURITY,
        doc="User name for brokers with ACL: the name of an ACL 2.0 user, or an ACL 1.0 access key. If set, the "
        "connector signs every request.",
    )
    secret_key: Secret | None = option(
        "secretKey",
        SECRET,
        section=Section.SECURITY,
        secret=True,
        doc="Secret for signing requests: the password of an ACL 2.0 user, or an ACL 1.0 secret key. It is never sent "
        "to a server, logged or shown.",
    )
    security_token: Secret | None = option(
        "securityToken",
        SECRET,
        section=Section.SECURITY,
        secret=True,
        doc="Session token of temporary credentials. It is sent with every request.",
    )
    use_tls: bool = option(
        "useTLS",
        BOOLEAN,
        section=Section.SECURITY,
        default="false",
        doc="Whether to use TLS for connections to name servers, brokers and proxies. Name servers and brokers must "
        "accept TLS: their `tls.server.mode` must be `permissive` (the default) or `enforcing`.",
    )
    tls_trust_cert_path: str | None = option(
        "tlsTrustCertPath",
        PATH,
        unset="the CA certificates of the system",
        section=Section.SECURITY,
        doc="PEM file with the trusted CA certificates. This file, and every other TLS file, must exist at the same "
        "path on the driver and on every executor. Each new connection reads it again.",
    )
    tls_auth_server: bool = option(
        "tlsAuthServer",
        BOOLEAN,
        section=Section.SECURITY,
        default="true",
        doc="Whether to verify the servers' certificates and host names. With `false`, traffic is encrypted but open "
        "to man-in-the-middle attacks: use it for tests only.",
    )
    tls_check_host_name: bool = option(
        "tlsCheckHostName",
        BOOLEAN,
        section=Section.SECURITY,
        default="true",
        doc="Whether a server's certificate must contain the host name that the connector connects to: that of "
        "`namesrvAddr`, `endpoints`, or a broker's `brokerIP1`. With `false`, the owner of any trusted certificate "
        "can impersonate a server.",
    )
    tls_cert_path: str | None = option(
        "tlsCertPath",
        PATH,
        section=Section.SECURITY,
        doc="PEM file with the client certificate, for servers that require one (`tls.server.need.client.auth`).",
    )
    tls_key_path: str | None = option(
        "tlsKeyPath",
        PATH,
        unset="the file of `tlsCertPath`",
        section=Section.SECURITY,
        doc="PEM file with the private key of `tlsCertPath`.",
    )
    tls_key_password: Secret | None = option(
        "tlsKeyPassword",
        SECRET,
        section=Section.SECURITY,
        secret=True,
        doc="Password of an encrypted private key.",
    )

    @property
    def security(self) -> Security:
        """Return credentials and TLS settings in one object. Its ``credentials`` are None unless both ``accessKey`` and
        ``secretKey`` are set, its ``tls`` is None without ``useTLS``."""
        return Security(self._credentials, self._tls)

    @property
    def _credentials(self) -> Credentials | None:
        """Return the credentials, or None unless both ``accessKey`` and ``secretKey`` are set."""
        if self.access_key is None or self.secret_key is None:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token)

    @property
    def _tls(self) -> Tls | None:
        """Return the TLS settings, or None without ``useTLS``."""
        if not self.use_tls:
            return None
        return Tls(
            self.tls_trust_cert_path,
            self.tls_cert_path,
            self.tls_key_path,
            self.tls_key_password,
            self.tls_auth_server,
            self.tls_check_host_name,
        )


def connection_options(configured: Mapping[str, str]) -> ConnectionOptions:
    """Parse and check the options of a call that has connection options only; names in any case.

    Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | INCOMPATIBLE_OPTIONS |
    OPTION_REQUIRES_OPTION].
    """
    return checked(
        ConnectionOptions(**parse_table(ConnectionOptions, configured)), CONNECTION_DEPENDENCIES, CONNECTION_CONFLICTS
    )


def options_of(security: Security) -> dict[str, str]:
    """Return the options that result in ``security``, by name: secrets in plain text, without options that are None.
    The inverse of ``ConnectionOptions.security``."""
    credentials, tls = security.credentials, security.tls
    configured: dict[str, str | Secret | None] = {}
    if credentials is not None:
        configured |= {
            "accessKey": credentials.access_key,
            "secretKey": credentials.secret_key,
            "securityToken": credentials.security_token,
        }
    if tls is not None:
        configured |= {
            "useTLS": "true",
            "tlsTrustCertPath": tls.trust_cert_path,
            "tlsAuthServer": str(tls.auth_server).lower(),
            "tlsCheckHostName": str(tls.check_host_name).lower(),
            "tlsCertPath": tls.cert_path,
            "tlsKeyPath": tls.key_path,
            "tlsKeyPassword": tls.key_password,
        }
    return {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in configured.items()
        if value is not None
    }


_SIGNED_WITH_BOTH: Final = "Requests are signed with both 'accessKey' and 'secretKey'. Set both, or neither."
_WITHOUT_TLS: Final = "TLS options require 'useTLS=true'."

CONNECTION_DEPENDENCIES: Final = (
    Dependency("accessKey", "secretKey", lambda it: it.access_key and not it.secret_key, _SIGNED_WITH_BOTH),
    Dependency("secretKey", "accessKey", lambda it: it.secret_key and not it.access_key, _SIGNED_WITH_BOTH),
    Dependency(
        "securityToken",
        "accessKey",
        lambda it: it.security_token and not it.access_key,
        "A session token is valid only with the 'accessKey' and 'secretKey' that it was issued with.",
    ),
    Dependency("tlsTrustCertPath", "useTLS", lambda it: it.tls_trust_cert_path and not it.use_tls, _WITHOUT_TLS),
    Dependency("tlsAuthServer", "useTLS", lambda it: not it.tls_auth_server and not it.use_tls, _WITHOUT_TLS),
    Dependency("tlsCheckHostName", "useTLS", lambda it: not it.tls_check_host_name and not it.use_tls, _WITHOUT_TLS),
    Dependency("tlsCertPath", "useTLS", lambda it: it.tls_cert_path and not it.use_tls, _WITHOUT_TLS),
    Dependency(
        "tlsKeyPath",
        "tlsCertPath",
        lambda it: it.tls_key_path and not it.tls_cert_path,
        "A private key requires its certificate.",
    ),
    Dependency(
        "tlsKeyPassword",
        "tlsCertPath",
        lambda it: it.tls_key_password and not it.tls_cert_path,
        "'tlsKeyPassword' is the password of the private key of 'tlsCertPath'.",
    ),
)
"""Checked in this order."""

CONNECTION_CONFLICTS: Final = (
    Conflict(
        "tlsAuthServer",
        "tlsTrustCertPath",
        lambda it: not it.tls_auth_server and it.tls_trust_cert_path is not None,
        "With 'tlsAuthServer=false', server certificates are not verified, so 'tlsTrustCertPath' has no effect.",
    ),
)
