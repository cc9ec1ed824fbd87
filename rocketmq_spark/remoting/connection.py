"""A connection to one server: many requests in flight, one reader thread.

Only the reader thread receives; it also runs callbacks and responds to the server's requests. Any thread may send. The
thread that removes a ``PendingResponse`` from the table completes it; a dictionary's ``pop`` has one winner, so the
table needs no lock. A slow sender blocks the reader only while the reader responds to a server's request, for at most
``RESPONSE_TIMEOUT_MS``; then the connection is lost.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from copy import copy
from typing import Final, TypeAlias

from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.correlation import (
    CLOSED_BY_SERVER,
    CLOSED_HERE,
    OF_PARENT_PROCESS,
    decode_command,
    opaques,
    timeout_error,
    unresponsive_error,
)
from rocketmq_spark.remoting.stream import Stream, write_timeout_error
from rocketmq_spark.security import Credentials
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.frame import FrameBuffer
from rocketmq_spark.wire.remoting.refusal import response_frame
from rocketmq_spark.wire.remoting.signature import sign

READ_BYTES: Final = 512 * 1024
SWEEP_INTERVAL_MS: Final = 200
RESPONSE_TIMEOUT_MS: Final = 3_000
CLOSE_TIMEOUT_S: Final = 2.0

OnRequest = Callable[[RemotingCommand], RemotingCommand | None]
"""Handler of a server's request: returns the response; None: the request is not supported, or is oneway."""

logger = logging.getLogger("rocketmq_spark")


def support_nothing(_request: RemotingCommand) -> None:
    """Return None: the ``OnRequest`` of a client that supports no requests of the server."""


class PendingResponse:
    """A request in flight and, once it is completed, its outcome: the response, or an error. A caller waits for it.

    Threads: any may wait; the thread that removed it from its connection's table completes it and releases ``_gate``.
    """

    __slots__ = ("_connection", "_gate", "_on_done", "_outcome", "deadline_ms", "opaque", "request", "timeout_ms")

    def __init__(
        self,
        connection: Connection,
        request: RemotingCommand,
        opaque: int,
        timeout_ms: int,
        deadline_ms: int,
        on_done: Callable[[PendingResponse], None] | None,
    ) -> None:
        self.request = request
        self.opaque = opaque
        self.timeout_ms = timeout_ms
        self.deadline_ms = deadline_ms
        self._connection = connection
        self._on_done = on_done
        self._outcome: RemotingCommand | RocketMQError | None = None
        self._gate = threading.Lock()
        self._gate.acquire()

    def result(self) -> RemotingCommand:
        """Wait for the response, at most until the deadline, and return it, whatever its code. Without a response at
        the deadline, call ``Connection.expire``. Later calls have the same outcome at once.

        Raises a copy of the request's error: TransportError[RESPONSE_TIMED_OUT | CONNECTION_LOST], or the
        RemoteProtocolError that ended the connection. Threads: any; the reader thread only after completion.
        """
        if self._outcome is None:
            self._wait()
        outcome = self._outcome
        assert outcome is not None
        if isinstance(outcome, RocketMQError):
            raise copy(outcome) from outcome  # a traceback belongs to one waiting thread
        return outcome

    def _wait(self) -> None:
        """Wait until a thread has completed the request. At the deadline, call ``Connection.expire``, which completes
        it."""
        if not self._gate.acquire(timeout=self._connection.seconds_until(self.deadline_ms)):
            self._connection.expire(self)
            self._gate.acquire()  # completed by expire(), or at this moment by the reader
        self._gate.release()

    def complete(self, outcome: RemotingCommand | RocketMQError) -> None:
        """Set the response or error, wake up the waiting threads, and run the callback on this thread. Only the thread
        that removed the request from the connection's table calls this, so it is called once."""
        self._outcome = outcome
        self._gate.release()
        if self._on_done is not None:
            self._on_done(self)


OnDone: TypeAlias = Callable[[PendingResponse], None]


class Connection:
    """A connection to one server, with many requests in flight and one reader thread. A lost one stays lost.

    The pool opens another. ``on_request`` and callbacks run on the reader thread: they must be quick, and an error that
    they raise ends the connection. With ``credentials`` every request is signed when it is sent.

    Threads: any may send, under ``_sending``; only the reader thread receives.
    """

    def __init__(
        self,
        address: str,
        stream: Stream,
        on_request: OnRequest = support_nothing,
        clock: Clock = monotonic_ms,
        credentials: Credentials | None = None,
    ) -> None:
        """Start the reader thread, over a connected stream, and send nothing."""
        self.address = address
        self.server_version = 0
        """RocketMQ's version number in the last response; 0 before the first."""
        self._credentials = credentials
        self._stream = stream
        self._on_request = on_request
        self._clock = clock
        self._pending: dict[int, PendingResponse] = {}
        self._opaques = opaques()
        self._sending = threading.Lock()
        self._loss: RocketMQError | None = None
        self._last_used_ms = self._last_received_ms = self._last_sweep_ms = clock()
        self._frames = FrameBuffer(address)
        self._reader = threading.Thread(target=self._run, name=f"rocketmq-reader-{address}", daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        state = "open" if self._loss is None else f"lost ({self._loss.condition})"
        return f"<Connection {self.address} {state}, {len(self._pending)} in flight>"

    # --------------------------------------------------------------------------------------------- public calls

    @property
    def is_open(self) -> bool:
        """Whether no loss of the connection has been detected."""
        return self._loss is None

    @property
    def idle_since_ms(self) -> int | None:
        """Time of the last request in ms by its clock, or of opening before the first request; None while a request is
        in flight."""
        return None if self._pending else self._last_used_ms

    def request(self, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Send a request and return its response. Raises what ``submit`` and ``PendingResponse.result`` raise."""
        return self.submit(request, timeout_ms).result()

    def submit(self, request: RemotingCommand, timeout_ms: int, on_done: OnDone | None = None) -> PendingResponse:
        """Send a request without waiting for the response, signed if the connection has credentials. Return its
        ``PendingResponse``, which ``on_done`` receives once, when it is completed. Its deadline is ``timeout_ms`` from
        now, and also limits sending.

        If sending fails, do not call ``on_done``, and raise TransportError[CONNECTION_LOST], the error that ended the
        connection, or LocalProtocolError. A request that the reader thread has failed meanwhile is returned instead.
        """
        pending = self._new_pending(request, timeout_ms, on_done)
        try:
            command = request if self._credentials is None else sign(request, self._credentials)
            self._send(command.frame(pending.opaque), timeout_ms)
        except RocketMQError:
            if self._pending.pop(pending.opaque, None) is not None:
                raise
        return pending

    def _new_pending(self, request: RemotingCommand, timeout_ms: int, on_done: OnDone | None) -> PendingResponse:
        """Register and return a request in flight, with the next opaque and the deadline ``timeout_ms`` from now.
        Record the current time as that of the last request. Send nothing."""
        self._last_used_ms = now_ms = self._clock()
        opaque = next(self._opaques)
        pending = self._pending[opaque] = PendingResponse(
            self, request, opaque, timeout_ms, now_ms + timeout_ms, on_done
        )
        return pending

    def close(self) -> None:
        """End the connection: the reader thread fails all requests in flight, closes the stream and ends. Wait up to
        CLOSE_TIMEOUT_S (2 s) for it, but not on the reader thread itself. Threads: any."""
        self._lose(TransportError("CONNECTION_LOST", address=self.address, reason=CLOSED_HERE))
        if threading.current_thread() is not self._reader:
            self._reader.join(CLOSE_TIMEOUT_S)

    def close_after_fork(self) -> None:
        """Mark the connection as lost and close its descriptor, in a forked child, where no reader runs. Requests in
        flight are not completed. The parent keeps its connection."""
        self._loss = TransportError("CONNECTION_LOST", address=self.address, reason=OF_PARENT_PROCESS)
        self._stream.close()

    # ------------------------------------------------------------------------------------- for PendingResponse

    def seconds_until(self, deadline_ms: int) -> float:
        """Return the time until a deadline of the connection's clock; 0 after it."""
        return max(0, deadline_ms - self._clock()) / 1000

    def expire(self, pending: PendingResponse) -> None:
        """Remove a request whose deadline passed from the table and complete it with
        TransportError[RESPONSE_TIMED_OUT]; do nothing if it is completed. If the server has sent nothing at all for
        ``UNRESPONSIVE_LIMIT_MS`` (30 s), lose the connection. The caller has compared the deadline with the clock."""
        if self._pending.pop(pending.opaque, None) is None:
            return
        pending.complete(timeout_error(self.address, pending.request.code, pending.timeout_ms))
        loss = unresponsive_error(self.address, self._clock() - self._last_received_ms)
        if loss is not None:
            self._lose(loss)

    # ------------------------------------------------------------------------------------------------- sending

    def _send(self, frames: bytes, timeout_ms: int) -> None:
        """Send within ``timeout_ms``, including the wait for other senders. Raises TransportError[CONNECTION_LOST]. If
        sending fails or is too slow, the connection is lost; if only the wait is too long, it is not. A lost connection
        raises a copy of the error that ended it."""
        deadline_ms = self._clock() + timeout_ms
        if not self._sending.acquire(timeout=timeout_ms / 1000):
            raise write_timeout_error(self.address, timeout_ms)
        try:
            if self._loss is not None:
                raise copy(self._loss)
            self._stream.sendall(frames, max(1, deadline_ms - self._clock()))
        except TransportError as error:
            self._lose(error)
            raise
        finally:
            self._sending.release()

    def _lose(self, cause: RocketMQError) -> None:
        """Shut the stream down, and record ``cause`` as the error that ended the connection, unless one is recorded.
        Later requests fail with the recorded error; the reader thread ends, closes the stream and fails all requests in
        flight."""
        if self._loss is None:
            self._loss = cause
        self._stream.shutdown()

    # ------------------------------------------------------------------------------------------- reader thread

    def _run(self) -> None:
        """Receive until the connection is lost, and expire late requests every SWEEP_INTERVAL_MS (200 ms); then close
        the stream and fail all requests in flight. The reader thread runs this. Raises no RocketMQError: it ends the
        connection, as does any other exception, which is logged and becomes TransportError[CONNECTION_LOST]."""
        try:
            while True:
                self._read()
                now_ms = self._clock()
                if now_ms - self._last_sweep_ms >= SWEEP_INTERVAL_MS:
                    self._sweep(now_ms)
        except RocketMQError as error:
            self._lose(error)
        except Exception as error:
            logger.exception(
                "INTERNAL_ERROR: Unexpected error in reader thread of address=%s; closing the connection. Report it.",
                self.address,
            )
            self._lose(TransportError("CONNECTION_LOST", address=self.address, reason=f"the reader failed: {error!r}"))
        finally:
            with self._sending:  # no thread is sending then, and later senders see the loss
                self._stream.close()
            self._fail_pending()

    def _read(self) -> None:
        """Receive once and dispatch all complete commands, or return if nothing is received for SWEEP_INTERVAL_MS (200
        ms). Raises TransportError[CONNECTION_LOST] if the server closed, RemoteProtocolError for frames that cannot be
        decoded, and what ``_dispatch`` raises."""
        data = self._stream.recv(READ_BYTES, SWEEP_INTERVAL_MS)
        if data is None:
            return
        if not data:
            raise TransportError("CONNECTION_LOST", address=self.address, reason=CLOSED_BY_SERVER)
        self._last_received_ms = self._clock()
        self._frames.feed(data)
        while (frame := self._frames.next_frame()) is not None:
            self._dispatch(decode_command(self.address, frame))

    def _dispatch(self, command: RemotingCommand) -> None:
        """Respond to a server's request. For a response, record the server's version and complete the request in flight
        with the same opaque, which runs its callback. Drop the response if there is none, as after its deadline. Raises
        what ``_respond`` and callbacks raise. Each side numbers its own requests, so the kind is checked before the
        opaque."""
        if not command.is_response:
            self._respond(command)
            return
        self.server_version = command.version
        pending = self._pending.pop(command.opaque, None)
        if pending is not None:  # else the response came after its deadline
            pending.complete(command)

    def _respond(self, request: RemotingCommand) -> None:
        """Call ``on_request`` and send its response, or "not supported" for None (``response_frame``). Send nothing for
        a oneway request. Sending waits up to RESPONSE_TIMEOUT_MS (3 s). Raises what ``on_request`` and ``_send``
        raise."""
        response = self._on_request(request)
        if not request.is_oneway:
            self._send(response_frame(request, response), RESPONSE_TIMEOUT_MS)

    def _sweep(self, now_ms: int) -> None:
        """Expire all requests in flight whose deadline is at or before ``now_ms``, which becomes the time of the last
        sweep."""
        self._last_sweep_ms = now_ms
        for pending in self._pending.copy().values():
            if now_ms >= pending.deadline_ms:
                self.expire(pending)

    def _fail_pending(self) -> None:
        """Remove all requests in flight and complete them with the error that ended the connection; call it after a
        loss."""
        assert self._loss is not None
        for opaque in self._pending.copy():
            pending = self._pending.pop(opaque, None)
            if pending is not None:
                pending.complete(self._loss)
