"""A gate in a broker's proxy that executors' pulls wait at, so that a test can act in the middle of a micro-batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from connector_tests.support.fault_proxy import Direction, FaultProxy
from connector_tests.support.timeouts import END_TO_END_S
from rocketmq_spark.wire.remoting.codes import PullSysFlag, RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode
from rocketmq_spark.wire.remoting.frame import FrameBuffer

REACHED_TIMEOUT_S = END_TO_END_S


class PullGate:
    """Executors' pulls wait here while it is shut; other requests pass, the long polls of idle readers among them."""

    def __init__(self, free_pulls: int) -> None:
        self._free_pulls = free_pulls
        self._reached = threading.Event()
        self._opened = threading.Event()
        self._of_thread = threading.local()

    def await_pull(self) -> None:
        """Return when a pull waits."""
        assert self._reached.wait(REACHED_TIMEOUT_S), "no executor has pulled"

    def open(self) -> None:
        self._opened.set()

    def pass_through(self, data: bytes, direction: Direction) -> bytes:
        """A FaultProxy's fault. Each of its threads carries one direction of one connection."""
        if direction is Direction.TO_SERVER and (pulls := sum(map(_is_executors_pull, self._commands(data)))):
            self._free_pulls -= pulls
            if self._free_pulls < 0:
                self._reached.set()
                self._opened.wait()
        return data

    def _commands(self, data: bytes) -> Iterator[RemotingCommand]:
        if not hasattr(self._of_thread, "frames"):
            self._of_thread.frames = FrameBuffer("the client")
        self._of_thread.frames.feed(data)
        while (frame := self._of_thread.frames.next_frame()) is not None:
            yield decode(frame)


@contextmanager
def shut_gate(proxy: FaultProxy, free_pulls: int = 0) -> Iterator[PullGate]:
    """Let ``free_pulls`` pulls of executors pass and hold what comes then; at the end of the block all continues."""
    gate = PullGate(free_pulls)
    proxy.inject(gate.pass_through)
    try:
        yield gate
    finally:
        gate.open()
        proxy.pass_through()


def _is_executors_pull(command: RemotingCommand) -> bool:
    is_pull = command.code == RequestCode.PULL_MESSAGE and not command.is_response
    return is_pull and not int(command.fields["sysFlag"]) & PullSysFlag.SUSPEND
