"""Failures: what does not work now, for how long that may last, and what is logged of it; and calls that are retried.

Pure: clock and sleep are arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.remoting.retry import NAME_SERVERS, Outlook, Patience, Pauses, is_without_route
from rocketmq_spark.remoting.waits import QUIET_MS, WaitLines

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)

Sleep: TypeAlias = Callable[[float], None]

T = TypeVar("T")


class Policy(NamedTuple):
    """Which failures are retried, with what pauses, and for how long.

    ``limit_ms``: for what passes by itself; ``unserved_ms``: for what lasts until an operator changes it.
    """

    outlook_of: Callable[[RocketMQError], Outlook]
    pauses: Pauses
    limit_ms: int
    unserved_ms: int


class Failures:
    """What fails now, by subject: a broker, a topic, a queue; and the name servers, while no route can be found.

    A subject's time begins when a name server answers, unless these come and go. Not thread-safe.
    """

    def __init__(self, policy: Policy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._patience = Patience(policy.outlook_of)
        self._lines = WaitLines()
        self._unrouted: set[str] = set()
        """Topics whose routes the name servers did not tell."""

    def retrying(self, call: Callable[[], T], subject: str, topic: str, sleep: Sleep) -> T:
        """Return what ``call`` does, as often as it takes. ``topic``: whose route it needs.

        Raises what ``failed`` returns.
        """
        for _ in self.attempts(sleep):
            try:
                result = call()
            except RocketMQError as error:
                if (over := self.failed(subject, topic, error)) is not None:
                    raise over from over.__cause__
            else:
                self.succeeded(subject, topic)
                return result
        raise AssertionError("attempts do not end")

    def attempts(self, sleep: Sleep) -> Iterator[None]:
        """Yield without end, with the policy's pauses between."""
        pause_ms = None
        while True:
            yield
            pause_ms = self._policy.pauses.after(pause_ms)
            sleep(pause_ms / 1000)

    def failed(self, subject: str, topic: str, error: RocketMQError) -> RocketMQError | None:
        """Note and log a failure. Return None if another attempt may succeed.

        Else ``error``, or TransportError[CLUSTER_UNREACHABLE] around it: see ``Patience.over``.
        """
        outlook, now_ms = self._policy.outlook_of(error), self._clock()
        if outlook is Outlook.FINAL:
            return error
        if is_without_route(error):
            self._unrouted.add(topic)
            self._patience.excuse((subject,), now_ms, beside_ms=self._policy.limit_ms)
            subject = NAME_SERVERS
        else:
            self._routed(topic)
        limit_ms = self._policy.unserved_ms if outlook is Outlook.UNSERVED else self._policy.limit_ms
        self._patience.failed(subject, error, now_ms=now_ms, limit_ms=limit_ms, quiet_ms=QUIET_MS)
        self._log()
        return self._patience.over(subject, now_ms)

    def succeeded(self, subject: str, topic: str) -> None:
        """It works, or is not waited for any more."""
        were_silent = self._routed(topic)
        if self._patience.succeeded(subject) or were_silent:
            self._log()

    def _routed(self, topic: str) -> bool:
        """Return whether name servers were failing that have told where ``topic`` is. A route that was known before
        shows nothing of them."""
        if topic not in self._unrouted:
            return False
        self._unrouted.clear()
        return self._patience.succeeded(NAME_SERVERS)

    def _log(self) -> None:
        for line in self._lines.lines(self._patience.waits(), self._clock()):
            log.warning("%s", line)
