"""``Telemetry``: the stream by which a proxy identifies this client while the stream is open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Final

import grpc

from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.proxy.connection import Connection, parse_response
from rocketmq_spark.proxy.failures import check_control_response, failure_of
from rocketmq_spark.wire.grpc.messaging_pb2 import TelemetryCommand

METHOD: Final = "Telemetry"
CLOSE_TIMEOUT_S: Final = 2.0


class Telemetry:
    """A telemetry stream to a proxy: sends the client's settings once, receives the response, and stays open.

    Later commands of the proxy get no response.

    Threads: ``rocketmq-proxy-telemetry`` receives; one thread calls all else. Any thread may read ``is_over``.
    """

    def __init__(self, connection: Connection, settings: TelemetryCommand, timeout_ms: int) -> None:
        """Open the stream, which sends ``settings``, and start the thread; wait for nothing. Raises what
        ``Connection.open_stream`` does."""
        self._connection = connection
        self._timeout_ms = timeout_ms
        self._ending = threading.Event()
        self._received: SimpleQueue[TelemetryCommand | RocketMQError] = SimpleQueue()
        self._call = connection.open_stream(METHOD, self._requests(settings))
        self._thread = threading.Thread(target=self._receive, name="rocketmq-proxy-telemetry", daemon=True)
        self._thread.start()

    def wait_for_response(self) -> TelemetryCommand:
        """Wait up to ``timeout_ms`` for the proxy's first command and return it; call this once. Raises what
        ``failure_of`` returns, RemoteProtocolError[MALFORMED_RESPONSE.BODY | RESPONSE_TOO_LARGE], and
        TransportError[RESPONSE_TIMED_OUT] after this time, also if the stream has ended without a command."""
        try:
            received = self._received.get(timeout=self._timeout_ms / 1000)
        except Empty:
            raise TransportError(
                "RESPONSE_TIMED_OUT", address=self._connection.address, request=METHOD, timeout_ms=self._timeout_ms
            ) from None
        if isinstance(received, RocketMQError):
            raise received
        return received

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended: closed, failed, or ended by the proxy."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """Cancel the stream and end its thread, for which it waits up to CLOSE_TIMEOUT_S (2 s)."""
        self._ending.set()
        self._call.cancel()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _requests(self, settings: TelemetryCommand) -> Iterator[TelemetryCommand]:
        """Yield ``settings``, then wait until the stream ends. An iterator that ends would half-close it."""
        yield settings
        self._ending.wait()

    def _receive(self) -> None:
        """Put the proxy's first command, or the error, into ``_received``; then read and ignore commands until the
        stream ends, and end ``_requests``. The telemetry thread runs this; it raises none of the stream's errors."""
        try:
            for data in islice(self._call, 1):
                check_control_response(data, self._connection.address, METHOD)
                self._received.put(parse_response(TelemetryCommand, data))
            for _ in self._call:
                pass  # until the stream ends, which the proxy decides
        except RocketMQError as error:
            self._received.put(error)
        except grpc.RpcError as error:
            self._received.put(failure_of(error, self._connection.address, METHOD, self._timeout_ms))
        finally:
            self._ending.set()
