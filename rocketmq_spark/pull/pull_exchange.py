"""PullExchange: the pulls of one connection as bytes, and bytes as what became of them.

Ordinary answers, which nearly all are, are read by their template (``ordinary_answer``), everything else by the general
codec.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, TransportError
from rocketmq_spark.pull.pull_request import Completion, PullRequest
from rocketmq_spark.remoting.correlation import command_from, gone_silent, opaques, timed_out
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import FLAG_RESPONSE, RemotingCommand
from rocketmq_spark.wire.remoting.frame_arena import Arenas, FrameArena
from rocketmq_spark.wire.remoting.meanings import is_going_away
from rocketmq_spark.wire.remoting.ordinary_answer import AnswerTemplate, template_of
from rocketmq_spark.wire.remoting.pull import PULL_STATUS, PullAnswer, read_pull
from rocketmq_spark.wire.remoting.pull_frames import PullFrames
from rocketmq_spark.wire.remoting.refusal import not_supported, refusal


class PullExchange:
    """Numbers pulls, and finds the pull that an answer belongs to. Each that is asked is completed once.

    Not thread-safe.
    """

    def __init__(
        self, address: str, arenas: Arenas, timeout_ms: int, now_ms: int, kind: type[AnswerTemplate] = AnswerTemplate
    ) -> None:
        """``kind``: that of its template."""
        self._address = address
        self._timeout_ms = timeout_ms
        self._arena = FrameArena(address, arenas)
        self._in_flight: dict[int, tuple[PullRequest, int]] = {}
        self._opaques = opaques()
        self._kind = kind
        self._template: AnswerTemplate | None = None
        self._is_learning = True
        self._heard_ms = now_ms
        self.replies = b""
        """What the server is to be answered, which asks things too; whoever sends it takes it away."""
        self.loss: RocketMQError | None = None
        """Why nothing can be asked or answered any more."""
        self.is_leaving = False
        """The server has said that it is going away. Answers may still come, but no new pull should be asked."""

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def ask(self, requests: Iterable[PullRequest], frames: PullFrames, now_ms: int) -> bytes:
        """The frames to send, which are in flight from then on."""
        deadline_ms = now_ms + self._timeout_ms
        data = []
        for request in requests:
            opaque = next(self._opaques)
            self._in_flight[opaque] = request, deadline_ms
            data.append(frames.frame(opaque, request.next_offset, request.max_messages))
        return b"".join(data)

    def room(self) -> memoryview:
        """Where to receive."""
        return self._arena.room()

    def received(self, byte_count: int, now_ms: int) -> list[Completion]:
        """What is complete now that so many bytes have come into ``room``."""
        self._heard_ms = now_ms
        self._arena.received(byte_count)
        completions = self._received_ordinary()
        while (frame := self._arena.next_frame()) is not None:
            completions += self._received_other(frame)
            completions += self._received_ordinary()
        if self._arena.failure is not None:
            completions += self.lose(self._arena.failure)
        return completions

    def overdue(self, now_ms: int) -> list[Completion]:
        """What has not been answered in its time. To be asked when nothing more is there to be received: the owner may
        have been busy for long. A server that has gone silent as well is given up altogether."""
        late = [opaque for opaque, (_, deadline_ms) in self._in_flight.items() if now_ms >= deadline_ms]
        completions: list[Completion] = [(self._in_flight.pop(opaque)[0], self._timed_out()) for opaque in late]
        loss = gone_silent(self._address, now_ms - self._heard_ms) if late else None
        if loss is not None:
            completions += self.lose(loss)
        return completions

    def lose(self, cause: RocketMQError) -> list[Completion]:
        """Nothing more will come: all that is in flight. The first cause stays."""
        if self.loss is None:
            self.loss = cause
        lost, self._in_flight = self._in_flight, {}
        return [(request, self.loss) for request, _ in lost.values()]

    def _timed_out(self) -> TransportError:
        return timed_out(self._address, RequestCode.PULL_MESSAGE, self._timeout_ms)

    def _received_ordinary(self) -> list[Completion]:
        """By the template: all in front of what has come."""
        if self._template is None:
            return []
        answers, end = self._template.read(*self._arena.unread)
        self._arena.take_to(end)
        asked = self._in_flight.pop
        # What came after its deadline is nobody's any more.
        return [(of[0], result) for opaque, result in answers if (of := asked(opaque, None)) is not None]

    def _received_other(self, frame: memoryview) -> list[Completion]:
        """By the general codec: the first ordinary answer too, which gives the template."""
        try:
            command = command_from(self._address, frame)
        except RemoteProtocolError as error:
            return self.lose(error)
        if not command.is_response:
            self._reply(command)
            return []
        asked = self._in_flight.pop(command.opaque, None)
        return [] if asked is None else [(asked[0], self._answer(command, frame))]

    def _answer(self, answer: RemotingCommand, frame: memoryview) -> PullAnswer:
        self.is_leaving |= is_going_away(answer)
        if answer.code not in PULL_STATUS:
            return refusal(self._address, RequestCode.PULL_MESSAGE, answer)
        try:
            result = read_pull(answer)
        except RemoteProtocolError as error:
            return error
        if self._is_learning and result.body:
            self._template, self._is_learning = template_of(frame, self._kind), False
        return result

    def _reply(self, request: RemotingCommand) -> None:
        if not request.is_oneway:
            self.replies += replace(not_supported(request), flag=FLAG_RESPONSE).frame(request.opaque)
