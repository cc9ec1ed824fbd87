"""TLS over any ``Stream``.

OpenSSL does not allow two threads in one session. A socket of the ``ssl`` module lets one thread receive while another
one sends. So the session works on memory buffers, under a lock that is held for no I/O.
"""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rocketmq_spark.errors import TransportError
from rocketmq_spark.remoting.clock import monotonic_ms
from rocketmq_spark.remoting.stream import Buffer, Stream, copy_into, raising_connect_failed, raising_connection_lost

_RECORD_BYTES = 64 * 1024
_CONTROL_TIMEOUT_MS = 5_000
_HOSTNAME_MISMATCH: Final = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL, which have no names in Python."""
_CERTIFICATE_ALERT: Final = re.compile("CERTIFICATE|UNKNOWN_CA")


def tls_over(raw: Stream, address: str, context: ssl.SSLContext, host: str, timeout_ms: int) -> Stream:
    """Return a TLS stream over ``raw`` after its handshake; close ``raw`` if the handshake fails.

    Raises TransportError[CONNECT_FAILED | TLS_CERTIFICATE_UNTRUSTED | TLS_HOSTNAME_MISMATCH |
    TLS_CLIENT_CERTIFICATE_REJECTED].
    """
    try:
        with raising_connect_failed(address), raising_tls_errors(address):
            stream = TlsStream(raw, address, context, host)
            stream.handshake(timeout_ms)
    except TransportError:
        raw.close()
        raise
    return stream


@contextmanager
def raising_tls_errors(address: str) -> Iterator[None]:
    """Run the block. Replace its SSL errors by which the client rejects the server's certificate, or the server the
    client's, by a TransportError; raise all other errors unchanged.

    Raises TransportError[TLS_CERTIFICATE_UNTRUSTED | TLS_HOSTNAME_MISMATCH | TLS_CLIENT_CERTIFICATE_REJECTED].
    """
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        reason = (error.verify_message or str(error)).rstrip(".")
        if error.verify_code in _HOSTNAME_MISMATCH:
            raise TransportError("TLS_HOSTNAME_MISMATCH", address=address, reason=reason) from error
        raise TransportError("TLS_CERTIFICATE_UNTRUSTED", address=address, reason=reason) from error
    except ssl.SSLError as error:
        alert = error.reason or ""
        if "ALERT" in alert and _CERTIFICATE_ALERT.search(alert):
            raise TransportError("TLS_CLIENT_CERTIFICATE_REJECTED", address=address, reason=alert) from error
        raise


class TlsStream:
    """A TLS client session over ``raw``.

    Threads: one receives while any number send. ``_lock`` covers the session, and is held for no I/O; ``_flushing``
    keeps records in their order, and is held while they are sent.
    """

    def __init__(self, raw: Stream, address: str, context: ssl.SSLContext, host: str) -> None:
        """Send nothing: ``handshake`` must be next. ``host``: the name for SNI and verification."""
        self.address = address
        self._raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = threading.Lock()
        self._flushing = threading.Lock()

    def handshake(self, timeout_ms: int) -> None:
        """Do the handshake within ``timeout_ms``. Call it before any other use of the stream. Raises ssl.SSLError,
        TimeoutError or TransportError."""
        deadline_ms = monotonic_ms() + timeout_ms
        while not self._try_handshake():
            remaining_ms = max(0, deadline_ms - monotonic_ms())
            self._flush(remaining_ms)
            if self._fetch(remaining_ms) is None:
                raise TimeoutError(f"no TLS handshake within {timeout_ms} ms")
        self._flush(timeout_ms)

    def _try_handshake(self) -> bool:
        """Process the received bytes of the handshake. Return whether it is complete; False: more bytes are required.
        Raises ssl.SSLError."""
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def recv(self, max_bytes: int, timeout_ms: int) -> bytes | None:
        """Receive as ``Stream.recv`` does; ``timeout_ms`` limits the wait for each part of a record, so that the call
        may last longer while parts arrive. Raises TransportError[CONNECTION_LOST] and the errors of
        ``raising_tls_errors``."""
        with raising_connection_lost(self.address), raising_tls_errors(self.address):
            data = self._decrypt(max_bytes)
            while data is None and self._fetch(timeout_ms) is not None:
                data = self._decrypt(max_bytes)
            return data

    def recv_into(self, buffer: memoryview, timeout_ms: int) -> int | None:
        """Receive as ``Stream.recv_into`` does, with the limit and errors of ``recv``."""
        return copy_into(buffer, self.recv(len(buffer), timeout_ms))

    def _decrypt(self, max_bytes: int) -> bytes | None:
        """Return at most ``max_bytes`` decrypted bytes of the records fetched so far; ``b""`` at the end of the stream.
        If a record is incomplete, wait for other senders, without limit, send what the session has to send, within 5 s,
        and return None."""
        try:
            with self._lock:
                return self._session.read(max_bytes)
        except ssl.SSLWantReadError:
            self._flush(_CONTROL_TIMEOUT_MS)
            return None
        except ssl.SSLEOFError:
            return b""

    def _fetch(self, timeout_ms: int) -> bool | None:
        """Wait up to ``timeout_ms`` for encrypted bytes, and move them, or the end of the stream, to the session;
        return True. None if none arrived in time."""
        data = self._raw.recv(_RECORD_BYTES, timeout_ms)
        if data is None:
            return None
        with self._lock:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()
        return True

    def sendall(self, data: Buffer, timeout_ms: int) -> None:
        """Encrypt and send all of ``data``; ``timeout_ms`` limits the sending, not a wait for other senders. Raises
        TransportError[CONNECTION_LOST]."""
        with raising_connection_lost(self.address):
            with self._lock:
                self._session.write(data)
            self._flush(timeout_ms)

    def _flush(self, timeout_ms: int) -> None:
        """Send the records that the session has produced, in their order, within ``timeout_ms``; first wait, without
        limit, for another thread that is sending."""
        with self._flushing:
            with self._lock:
                data = self._outgoing.read()
            if data:
                self._raw.sendall(data, timeout_ms)

    def shutdown(self) -> None:
        """Shut down the raw stream; send no TLS alert."""
        self._raw.shutdown()

    def close(self) -> None:
        """Close the raw stream; send no TLS alert."""
        self._raw.close()
