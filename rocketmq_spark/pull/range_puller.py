"""RangePuller: the PullRequest loop of an executor. It reads one logged range to its end, and retries failures.

``PullWindow`` decides; this module sends its requests, receives responses, and retries. The thread that waits also
reads from the network, so one thread uses a range. While rows are decoded, responses collect in the socket's buffer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rocketmq_spark.errors import RocketMQError
from rocketmq_spark.model import BrokerAddress, QueueRange
from rocketmq_spark.options import RangeReadOptions
from rocketmq_spark.pull.absent_offsets import AbsentAction, AbsentOffsets
from rocketmq_spark.pull.pull_request import (
    Completion,
    CompletionQueue,
    PullAction,
    PullClient,
    PulledRange,
    PullRequest,
    as_queue_unavailable,
    pull_action,
    stalled_error,
)
from rocketmq_spark.pull.pull_window import PullWindow
from rocketmq_spark.pull.server_choice import ServerEvent, next_server, suggested_server
from rocketmq_spark.pull.vacancies import Vacancies, VacancySearch, may_be_vacant
from rocketmq_spark.remoting.error_kinds import is_name_server_outage
from rocketmq_spark.remoting.failures import Failures, OutageHistory
from rocketmq_spark.remoting.outage_log import broker_subject
from rocketmq_spark.remoting.replicas import FIRST_SERVERS, FROM_MASTER
from rocketmq_spark.remoting.retry import PULL_PAUSES, Policy, requires_route_refresh, retryability_of_pull
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult

if TYPE_CHECKING:
    from rocketmq_spark.remoting.clock import Clock

log = logging.getLogger(__name__)

MAX_DEPTH: Final = 128
"""Maximum number of pulls in flight. With more of them, a broker's threads wait for each other less, and wake less
often."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Maximum size in flight or waiting for delivery. By default a broker's response has at most 256 KiB, or one
message."""

RECEIVE_MS: Final = 200
"""Maximum time of one wait; overdue pulls are detected between two waits."""


class RangePuller:
    """Pulls one planned offset range of a queue for a Spark task, and retries failures. Used by one thread.

    Failures are retried for ``limit_ms``, or for ``missing_ms`` while no broker serves the queue: it may return with
    its broker, or after a restarted name server has registrations. A postponed request waits for a pause. An absent
    offset is one that the broker lacks now.

    Pulls go to ``address``, where the range was planned, until one fails. Brokers may exchange addresses, and the wrong
    broker responds without an error: the route is refreshed before offsets count as lost. Without an address, pulls go
    by route to the server that ``server_choice`` selects, the first one by ``read_from``.

    ``is_filtered``: pull with the topic's filter. If a filter rejects the message before vacant offsets, a broker
    responds there as if its store had failed; see ``PullAction.VACANT``. ``waited``: outages of the broker or the name
    servers in earlier tasks; their time counts until the broker responds here.
    """

    def __init__(
        self,
        target: QueueRange,
        client: PullClient,
        *,
        address: BrokerAddress | None = None,
        limit_ms: int,
        missing_ms: int,
        is_filtered: bool = False,
        waited: Callable[[str], OutageHistory] | None = None,
        read_from: str = FROM_MASTER,
        clock: Clock,
    ) -> None:
        self._target = target
        self._client = client
        self._is_filtered = is_filtered
        self._planned_address = address
        self._address = address
        self._must_invalidate_route = address is None
        self._server = FIRST_SERVERS[read_from]
        self._clock = clock
        self._completion_queue: CompletionQueue = deque()
        self._window = PullWindow(
            target.begin_offset,
            target.end_offset,
            max_depth=MAX_DEPTH,
            max_bytes=MAX_BYTES,
            completion_queue=self._completion_queue,
        )
        self._postponed: list[PullRequest] = []
        self._pause_ms = PULL_PAUSES.shortest_ms
        self._failures = Failures(Policy(retryability_of_pull, PULL_PAUSES, limit_ms, missing_ms), clock, waited)
        self._broker = broker_subject(target.queue.broker_name)
        self._absent = AbsentOffsets(limit_ms, missing_ms)
        self._vacancies = Vacancies()
        self._logged_lost_to: set[int] = set()
        """Ends of the lost offsets that were logged: each pull in flight finds the same loss."""

    def start(self) -> None:
        """Send the first pulls; wait for no response to them, only for a connection. ``pull`` processes failures."""
        self._send()

    def pull(self) -> Iterator[PulledRange]:
        """Pull the range while the caller iterates, and yield contiguous results in the queue's order. A step waits for
        the next result. Send pulls ahead, and retry failed ones with pauses.

        Raises TransportError[CLUSTER_TIMEOUT] when retries have failed for ``limit_ms``, RouteError or BrokerError when
        no broker has served the queue for ``missing_ms``, and permanent errors at once. Raises
        RemoteProtocolError[PULL_STALLED] for responses that do not advance.
        """
        self._send()
        while not self._window.is_finished:
            self._process_completions()
            ready = self._window.deliver()
            self._send()  # before rows are decoded, so that the broker works meanwhile
            yield from ready

    def _send(self) -> None:
        """Invalidate the route if this is due. Send the pulls that the window allows now, if any. Dispatch those that
        failed at once. If pulls by route reached a name server, record the end of its outage."""
        requests = self._window.take_requests(self._server)
        if requests:
            if self._must_invalidate_route:
                self._invalidate_route()
            completions = self._submit(requests, is_filtered=self._is_filtered)
            if self._address is None and not any(_is_name_server_outage(outcome) for _, outcome, _ in completions):
                self._failures.record_route(self._target.queue.topic)
            _dispatch(completions)

    def _submit(self, requests: Sequence[PullRequest], *, is_filtered: bool) -> list[Completion]:
        """Send ``requests`` to the current server, see ``PullClient.pull``, and return those completed already."""
        return self._client.pull(self._target.queue, requests, self._address, self._server, is_filtered=is_filtered)

    def _invalidate_route(self) -> None:
        """Invalidate the route, without a request: the next pull requests it, and goes to the queue's broker in it."""
        self._must_invalidate_route = False
        self._address = None
        self._client.forget_route(self._target.queue)

    def _require_master(self) -> None:
        """From now on pull from the master only, in a new route, since a slave may lack messages. Send nothing."""
        self._server = next_server(self._server, ServerEvent.OFFSETS_ABSENT)
        self._invalidate_route()

    def _process_completions(self) -> None:
        """Wait for a completion of this range if there is none, then process all. If the pause of the postponed
        requests is over first, make them idle: ``_send`` then sends them. Raises the errors of ``pull``."""
        if not self._wait():
            self._try_postponed_again()
        while self._completion_queue:
            request, outcome, suggested_id = self._completion_queue[0]
            if isinstance(outcome, PullResult) and (server := suggested_server(self._server, suggested_id)):
                self._server, self._address = server, None
            accepted = self._window.accept_fast_path(self._completion_queue)
            for _ in range(accepted or 1):
                self._completion_queue.popleft()
            if accepted:
                self._record_success()
            elif isinstance(outcome, RocketMQError):
                self._process_failure(request, outcome)
            else:
                self._process_result(request, outcome)

    def _wait(self) -> bool:
        """Receive until this range's completion queue has an entry, which stays there, and return True. Return False if
        the pause of postponed requests is over before; without them, wait without limit. Completions of other ranges go
        into the queues of these ranges."""
        until_ms = self._clock() + self._pause_ms if self._postponed else None
        while not self._completion_queue:
            left_ms = RECEIVE_MS if until_ms is None else min(until_ms - self._clock(), RECEIVE_MS)
            if left_ms <= 0:
                return False
            _dispatch(self._client.receive(left_ms))
        return True

    def _process_result(self, request: PullRequest, result: PullResult) -> None:
        """Pass a response to the window. At the first response that shows offsets as lost, pull them again instead,
        once, from the master in a new route. If offsets of a filtered response may be vacant, pull them without a
        filter, and wait. Raises the errors of ``_handle_absent``."""
        action = pull_action(result, request.next_offset)
        if action is PullAction.LOST and not self._absent.try_confirm_loss(request):
            self._require_master()
            self._window.retry(request)
            return
        self._absent.discard_loss(request)
        if self._is_filtered and may_be_vacant(result, request.next_offset):
            vacant = self._pull_unfiltered(request)
            result, action = (result, action) if vacant is None else (vacant, PullAction.VACANT)
        vacant_to = self._find_vacancy_end(request, result) if action is PullAction.VACANT else None
        self._window.step(request, result, action, vacant_to)
        if action is PullAction.WAIT:
            self._failures.record_success(self._broker, None)
            self._handle_absent(request, result)
        else:
            self._record_success()

    def _pull_unfiltered(self, request: PullRequest) -> PullResult | None:
        """Return the broker's response to an unfiltered pull of the request's next offset if it is vacant, else None.
        Pull and wait, see ``_probe_vacancy``, unless the cached vacancy has the offset."""
        cached = self._vacancies.response_at(request.next_offset)
        return self._probe_vacancy(request.next_offset) if cached is None else cached

    def _probe_vacancy(self, offset: int) -> PullResult | None:
        """Pull ``offset`` alone, unfiltered, and wait. Return the response if no message has the offset. Return None if
        one has, or the pull failed, which is not retried. Completions of other pulls go into their queues."""
        completion_queue = deque[Completion]()
        _dispatch(self._submit([PullRequest(offset, offset + 1, 1, completion_queue)], is_filtered=False))
        while not completion_queue:
            _dispatch(self._client.receive(RECEIVE_MS))
        _, outcome, _ = completion_queue.popleft()
        if isinstance(outcome, RocketMQError) or pull_action(outcome, offset) is not PullAction.VACANT:
            return None
        return outcome

    def _find_vacancy_end(self, request: PullRequest, result: PullResult) -> int:
        """Return the end of the vacant offsets from ``request.next_offset`` on, at most the target's end. Unless the
        cached vacancy has the offset, probe further ones (``VacancySearch``), wait for each response, and cache the
        vacancy with ``result``. An offset whose probe fails counts as not vacant; the error is not raised."""
        offset, vacant_from = request.next_offset, result.next_begin_offset
        end_offset = self._vacancies.end_at(offset)
        if end_offset is None:
            search = VacancySearch(offset, self._target.end_offset)
            while (probe := search.next_probe) is not None:
                search.record(probe, is_vacant=self._probe_vacant_since(vacant_from, probe))
            end_offset = search.end_offset
            self._vacancies.record(range(vacant_from, end_offset), result)
        return end_offset

    def _probe_vacant_since(self, vacant_from: int, offset: int) -> bool:
        """Pull ``offset`` alone, wait, and return whether no message has an offset in ``[vacant_from, offset]``. If so,
        the broker returns the message that ends at ``vacant_from``. False if the pull fails."""
        outcome = self._probe_vacancy(offset)
        return outcome is not None and outcome.next_begin_offset == vacant_from

    def _record_success(self) -> None:
        """Record a response other than WAIT: end outages of broker and name servers, reset pause and absent time."""
        self._failures.record_success(self._broker, self._target.queue.topic)
        self._pause_ms = PULL_PAUSES.shortest_ms
        self._absent.record_success()

    def _process_failure(self, request: PullRequest, error: RocketMQError) -> None:
        """Record and postpone a failed request, and halve the depth. If name servers do not respond, pull from the
        planned address. Otherwise use a new route if an outdated address may be the cause. In both cases restart the
        time of absent offsets. Raises the error that ``Failures.record_failure`` returns if no retry may succeed."""
        error = as_queue_unavailable(error, self._target.queue, self._planned_address)
        if (final_error := self._failures.record_failure(self._broker, None, error)) is not None:
            raise final_error
        if is_name_server_outage(error):
            self._address = self._planned_address
            self._absent.record_failure()
            self._absent.discard_loss(request)
        elif requires_route_refresh(error):
            self._absent.record_failure()
            if request.sent_to == self._server:  # Else it was replaced after the pull: each has its own deadline.
                self._server = next_server(self._server, ServerEvent.FAILED)
            self._invalidate_route()
        self._window.reduce_depth()
        self._postponed.append(request)

    def _handle_absent(self, request: PullRequest, result: PullResult) -> None:
        """Pull from the master in a new route, because the broker lacks an offset now, and do what ``AbsentOffsets``
        decides: postpone the request, raise RemoteProtocolError[PULL_STALLED], or presume the offset lost, if name
        servers respond. Then request the queue's bounds, wait, mark it as lost (``PullWindow.presume_lost``), and log
        the loss. If the queue still has the offset, postpone or raise."""
        self._require_master()
        now_ms, offset = self._clock(), request.next_offset
        self._absent.record_absent(now_ms)
        action = self._absent.action(now_ms, may_be_lost=not self._failures.are_name_servers_unresponsive)
        if action is AbsentAction.PRESUME_LOST and not self._window.presume_lost(request, self._with_queue_end(result)):
            action = self._absent.action(now_ms, may_be_lost=False)
        if action is AbsentAction.PRESUME_LOST:
            self._warn_of_lost(offset, result, self._absent.absent_ms(now_ms))
        elif action is AbsentAction.STALLED:
            raise stalled_error(self._target.queue, offset, result, self._absent.stalled_ms(now_ms))
        else:
            self._postponed.append(request)

    def _warn_of_lost(self, offset: int, result: PullResult, waited_ms: int) -> None:
        """Log a loss at ``offset``, once per end: the response's next offset if larger, else the range's end."""
        lost_to = result.next_begin_offset if result.next_begin_offset > offset else self._target.end_offset
        if lost_to in self._logged_lost_to:
            return
        self._logged_lost_to.add(lost_to)
        log.warning(
            "OFFSETS_UNREADABLE: Broker returned no message at queue=%s offset=%d for %d s; treating the offsets "
            "from there to the broker's next message as lost, and 'failOnDataLoss' decides: %s",
            self._target.queue,
            offset,
            waited_ms // 1000,
            result.reason,
        )

    def _with_queue_end(self, result: PullResult) -> PullResult:
        """Request the queue's bounds and wait. Return ``result`` with a ``max_offset`` of at least the queue's, or the
        range's end if no bounds are returned. A response may have the max offset of one part of the queue."""
        bounds_of_queue = self._client.query_bounds((self._target.queue,)).get(self._target.queue)
        queue_end = self._target.end_offset if bounds_of_queue is None else bounds_of_queue.max_offset
        return result._replace(max_offset=max(result.max_offset, queue_end))

    def _try_postponed_again(self) -> None:
        """Double the pause, and make all postponed requests idle, so that ``_send`` sends them. Send nothing here."""
        self._pause_ms = PULL_PAUSES.after(self._pause_ms)
        for request in self._postponed:
            self._window.retry(request)
        self._postponed.clear()


def _is_name_server_outage(outcome: PullOutcome) -> bool:
    """Return whether ``outcome`` is the error that no name server responds, not that a topic has no route."""
    return isinstance(outcome, RocketMQError) and is_name_server_outage(outcome)


def _dispatch(completions: Sequence[Completion]) -> None:
    """Append each completion to the completion queue of its request: ranges that are pulled ahead share connections."""
    for completion in completions:
        completion[0].completion_queue.append(completion)


def new_range_puller(
    target: QueueRange,
    client: PullClient,
    options: RangeReadOptions,
    clock: Clock,
    address: BrokerAddress | None = None,
    waited: Callable[[str], OutageHistory] | None = None,
    *,
    is_filtered: bool,
) -> RangePuller:
    """Return a RangePuller of ``target``, with the limits and ``readFrom`` of ``options``; send nothing."""
    return RangePuller(
        target,
        client,
        address=address,
        limit_ms=options.cluster_timeout_ms,
        missing_ms=options.missing_queues_limit_ms,
        is_filtered=is_filtered,
        waited=waited,
        read_from=options.read_from,
        clock=clock,
    )
