"""One queue of a broker as a plain object, and the network to it: pulls are answered in any order, time by hand.

``SimulatedQueue.pull`` follows ``DefaultMessageStore#getMessage``. A message's encoded form here is its offset in eight
bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from connector_tests.support.manual_clock import ManualClock
from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import MASTER_ID, BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.pull.pull_request import Completion, PulledRange, PullRequest
from rocketmq_spark.remoting.replicas import MASTER, Server
from rocketmq_spark.remoting.retry import PULL_PAUSES
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult, PullStatus

QUEUE = MessageQueue("orders", "broker-a", 0)


def encoded(offsets: Collection[int]) -> memoryview:
    return memoryview(struct.pack(f">{len(offsets)}q", *offsets))


def offsets_of(pulled: PulledRange) -> list[int]:
    """The messages that a pulled range has; what its body has beside them is another range's."""
    offsets = struct.unpack(f">{len(pulled.body) // 8}q", pulled.body)
    return [offset for offset in offsets if pulled.begin_offset <= offset < pulled.end_offset]


@dataclass
class SimulatedQueue:
    """Holds offsets ``[min_offset, max_offset)``, of which ``is_matching`` ones pass the filter.

    ``removed_to``: below it retention has deleted the messages, but not yet corrected the min offset.
    """

    max_offset: int
    min_offset: int = 0
    removed_to: int = 0
    message_limit: int = 32
    scan_limit: int = 800
    is_matching: Callable[[int], bool] = lambda _: True

    def pull(self, offset: int, max_messages: int) -> PullResult:
        if self.max_offset == 0:
            return self._respond(PullStatus.OFFSET_ILLEGAL, "NO_MESSAGE_IN_QUEUE", 0)
        if offset < self.min_offset:
            return self._respond(PullStatus.OFFSET_ILLEGAL, "OFFSET_TOO_SMALL", self.min_offset)
        if offset == self.max_offset:
            return self._respond(PullStatus.NO_NEW_MSG, "OFFSET_OVERFLOW_ONE", offset)
        if offset > self.max_offset:
            return self._respond(PullStatus.OFFSET_ILLEGAL, "OFFSET_OVERFLOW_BADLY", self.max_offset)
        return self._scan(offset, min(max_messages, self.message_limit))

    def _scan(self, offset: int, limit: int) -> PullResult:
        found: list[int] = []
        reason, next_begin = "NO_MATCHED_MESSAGE", offset
        for at in range(offset, min(offset + self.scan_limit, self.max_offset)):
            if len(found) == limit:
                break
            next_begin = at + 1
            if not self.is_matching(at):
                reason = reason if found else "NO_MATCHED_MESSAGE"
            elif at < self.removed_to:
                reason = "MESSAGE_WAS_REMOVING"
            else:
                found.append(at)
        if found:
            return self._respond(PullStatus.FOUND, "FOUND", next_begin, found)
        return self._respond(PullStatus.NO_MATCHED_MSG, reason, next_begin)

    def _respond(self, status: PullStatus, reason: str, next_begin: int, found: Collection[int] = ()) -> PullResult:
        return PullResult(status, reason, next_begin, self.min_offset, self.max_offset, encoded(found))


NO_END = QueueBounds(0, 0)


class SimulatedNetwork:
    """The PullClient of a RangePuller.

    While answers are in flight, ``receive`` brings one of them, the one that ``choose(how many)`` says, unless
    ``is_slow``, and others while ``brings_more`` says so. Where a pull is sent without an address, the name servers
    are asked, and ``no_route`` says whether they fail, and how.
    While none is, it lasts its full time by the clock, and no time by the wall; to go on for ever so is an error.
    """

    def __init__(
        self,
        respond: Callable[[int, int], PullOutcome],
        clock: ManualClock,
        choose: Callable[[int], int] = lambda _: 0,
        is_slow: Callable[[], bool] = lambda: False,
        brings_more: Callable[[], bool] = lambda: False,
        no_route: Callable[[], RocketMQError | None] = lambda: None,
        queue: MessageQueue = QUEUE,
        respond_unfiltered: Callable[[int, int], PullOutcome] | None = None,
    ) -> None:
        """``respond_unfiltered``: to pulls without the filter; by default as ``respond``."""
        self._respond = {True: respond, False: respond_unfiltered or respond}
        self._clock = clock
        self._choose = choose
        self._is_slow = is_slow
        self._brings_more = brings_more
        self._no_route = no_route
        self._queue = queue
        self._in_flight: list[tuple[PullRequest, bool]] = []
        """Each with whether it is filtered."""
        self._nothing_for_ms = 0
        self.pulls: list[tuple[int, int]] = []
        self.addresses: list[BrokerAddress | None] = []
        self.servers: list[Server] = []
        self.suggested_id = 0
        """The server of the broker that each response suggests for the next pull."""
        self.most_in_flight = 0
        self.routes_forgotten_count = 0
        self.held = {queue: NO_END}
        """What the broker says that the queue holds. By default no more than the answers to pulls say."""

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def pull(
        self,
        queue: MessageQueue,
        requests: Sequence[PullRequest],
        address: BrokerAddress | None = None,
        server: Server = MASTER,
        *,
        is_filtered: bool,
    ) -> list[Completion]:
        assert queue == self._queue
        failure = self._no_route() if address is None else None
        if failure is not None:
            self._nothing_for_ms = 0
            return [(request, failure, MASTER_ID) for request in requests]
        for request in requests:
            offset = request.next_offset
            of_caller = (one for one, _ in self._in_flight if one.completion_queue is request.completion_queue)
            assert offset not in {one.next_offset for one in of_caller}, "pulled twice"
            self.pulls.append((offset, request.max_messages))
            self.addresses.append(address)
            self.servers.append(server)
            self._in_flight.append((request, is_filtered))
        self.most_in_flight = max(self.most_in_flight, len(self._in_flight))
        return []

    def receive(self, timeout_ms: int) -> list[Completion]:
        if not self._in_flight or self._is_slow():
            self._pass_time(timeout_ms)
            return []
        self._nothing_for_ms = 0
        completions = [self._next_completion()]
        while self._in_flight and self._brings_more():
            completions.append(self._next_completion())
        return completions

    def forget_route(self, queue: MessageQueue) -> None:
        assert queue == self._queue
        self.routes_forgotten_count += 1

    def query_bounds(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, QueueBounds]:
        return {queue: self.held[queue] for queue in queues if queue in self.held}

    def _next_completion(self) -> Completion:
        request, is_filtered = self._in_flight.pop(self._choose(len(self._in_flight)))
        return request, self._respond[is_filtered](request.next_offset, request.max_messages), self.suggested_id

    def _pass_time(self, timeout_ms: int) -> None:
        self._clock.advance(timeout_ms)
        self._nothing_for_ms += 0 if self._in_flight else timeout_ms
        assert self._nothing_for_ms <= PULL_PAUSES.longest_ms, "it waits for ever: nothing is in flight"
