"""PullConnection: pulls over one stream, of one thread. The thread that waits for responses reads them itself.

To pass a response from a reader thread to a waiting one costs more than to read it. While no thread receives, responses
collect in the socket's buffer. ``PullExchange`` has the state of the connection without its stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketmq_spark.errors import TransportError
from rocketmq_spark.pull.pull_exchange import PullExchange
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.correlation import CLOSED_BY_SERVER, CLOSED_HERE, OF_PARENT_PROCESS
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate
from rocketmq_spark.wire.remoting.frame_arena import Arenas
from rocketmq_spark.wire.remoting.pull_frames import PullFrames

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock


class PullConnection:
    """One stream to one broker, and the pulls in flight on it. A lost connection stays lost; ``pull`` and ``receive``
    detect the loss."""

    def __init__(
        self,
        address: str,
        stream: Stream,
        arenas: Arenas,
        timeout_ms: int,
        clock: Clock,
        template_class: type[ResponseTemplate] = ResponseTemplate,
    ) -> None:
        """``template_class``: decoder of fast-path responses."""
        self.address = address
        self._stream = stream
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._used_ms = clock()
        self._exchange = PullExchange(address, arenas, timeout_ms, self._used_ms, template_class)

    @property
    def is_open(self) -> bool:
        """False once the loss is detected."""
        return self._exchange.loss is None

    @property
    def is_draining(self) -> bool:
        """Whether the server has announced its shutdown; responses to pulls in flight may still arrive."""
        return self._exchange.is_draining

    @property
    def in_flight_count(self) -> int:
        """Number of pulls without a response."""
        return self._exchange.in_flight_count

    @property
    def idle_since_ms(self) -> int | None:
        """Time of the last use, by the connection's clock, or None while pulls are in flight."""
        return None if self.in_flight_count else self._used_ms

    def pull(self, requests: Iterable[PullRequest], frames: PullFrames) -> list[Completion]:
        """Send pulls in one write, encoded by ``frames``. Do not wait: ``receive`` returns their completions. Return
        []. If sending fails, close the connection and return all pulls in flight, including these, with the error."""
        self._used_ms = self._clock()
        return self._send(self._exchange.encode_requests(requests, frames, self._used_ms))

    def receive(self, timeout_ms: int) -> list[Completion]:
        """Wait up to ``timeout_ms`` for bytes, and return the pulls that they complete, with results or errors; [] if
        there are none. If the connection is lost, close it and return all pulls in flight with the error. Send
        responses to the server's own requests.

        Pulls past their deadline fail only if nothing arrives: the owner may have been busy while responses waited in
        the buffer.
        """
        try:
            byte_count = self._stream.recv_into(self._exchange.writable_buffer(), timeout_ms)
        except TransportError as error:
            return self._mark_lost(error)
        if byte_count is None:
            completions = self._exchange.expire_overdue(self._clock())
        elif byte_count == 0:
            return self._mark_lost(TransportError("CONNECTION_LOST", address=self.address, reason=CLOSED_BY_SERVER))
        else:
            completions = self._exchange.received(byte_count, self._clock())
            if replies := self._exchange.take_replies():
                completions += self._send(replies)
        if not self.is_open:
            self._stream.close()
        return completions

    def close(self) -> list[Completion]:
        """Close the connection; return the pulls in flight with TransportError[CONNECTION_LOST]."""
        return self._mark_lost(TransportError("CONNECTION_LOST", address=self.address, reason=CLOSED_HERE))

    def abandon(self) -> None:
        """In a forked child, close the descriptor and drop the pulls in flight, without a shutdown: the parent's
        connection stays open."""
        self._exchange.mark_lost(TransportError("CONNECTION_LOST", address=self.address, reason=OF_PARENT_PROCESS))
        self._stream.close()

    def _send(self, data: bytes) -> list[Completion]:
        """Send frames, return []. If sending fails, close the connection, return all pulls in flight with the error."""
        try:
            self._stream.sendall(data, self._timeout_ms)
        except TransportError as error:
            return self._mark_lost(error)
        return []

    def _mark_lost(self, cause: TransportError) -> list[Completion]:
        """Shut down and close the stream, and return all pulls in flight with the first cause of the loss."""
        self._stream.shutdown()
        self._stream.close()
        return self._exchange.mark_lost(cause)
