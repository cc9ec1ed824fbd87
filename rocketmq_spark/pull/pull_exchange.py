"""PullExchange: pulls in flight on one connection, their deadlines and their responses, without the stream."""

from __future__ import annotations

from collections.abc import Iterable

from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.model import MASTER_ID
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.correlation import decode_command, opaques, timeout_error, unresponsive_error
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.fast_path_response import ResponseTemplate, template_of
from rocketmq_spark.wire.remoting.frame_arena import Arenas, FrameArena
from rocketmq_spark.wire.remoting.meanings import is_go_away
from rocketmq_spark.wire.remoting.pull import PULL_STATUS, PullOutcome, read_pull, suggested_broker_id
from rocketmq_spark.wire.remoting.pull_frames import PullFrames
from rocketmq_spark.wire.remoting.refusal import refusal_error, response_frame


class PullExchange:
    """State of one connection's pulls, without a socket: assigns an opaque to each pull, and matches responses to
    pulls. Each pull is completed once. PullConnection sends and receives. Not thread-safe.

    Nearly all responses are read by the template of fast-path responses (``fast_path_response``), the rest by the
    general codec.
    """

    def __init__(
        self,
        address: str,
        arenas: Arenas,
        timeout_ms: int,
        now_ms: int,
        template_class: type[ResponseTemplate] = ResponseTemplate,
    ) -> None:
        """``template_class``: decoder of fast-path responses."""
        self._address = address
        self._timeout_ms = timeout_ms
        self._arena = FrameArena(address, arenas)
        self._in_flight: dict[int, tuple[PullRequest, int]] = {}
        self._opaques = opaques()
        self._template_class = template_class
        self._template: ResponseTemplate | None = None
        self._needs_template = True
        self._suggested_id = MASTER_ID
        """Which server the responses that match the template suggest for the next pull."""
        self._last_received_ms = now_ms
        self._replies = b""
        self.loss: RocketMQError | None = None
        """Why the connection is lost; None while it is open."""
        self.is_draining = False
        """Whether the server has announced that it shuts down. Responses may still arrive, but no new pull should be
        sent."""

    @property
    def in_flight_count(self) -> int:
        """Number of pulls without a response."""
        return len(self._in_flight)

    def encode_requests(self, requests: Iterable[PullRequest], frames: PullFrames, now_ms: int) -> bytes:
        """Record ``requests`` as in flight, each with a new opaque and a deadline of ``timeout_ms`` after ``now_ms``.
        Return their frames; the caller sends them now."""
        deadline_ms = now_ms + self._timeout_ms
        data = []
        for request in requests:
            opaque = next(self._opaques)
            self._in_flight[opaque] = request, deadline_ms
            data.append(frames.frame(opaque, request.next_offset, request.max_messages))
        return b"".join(data)

    def writable_buffer(self) -> memoryview:
        """Return the buffer to receive into."""
        return self._arena.writable_buffer()

    def received(self, byte_count: int, now_ms: int) -> list[Completion]:
        """Process ``byte_count`` bytes received into ``writable_buffer``; return the pulls completed by them, with
        results or errors. The caller then sends ``take_replies``. For a malformed frame, mark the connection as lost,
        and return all pulls in flight as failed."""
        self._last_received_ms = now_ms
        self._arena.received(byte_count)
        completions = self._decode_fast_path()
        while (frame := self._arena.next_frame()) is not None:
            completions += self._decode_other(frame)
            completions += self._decode_fast_path()
        if self._arena.failure is not None:
            completions += self.mark_lost(self._arena.failure)
        return completions

    def take_replies(self) -> bytes:
        """Return the frames to send in response to the server's own requests, each once; b"" without any."""
        replies, self._replies = self._replies, b""
        return replies

    def expire_overdue(self, now_ms: int) -> list[Completion]:
        """Remove the pulls without a response by their deadline, and return them with a timeout error. If one is late
        and the server has sent nothing for too long, mark the connection as lost, and return all other pulls as failed
        too. Call it only when there is nothing to receive: the owner may have been busy."""
        late = [opaque for opaque, (_, deadline_ms) in self._in_flight.items() if now_ms >= deadline_ms]
        completions: list[Completion] = [
            (self._in_flight.pop(opaque)[0], self._timed_out(), MASTER_ID) for opaque in late
        ]
        loss = unresponsive_error(self._address, now_ms - self._last_received_ms) if late else None
        if loss is not None:
            completions += self.mark_lost(loss)
        return completions

    def mark_lost(self, cause: RocketMQError) -> list[Completion]:
        """Mark the connection as lost, remove all pulls in flight, and return them with the error ``loss``: the first
        cause, also in later calls. The caller closes the stream."""
        if self.loss is None:
            self.loss = cause
        lost, self._in_flight = self._in_flight, {}
        return [(request, self.loss, MASTER_ID) for request, _ in lost.values()]

    def _timed_out(self) -> TransportError:
        """Return TransportError[RESPONSE_TIMED_OUT] of a pull, not raised."""
        return timeout_error(self._address, RequestCode.PULL_MESSAGE, self._timeout_ms)

    def _decode_fast_path(self) -> list[Completion]:
        """Decode received frames by the template, up to the first frame that does not match. Return the pulls
        completed, with their suggested server; [] without a template. Drop responses without a pull in flight."""
        if self._template is None:
            return []
        responses, end = self._template.read(*self._arena.unread)
        self._arena.advance_to(end)
        pending, suggested_id = self._in_flight.pop, self._suggested_id
        # A response after its deadline has no pull: that is completed already.
        return [
            (of[0], result, suggested_id) for opaque, result in responses if (of := pending(opaque, None)) is not None
        ]

    def _decode_other(self, frame: memoryview) -> list[Completion]:
        """Decode a frame by the general codec, and return the completed pull; [] for a response without a pull in
        flight. For a request of the server, keep the response for ``take_replies`` and return []. For a malformed
        frame, mark the connection as lost, and return all pulls in flight as failed."""
        try:
            command = decode_command(self._address, frame)
        except RemoteProtocolError as error:
            return self.mark_lost(error)
        if not command.is_response:
            if not command.is_oneway:
                self._replies += response_frame(command)
            return []
        pending = self._in_flight.pop(command.opaque, None)
        outcome = self._decode_response(command, frame)
        if pending is None:
            return []
        return [(pending[0], outcome, suggested_broker_id(command))]

    def _decode_response(self, response: RemotingCommand, frame: memoryview) -> PullOutcome:
        """Return the result of a pull, or its error, which is not raised; set ``is_draining`` for GO_AWAY. Make the
        template of fast-path responses from the first response with messages, and again from each that suggests another
        server."""
        self.is_draining |= is_go_away(response)
        if response.code not in PULL_STATUS:
            return refusal_error(self._address, RequestCode.PULL_MESSAGE, response)
        try:
            result = read_pull(response)
        except RemoteProtocolError as error:
            return error
        suggested_id = suggested_broker_id(response)
        if result.body and (self._needs_template or suggested_id != self._suggested_id):
            self._template, self._needs_template = template_of(frame, self._template_class), False
            self._suggested_id = suggested_id
        return result
