"""Who a client is to a cluster, and how it knows the cluster's servers: values, the same for every protocol.

What they say is carried out by ``wire.remoting.signature`` and ``remoting.secured``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HIDDEN: Final = "***"


class Secret:
    """A text that is shown nowhere: not by ``str``, ``repr``, a format, or an error that holds it.

    It is pickled as it is, because executors need it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for whoever signs or decrypts with it."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))


@dataclass(frozen=True, slots=True)
class Credentials:
    """With what requests are signed. Source: ``acl/common/SessionCredentials.java``."""

    access_key: str
    secret_key: Secret
    security_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """What a TLS connection is made with. Paths are of PEM files on each machine that connects.

    ``trust_cert_path``: whose certificates are trusted, by default those that the system trusts. ``cert_path`` and
    ``key_path``: with what the client proves who it is, where servers ask for that.
    """

    trust_cert_path: str | None = None
    cert_path: str | None = None
    key_path: str | None = None
    key_password: Secret | None = None
    auth_server: bool = True
    check_host_name: bool = True


@dataclass(frozen=True, slots=True)
class Security:
    """Of all connections of one client. None: unsigned, or not encrypted."""

    credentials: Credentials | None = None
    tls: Tls | None = None


UNSECURED: Final = Security()
"""Neither signed nor encrypted."""
