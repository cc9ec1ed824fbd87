"""How connections are opened: plain, or with TLS as the options say.

The files are read anew for each connection, in the process that makes it: renewed certificates count from the next
connection on.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial

from rocketmq_spark.errors import OptionError
from rocketmq_spark.remoting.stream import Stream, reason_of
from rocketmq_spark.remoting.tcp import connect_tcp
from rocketmq_spark.security import Tls

Connect = Callable[[str, int], Stream]
"""(address, timeout_ms) to a connected stream; raises TransportError[CONNECT_FAILED]."""


def connect_with(tls: Tls | None) -> Connect:
    """What opens connections that are encrypted as ``tls`` says, or not at all."""
    return connect_tcp if tls is None else partial(_connect_tls, tls)


def _connect_tls(tls: Tls, address: str, timeout_ms: int) -> Stream:
    return connect_tcp(address, timeout_ms, tls_context(tls))


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Raises OptionError[BAD_TLS_FILE]."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.auth_server and tls.check_host_name
    context.verify_mode = ssl.CERT_REQUIRED if tls.auth_server else ssl.CERT_NONE
    _load("tlsTrustCertPath", tls.trust_cert_path, partial(_trust, context, tls))
    _load("tlsCertPath", tls.cert_path, partial(_present, context, tls))
    return context


def _trust(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.trust_cert_path is not None:
        context.load_verify_locations(tls.trust_cert_path)
    elif tls.auth_server:
        context.load_default_certs()


def _present(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.cert_path is not None:
        # An encrypted key without a password would be asked for at the terminal.
        password = "" if tls.key_password is None else tls.key_password.reveal()
        context.load_cert_chain(tls.cert_path, tls.key_path, password)


def _load(option: str, path: str | None, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:
        problem = reason_of(error)
        raise OptionError(
            "BAD_TLS_FILE", option=option, path=str(path), host=socket.gethostname(), problem=problem
        ) from None
