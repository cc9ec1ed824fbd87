"""Signed requests: two or three additional fields. The last one is a signature over all fields but itself, and the
body.

RocketMQ's two access controls check it in the same way: ACL 1.0 (up to 5.3.2) and ACL 2.0 (since 5.3.0). A field added
after signing invalidates the signature.

Source: ``acl/common/AclClientRPCHook.java``, ``acl/common/AclUtils.java``.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from rocketmq_spark.model import java_string_order
from rocketmq_spark.security import Credentials, Secret
from rocketmq_spark.wire.remoting.command import RemotingCommand

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"  # noqa: S105  # the name of a field
SIGNATURE: Final = "Signature"


def sign(request: RemotingCommand, credentials: Credentials) -> RemotingCommand:
    """Return a copy of ``request`` with the access key, the security token if there is one, and the signature. The
    signature (HMAC-SHA1 in Base64) covers the values of all other fields, ordered by name, and the body."""
    fields = {**request.fields, **identity(credentials)}
    content = b"".join((*_values(fields), request.body))
    fields[SIGNATURE] = _base64(_hmac(credentials.secret_key, content).digest()).decode()
    return replace(request, fields=fields)


def identity(credentials: Credentials) -> dict[str, str]:
    """Return the fields that identify the sender: access key and, if any, security token."""
    token = credentials.security_token
    return {ACCESS_KEY: credentials.access_key} | ({} if token is None else {SECURITY_TOKEN: token.reveal()})


class SignatureTemplate:
    """Signatures of requests without body that differ in some numbers only, as pulls of one queue; what precedes the
    first number is hashed once."""

    def __init__(self, fields: Mapping[str, str], numbers: Sequence[str], secret_key: Secret) -> None:
        """``numbers``: names of the fields that differ; their values in ``fields``, if any, are ignored."""
        names = sorted({*fields, *numbers}, key=java_string_order)
        first = min(names.index(name) for name in numbers)
        self._mac_prefix = _hmac(secret_key, b"".join(_values({name: fields[name] for name in names[:first]})))
        parts = ["%d" if name in numbers else fields[name].replace("%", "%%") for name in names[first:]]
        self._suffix = "".join(parts).encode(errors="surrogatepass")

    def sign(self, *numbers: int) -> bytes:
        """Return the signature, in Base64, of the request with ``numbers``: one for each name in the template's
        ``numbers``, in ascending order of the names."""
        mac = self._mac_prefix.copy()
        mac.update(self._suffix % numbers)
        return _base64(mac.digest())


def _values(fields: Mapping[str, str]) -> list[bytes]:
    """Return the encoded value of each field, in the order of the field names in Java. Text that is not valid Unicode
    raises nothing here."""
    # Encoding the frame rejects it.
    return [fields[name].encode(errors="surrogatepass") for name in sorted(fields, key=java_string_order)]


def _hmac(secret_key: Secret, content: bytes) -> hmac.HMAC:
    """Return an HMAC-SHA1 that has hashed ``content``; the caller may add to it."""
    return hmac.new(secret_key.reveal().encode(), content, hashlib.sha1)


def _base64(digest: bytes) -> bytes:
    """Return ``digest`` in Base64, without a line break."""
    return b2a_base64(digest, newline=False)
