"""Credentials and TLS settings of a client: values, the same for every protocol.

``wire.remoting.signature`` and ``remoting.secured`` apply them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HIDDEN: Final = "***"


class Secret:
    """A text that is hidden in ``str``, ``repr``, formats, and errors that contain it.

    Pickling keeps the plain text, because executors need it.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the plain text, for signing or decryption."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        """Return ``***`` in the format ``spec``."""
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys with which requests are signed. Source: ``acl/common/SessionCredentials.java``."""

    access_key: str
    secret_key: Secret
    security_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings of connections. Paths are of PEM files on each machine that connects.

    ``trust_cert_path``: trusted CA certificates, by default those of the system. ``cert_path`` and ``key_path``: client
    certificate and key, for servers that require them.
    """

    trust_cert_path: str | None = None
    cert_path: str | None = None
    key_path: str | None = None
    key_password: Secret | None = None
    auth_server: bool = True
    check_host_name: bool = True


@dataclass(frozen=True, slots=True)
class Security:
    """Security settings of all connections of one client. None: unsigned, or not encrypted."""

    credentials: Credentials | None = None
    tls: Tls | None = None


UNSECURED: Final = Security()
"""Neither signed nor encrypted."""
