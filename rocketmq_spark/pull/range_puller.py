"""RangePuller: the PullRequest loop of an executor. Reads one logged range to its end, whatever happens on the way.

``PullWindow`` decides; this module sends what it opens, receives what comes, and tries again what failed. Whoever waits
reads from the network, so a range is one thread's. While rows are decoded, answers gather in the socket's buffer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, RouteError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.pull_request import Completion, PullAction, PulledRange, PullRequest, pull_action
from rocketmq_spark.pull.pull_window import PullWindow
from rocketmq_spark.remoting.failures import Failures, OutageHistory, Policy
from rocketmq_spark.remoting.retry import (
    PULL_PAUSES,
    broker_subject,
    is_name_server_outage,
    is_topic_without_route,
    requires_route_refresh,
    retryability_of_pull,
)
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult, PullStatus

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)

MAX_DEPTH: Final = 128
"""Pulls in flight. The more there are, the less a broker's threads wait for each other and the less often they wake."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""In flight, or waiting for delivery. By default a broker answers with at most 256 KiB, or one message."""

ABSENT_LIMIT_MS: Final = 30_000
"""How long messages may be missing that the broker had when the range was planned. It corrects its min offset every
10 s while retention deletes; after that they are lost."""

RECEIVE_MS: Final = 200
"""Waited for at once; what has not been answered in its time is noticed between two waits."""


class PullClient(Protocol):
    """Who sends pulls and receives what becomes of them: the ExecutorClient. Nothing is raised."""

    def pull(
        self, queue: MessageQueue, requests: Sequence[PullRequest], address: BrokerAddress | None
    ) -> list[Completion]:
        """Send pulls of a queue to ``address``, or to where the name servers have it; what is complete already."""

    def receive(self, timeout_ms: int) -> list[Completion]:
        """What is complete of any queue; waited for so long at most."""

    def forget_route(self, queue: MessageQueue) -> None:
        """Find out anew where the queue is, with the next pull that has no address."""

    def bounds(self, queues: Collection[MessageQueue]) -> Mapping[MessageQueue, QueueBounds]:
        """Of those queues whose brokers answer now."""


class _Vacancy(NamedTuple):
    """Offsets that no message has, as the last ones that were met; and a broker's answer to a pull of any of them."""

    offsets: range
    outcome: PullResult


class RangePuller:
    """Pulls one range. Used by one thread.

    What is tried again may fail for ``limit_ms``, or for ``missing_ms`` while nobody serves the queue. The range was
    planned from a route, so it may be served again: the broker comes back, or a name server has only just been started.

    It is pulled from ``address``, where it was surveyed, until something fails. Addresses are exchanged between
    brokers, and a wrong one answers politely: before anything is said to be lost, the name servers are asked where the
    queue is.

    Where no name server answers, that is what is waited for. Nobody knows of the broker then, so it is tried where it
    was surveyed.

    ``unfiltered_client``: who pulls the same without a filter. A broker answers a filtered pull in vacant offsets as if
    its store had failed, where the message in front of them does not match; see ``PullAction.VACANT``.

    ``waited``: what others have waited for the broker or the name servers before; their time counts until the broker
    has answered here.
    """

    def __init__(
        self,
        target: QueueRange,
        client: PullClient,
        *,
        address: BrokerAddress | None = None,
        limit_ms: int,
        missing_ms: int,
        unfiltered_client: PullClient | None = None,
        waited: Callable[[str], OutageHistory] | None = None,
        clock: Clock,
    ) -> None:
        self._target = target
        self._client = client
        self._unfiltered_client = unfiltered_client
        self._planned_address = address
        self._address = address
        self._must_refresh_route = address is None
        self._retried_after_refresh: set[PullRequest] = set()
        self._limit_ms = limit_ms
        self._clock = clock
        self._window = PullWindow(target.begin_offset, target.end_offset, max_depth=MAX_DEPTH, max_bytes=MAX_BYTES)
        self._postponed: list[PullRequest] = []
        self._pause_ms = PULL_PAUSES.shortest_ms
        self._failures = Failures(Policy(retryability_of_pull, PULL_PAUSES, limit_ms, missing_ms), clock, waited)
        self._broker = broker_subject(target.queue.broker_name)
        self._absent_since_ms: int | None = None
        self._vacancy: _Vacancy | None = None

    def start(self) -> None:
        """Send the first pull, ahead of ``pulled``. Its answer waits."""
        self._send()

    def pulled(self) -> Iterator[PulledRange]:
        """Ranges that touch, in the queue's order, and that together are the wanted one.

        Raises TransportError[CLUSTER_TIMEOUT] when nothing has worked for too long, RouteError or BrokerError when
        nobody has served the queue for too long, BrokerError for any other refusal, RemoteProtocolError[PULL_STALLED]
        for answers that lead nowhere.
        """
        self._send()
        while not self._window.is_finished:
            self._process_completions()
            ready = self._window.deliver()
            self._send()  # before what came is decoded: the broker goes on meanwhile
            yield from ready

    def _send(self) -> None:
        requests = self._window.to_pull()
        if requests:
            if self._must_refresh_route:
                self._refresh_route()
            completions = self._client.pull(self._target.queue, requests, self._address)
            if self._address is None and not any(_is_without_route(outcome) for _, outcome in completions):
                self._failures.record_route(self._target.queue.topic)
            _dispatch(completions)

    def _refresh_route(self) -> None:
        """The next pull goes to where the name servers then have the queue."""
        self._must_refresh_route = False
        self._address = None
        self._client.forget_route(self._target.queue)

    def _process_completions(self) -> None:
        """All that are there; one is waited for."""
        if not self._wait():
            self._try_postponed_again()
        completion_queue = self._window.completion_queue
        while completion_queue:
            if self._window.accept_fast_path():
                self._record_success()
            else:
                self._process_completion(*completion_queue.popleft())

    def _wait(self) -> bool:
        """Until an answer is there; False: none has come before something that was postponed is due."""
        until_ms = self._clock() + self._pause_ms if self._postponed else None
        while not self._window.completion_queue:
            left_ms = RECEIVE_MS if until_ms is None else min(until_ms - self._clock(), RECEIVE_MS)
            if left_ms <= 0:
                return False
            _dispatch(self._client.receive(left_ms))
        return True

    def _process_completion(self, request: PullRequest, outcome: PullOutcome) -> None:
        if isinstance(outcome, RocketMQError):
            self._process_failure(request, outcome)
        else:
            self._process_result(request, outcome)

    def _process_result(self, request: PullRequest, result: PullResult) -> None:
        if pull_action(result, request.next_offset) is PullAction.LOST and request not in self._retried_after_refresh:
            self._retried_after_refresh.add(request)
            self._refresh_route()
            self._window.retry(request)
            return
        self._retried_after_refresh.discard(request)
        if self._is_ambiguous(request, result):
            result = self._pull_unfiltered(request) or result
        vacant_to = self._find_vacancy_end(request, result)
        if self._window.step(request, result, vacant_to) is PullAction.WAIT:
            self._failures.record_success(self._broker, None)
            self._handle_absent(request, result)
        else:
            self._record_success()

    def _is_ambiguous(self, request: PullRequest, result: PullResult) -> bool:
        """Whether nothing has matched, and nothing is said of what comes next."""
        is_unmatched = result.status is PullStatus.NO_MATCHED_MSG and result.next_begin_offset <= request.next_offset
        return (
            self._unfiltered_client is not None
            and is_unmatched
            and result.min_offset <= request.next_offset < result.max_offset
        )

    def _pull_unfiltered(self, request: PullRequest) -> PullResult | None:
        """The answer to an unfiltered pull of the next offset alone, if that is no message's."""
        if self._vacancy is not None and request.next_offset in self._vacancy.offsets:
            return self._vacancy.outcome
        return self._probe_vacancy(request.next_offset)

    def _probe_vacancy(self, offset: int) -> PullResult | None:
        client, completion_queue = self._unfiltered_client or self._client, deque[Completion]()
        alone = PullRequest(offset, offset + 1, 1, completion_queue)
        _dispatch(client.pull(self._target.queue, [alone], self._address))
        while not completion_queue:
            _dispatch(client.receive(RECEIVE_MS))
        _, outcome = completion_queue.popleft()
        if isinstance(outcome, RocketMQError) or pull_action(outcome, offset) is not PullAction.VACANT:
            return None
        return outcome

    def _find_vacancy_end(self, request: PullRequest, result: PullResult) -> int | None:
        """Where the offsets end that no message has, if the next one is such. They may be thousands: their end is
        searched for, by pulls that double their distance."""
        offset, since = request.next_offset, result.next_begin_offset
        if pull_action(result, offset) is not PullAction.VACANT:
            return None
        if self._vacancy is None or offset not in self._vacancy.offsets:
            vacant, step, end_offset = offset, 1, self._target.end_offset
            while vacant + step < end_offset and self._is_vacant(vacant + step, since):
                vacant, step = vacant + step, 2 * step
            end_offset = min(vacant + step, end_offset)
            while end_offset - vacant > 1:
                middle = (vacant + end_offset) // 2
                vacant, end_offset = (middle, end_offset) if self._is_vacant(middle, since) else (vacant, middle)
            self._vacancy = _Vacancy(range(since, end_offset), result)
        return self._vacancy.offsets.stop

    def _is_vacant(self, offset: int, since: int) -> bool:
        """Whether the message in front of ``since`` is the last one up to this offset."""
        outcome = self._probe_vacancy(offset)
        return outcome is not None and outcome.next_begin_offset == since

    def _record_success(self) -> None:
        self._failures.record_success(self._broker, self._target.queue.topic)
        self._pause_ms = PULL_PAUSES.shortest_ms
        self._absent_since_ms = None

    def _process_failure(self, request: PullRequest, error: RocketMQError) -> None:
        error = self._as_queue_unavailable(error)
        if (final_error := self._failures.record_failure(self._broker, None, error)) is not None:
            raise final_error
        if is_name_server_outage(error):
            self._address = self._planned_address
            self._retried_after_refresh.discard(request)
        elif requires_route_refresh(error):
            self._refresh_route()
        self._window.reduce_depth()
        self._postponed.append(request)

    def _as_queue_unavailable(self, error: RocketMQError) -> RocketMQError:
        """The topic was there when the range was planned: it is its broker that is away, most likely."""
        if not is_topic_without_route(error):
            return error
        queue, address = self._target.queue, error.context["address"]
        broker = queue.broker_name + ("" if self._planned_address is None else f" ({self._planned_address})")
        return RouteError(
            "TOPIC_UNAVAILABLE.QUEUE", topic=queue.topic, address=address, queue_id=queue.queue_id, broker=broker
        )

    def _handle_absent(self, request: PullRequest, result: PullResult) -> None:
        """The broker does not have the next offset now: ask again later, and where the queue is. Lost when nothing else
        has come for long."""
        self._refresh_route()
        now_ms = self._clock()
        self._absent_since_ms = now_ms if self._absent_since_ms is None else self._absent_since_ms
        waited_ms, offset = now_ms - self._absent_since_ms, request.next_offset
        is_route_current = not self._failures.are_name_servers_unresponsive
        if (
            waited_ms >= ABSENT_LIMIT_MS
            and is_route_current
            and self._window.presume_lost(request, self._with_queue_end(result))
        ):
            log.warning(
                "OFFSETS_UNREADABLE: Broker returned no message at queue=%s offset=%d for %d s; treating it, up to "
                "the next offset that the broker has, as lost: %s",
                self._target.queue,
                offset,
                waited_ms // 1000,
                result.reason,
            )
        elif waited_ms >= max(ABSENT_LIMIT_MS, self._limit_ms):
            raise RemoteProtocolError(
                "PULL_STALLED",
                queue=str(self._target.queue),
                offset=offset,
                reason=result.reason,
                waited_ms=waited_ms,
            )
        else:
            self._postponed.append(request)

    def _with_queue_end(self, result: PullResult) -> PullResult:
        """With where the queue ends by what its broker says of all of it. Answers to pulls may name less, of a part."""
        bounds_of_queue = self._client.bounds((self._target.queue,)).get(self._target.queue)
        queue_end = self._target.end_offset if bounds_of_queue is None else bounds_of_queue.max_offset
        return result._replace(max_offset=max(result.max_offset, queue_end))

    def _try_postponed_again(self) -> None:
        self._pause_ms = PULL_PAUSES.after(self._pause_ms)
        for request in self._postponed:
            self._window.retry(request)
        self._postponed.clear()


def _is_without_route(outcome: PullOutcome) -> bool:
    return isinstance(outcome, RocketMQError) and is_name_server_outage(outcome)


def _dispatch(completions: Sequence[Completion]) -> None:
    """To the ranges that asked: those that are asked for ahead share connections with the one that is read."""
    for completion in completions:
        completion[0].completion_queue.append(completion)


def new_range_puller(
    target: QueueRange,
    client: PullClient,
    options: ReadOptions,
    clock: Clock,
    address: BrokerAddress | None = None,
    waited: Callable[[str], OutageHistory] | None = None,
    unfiltered_client: PullClient | None = None,
) -> RangePuller:
    """The puller of an executor, which waits as long as the options say."""
    return RangePuller(
        target,
        client,
        address=address,
        limit_ms=options.cluster_timeout_ms,
        missing_ms=options.missing_queues_limit_ms,
        unfiltered_client=unfiltered_client,
        waited=waited,
        clock=clock,
    )
