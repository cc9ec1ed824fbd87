"""A server that uses RocketMQ's frames over real streams, and responds as the test scripts it.

It serves in-memory streams (``connect`` is a pool's Connect) and TCP on the loopback interface (``listen``). A request
code without a script is answered like by a broker that does not know it: code 3.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import RemoteProtocolError, TransportError
from rocketmq_spark.remoting.memory import memory_pair
from rocketmq_spark.remoting.stream import Stream
from rocketmq_spark.remoting.tcp import TcpStream
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.command import FLAG_RESPONSE, RemotingCommand, decode, encode
from rocketmq_spark.wire.remoting.frame import FrameBuffer

FOREVER_MS = 3_600_000

Script = Callable[[RemotingCommand], "RemotingCommand | None"]


def build_response(
    code: int = ResponseCode.SUCCESS,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    remark: str | None = None,
) -> RemotingCommand:
    """Return a response without its opaque, which the session adds."""
    return RemotingCommand(code, remark=remark, fields=fields or {}, body=body)


class Session:
    """One client's connection, seen from the server. ``received`` holds every command it has sent."""

    def __init__(self, stream: Stream, script_of: Callable[[RemotingCommand], Script]) -> None:
        self.received: queue.Queue[RemotingCommand] = queue.Queue()
        self.ended = threading.Event()
        self._stream = stream
        self._script_of = script_of
        self._thread = threading.Thread(target=self._serve, name="scripted-broker-session", daemon=True)
        self._thread.start()

    def send(self, command: RemotingCommand) -> None:
        """Send a command as it stands: a request of the server, or an answer that a script held back."""
        self._stream.sendall(encode(command), FOREVER_MS)

    def send_bytes(self, data: bytes) -> None:
        self._stream.sendall(data, FOREVER_MS)

    def reply(self, request: RemotingCommand, reply: RemotingCommand) -> None:
        self.send(replace(reply, opaque=request.opaque, flag=FLAG_RESPONSE))

    def next_received(self) -> RemotingCommand:
        return self.received.get(timeout=WAIT_S)

    def hang_up(self) -> None:
        self._stream.shutdown()
        self._thread.join(WAIT_S)

    def _serve(self) -> None:
        """A client that uses something else, such as TLS, is hung up on, as a broker without it does."""
        frames = FrameBuffer("the client")
        with suppress(TransportError, RemoteProtocolError):
            while data := self._stream.recv(1 << 20, FOREVER_MS):
                frames.feed(data)
                while (frame := frames.next_frame()) is not None:
                    self._handle(decode(frame))
        self._stream.close()
        self.ended.set()

    def _handle(self, command: RemotingCommand) -> None:
        self.received.put(command)
        if command.is_response or command.is_oneway:
            return
        reply = self._script_of(command)(command)
        if reply is not None:
            self.reply(command, reply)


class ScriptedBroker:
    """Context manager. ``on(code, script)`` sets the response to a request code; None from a script: no response."""

    def __init__(self) -> None:
        self._scripts: dict[int, Script] = {}
        self._sessions: queue.Queue[Session] = queue.Queue()
        self._all_sessions: list[Session] = []
        self._listener: socket.socket | None = None
        self.connect_count = 0

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def on(self, code: int, script: Script | RemotingCommand) -> None:
        self._scripts[code] = (lambda _request: script) if isinstance(script, RemotingCommand) else script

    def unresponsive_on(self, code: int) -> None:
        """Requests with this code are received and never answered."""
        self._scripts[code] = lambda _request: None

    def connect(self, address: str, _timeout_ms: int) -> Stream:
        """A pool's Connect: a new in-memory stream to this server, whatever the address."""
        ours, theirs = memory_pair(address)
        self._begin(theirs)
        return ours

    def listen(self) -> str:
        """Serve TCP as well; returns ``127.0.0.1:port``."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, args=(self._listener,), name="scripted-broker", daemon=True).start()
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def next_session(self) -> Session:
        """The next connection that a client made, in order."""
        return self._sessions.get(timeout=WAIT_S)

    def stop(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for session in self._all_sessions:
            session.hang_up()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                self._begin(TcpStream(accepted, "the client"))

    def _begin(self, stream: Stream) -> None:
        self.connect_count += 1
        session = Session(stream, self._script_of)
        self._all_sessions.append(session)
        self._sessions.put(session)

    def _script_of(self, request: RemotingCommand) -> Script:
        return self._scripts.get(request.code, _not_supported)


def _not_supported(request: RemotingCommand) -> RemotingCommand:
    return build_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"request type {request.code} not supported")
