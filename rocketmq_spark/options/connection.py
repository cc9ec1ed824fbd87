"""Options of whoever talks to a cluster, whatever for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.options.kinds import ADDRESSES, BOOLEAN, GIVEN, PATH, SECRET, integer
from rocketmq_spark.options.table import Conflict, Need, Section, checked, option, parse_table
from rocketmq_spark.security import Credentials, Secret, Security, Tls


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Where a cluster is, how long it may take, and what its servers and we know of each other. Times are
    milliseconds."""

    name_servers: tuple[str, ...] = option(
        "namesrvAddr",
        ADDRESSES,
        section=Section.CONNECTION,
        essential=True,
        aliases=("nameServer",),
        required=True,
        unless="endpoints",
        doc="Name servers, `host:port` separated by `;`. One that does not answer is passed over for the next.",
    )
    broker_timeout_ms: int = option(
        "brokerTimeoutMs",
        integer(100, 600_000),
        section=Section.CONNECTION,
        default="3000",
        doc="How long one request waits for its answer. A request that can be repeated is, up to `clusterTimeoutMs`.",
    )
    cluster_timeout_ms: int = option(
        "clusterTimeoutMs",
        integer(0),
        section=Section.CONNECTION,
        essential=True,
        default="300000",
        doc="How long a query goes on retrying a cluster that cannot be reached before it fails.",
    )
    access_key: str | None = option(
        "accessKey",
        GIVEN,
        section=Section.SECURITY,
        doc="Who the client is, for brokers with ACL: the name of an ACL 2.0 user, or an access key of ACL 1.0. "
        "Every request is signed then.",
    )
    secret_key: Secret | None = option(
        "secretKey",
        SECRET,
        section=Section.SECURITY,
        secret=True,
        doc="What requests are signed with: the password of an ACL 2.0 user, or the secret key of ACL 1.0. It is sent "
        "to no server, and shown nowhere.",
    )
    security_token: Secret | None = option(
        "securityToken",
        SECRET,
        section=Section.SECURITY,
        secret=True,
        doc="For keys that were issued for a time: the token that came with them. It is sent with every request.",
    )
    use_tls: bool = option(
        "useTLS",
        BOOLEAN,
        section=Section.SECURITY,
        default="false",
        doc="Whether connections to name servers and brokers are encrypted. Both have to accept TLS: "
        "`tls.server.mode` `permissive`, their default, or `enforcing`.",
    )
    tls_trust_cert_path: str | None = option(
        "tlsTrustCertPath",
        PATH,
        section=Section.SECURITY,
        doc="A PEM file with the certificates that servers are to be vouched for by; by default those that the system "
        "trusts. As all files of TLS it has to be at the same path on the driver and on every executor, and is read "
        "again for each new connection.",
    )
    tls_auth_server: bool = option(
        "tlsAuthServer",
        BOOLEAN,
        section=Section.SECURITY,
        default="true",
        doc="Whether a server has to prove who it is. If false, neither its certificate nor its host name is checked: "
        "what is sent is encrypted, and anybody between here and the server can read and change it.",
    )
    tls_check_host_name: bool = option(
        "tlsCheckHostName",
        BOOLEAN,
        section=Section.SECURITY,
        default="true",
        doc="Whether a server's certificate has to name the host that was connected to: of a name server as in "
        "`namesrvAddr`, of a broker as in its `brokerIP1`. If false, whoever has any certificate that is trusted can "
        "stand in for a server.",
    )
    tls_cert_path: str | None = option(
        "tlsCertPath",
        PATH,
        section=Section.SECURITY,
        doc="A PEM file with the client's own certificate, for servers that ask for one "
        "(`tls.server.need.client.auth`).",
    )
    tls_key_path: str | None = option(
        "tlsKeyPath",
        PATH,
        section=Section.SECURITY,
        doc="A PEM file with the key of `tlsCertPath`, where that file does not hold it itself.",
    )
    tls_key_password: Secret | None = option(
        "tlsKeyPassword",
        SECRET,
        section=Section.SECURITY,
        secret=True,
        doc="The password of an encrypted key.",
    )

    @property
    def security(self) -> Security:
        """What connections are made with."""
        return Security(self._credentials, self._tls)

    @property
    def _credentials(self) -> Credentials | None:
        if self.access_key is None or self.secret_key is None:
            return None
        return Credentials(self.access_key, self.secret_key, self.security_token)

    @property
    def _tls(self) -> Tls | None:
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


def connection_options(given: Mapping[str, str]) -> ConnectionOptions:
    """Of who has no other options; names in any case.

    Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | INCOMPATIBLE_OPTIONS].
    """
    return checked(ConnectionOptions(**parse_table(ConnectionOptions, given)), CONNECTION_NEEDS, CONNECTION_CONFLICTS)


def options_of(security: Security) -> dict[str, str]:
    """The options that say the same as ``security``, secrets in plain text."""
    who, tls = security.credentials, security.tls
    given: dict[str, str | Secret | None] = {}
    if who is not None:
        given |= {"accessKey": who.access_key, "secretKey": who.secret_key, "securityToken": who.security_token}
    if tls is not None:
        given |= {
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
        for name, value in given.items()
        if value is not None
    }


_SIGNED_WITH_BOTH: Final = "Requests are signed with 'accessKey' and 'secretKey' together."
_WITHOUT_TLS: Final = "It must be 'true', or nothing that is said of TLS counts."

CONNECTION_NEEDS: Final = (
    Need("accessKey", "secretKey", lambda it: it.access_key and not it.secret_key, _SIGNED_WITH_BOTH),
    Need("secretKey", "accessKey", lambda it: it.secret_key and not it.access_key, _SIGNED_WITH_BOTH),
    Need(
        "securityToken",
        "accessKey",
        lambda it: it.security_token and not it.access_key,
        "A token goes with the keys that it was issued with.",
    ),
    Need("tlsTrustCertPath", "useTLS", lambda it: it.tls_trust_cert_path and not it.use_tls, _WITHOUT_TLS),
    Need("tlsAuthServer", "useTLS", lambda it: not it.tls_auth_server and not it.use_tls, _WITHOUT_TLS),
    Need("tlsCheckHostName", "useTLS", lambda it: not it.tls_check_host_name and not it.use_tls, _WITHOUT_TLS),
    Need("tlsCertPath", "useTLS", lambda it: it.tls_cert_path and not it.use_tls, _WITHOUT_TLS),
    Need(
        "tlsKeyPath",
        "tlsCertPath",
        lambda it: it.tls_key_path and not it.tls_cert_path,
        "A key proves nothing without its certificate.",
    ),
    Need(
        "tlsKeyPassword",
        "tlsCertPath",
        lambda it: it.tls_key_password and not it.tls_cert_path,
        "The password is that of a certificate's key.",
    ),
)
"""Checked in this order."""

CONNECTION_CONFLICTS: Final = (
    Conflict(
        "tlsAuthServer",
        "tlsTrustCertPath",
        lambda it: not it.tls_auth_server and it.tls_trust_cert_path is not None,
        "Where no server has to prove who it is, nobody's certificate is looked at.",
    ),
)
