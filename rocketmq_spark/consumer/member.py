"""Member: one streaming query as one member of its consumer group. The part of this package that has a thread, a lock
and sockets.

``Membership`` decides; ``Member`` grants access to it under the group lock, and runs its scheduled work. It belongs to
the query's source runner, never to executors.

Threads: ``rocketmq-member`` runs the scheduled work under the group lock; the owner's thread calls the public methods.
Brokers' requests and responses to long polls arrive on reader threads. These never acquire the group lock, because its
holder may wait for that reader thread; they read the latest ``Published``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Final

from rocketmq_spark.consumer.cluster_api import Link
from rocketmq_spark.consumer.group_lock import GroupLock
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.offset_file import offset_file_of
from rocketmq_spark.consumer.offset_store import LocalFileOffsetStore, MemoryOffsetStore
from rocketmq_spark.consumer.queue_locks import RENEW_INTERVAL_MS
from rocketmq_spark.consumer.request_handlers import handle_request
from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.local_address import local_ip
from rocketmq_spark.remoting.outage_log import Outage, Throttle
from rocketmq_spark.remoting.periodic_work import PeriodicWork, Task
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.prober import prober_of
from rocketmq_spark.remoting.route_table import history_of
from rocketmq_spark.remoting.tail_watch import PullCallback, TailWatch
from rocketmq_spark.wire.body.task_report import Recipient, TaskReport, decode_task_report
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullResult

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_MS: Final = 30_000
LOCK_RETRY_INTERVAL_MS: Final = 1_000
WATCH_INTERVAL_MS: Final = 1_000

REPORT_TOKEN_BYTES: Final = 16

LAST_WORK_MS: Final = 10_000
"""Maximum time for which a leaving member waits for scheduled work in progress."""

TimedWork = Callable[[Membership], object]


def watch_nothing() -> None:
    """Do nothing: the default ``watch`` of a ``Member``."""


class Member:
    """One streaming query as a member of ``options.consumer_group``: connections, group lock, and the thread of its
    scheduled work. ``start`` joins the group, ``stop`` leaves it; there is no request before or after.

    ``watch`` is called every ``WATCH_INTERVAL_MS`` (1 s), on the member's thread and without the group lock.

    Threads: see the module. ``_group_lock`` covers the membership; ``_changed`` covers the conditions of
    ``wait_for_change``, and is never held during a request.
    """

    def __init__(
        self,
        options: ReadOptions,
        watch: Callable[[], None] = watch_nothing,
        clock: Clock = monotonic_ms,
        *,
        checkpoint_id: str | None = None,
        restores_resets: bool = False,
    ) -> None:
        """Send nothing. ``restores_resets``: whether ``leave_group`` restores operators' resets that no plan has
        applied, see ``Membership.leave``. Raises the errors of ``Membership`` and ``_local_offsets``."""
        self._options = options
        self._watch = watch
        self._clock = clock
        self._pool = ConnectionPool(
            connect_timeout_ms=options.broker_timeout_ms,
            on_request=self._on_request,
            limit=None,
            security=options.security,
        )
        self._reported_resets: SimpleQueue[tuple[MessageQueue, int]] = SimpleQueue()
        prober = prober_of(options, lambda queue, offset: self._reported_resets.put((queue, offset)))
        self._cluster = ClusterClient.of(options, self._pool, prober, history_of(options.name_servers))
        self.client_id: Final = _client_id(options)
        self.report_to: Final = Recipient(self.client_id, os.urandom(REPORT_TOKEN_BYTES).hex())
        """Recipient of the reports of the member's tasks."""
        # Reentrant: SIGTERM may unwind the main thread while it acquires the lock, and leaving acquires it again.
        self._group_lock = GroupLock(
            Membership(
                options,
                self.client_id,
                self._cluster,
                clock,
                boottime_ms,
                started_ms=int(time.time() * 1000),
                checkpoint_id=checkpoint_id,
                local_offsets=_local_offsets(options),
            ),
            threading.RLock(),
        )
        self._changed = threading.Condition()
        self._has_change = False
        self._last_changes = 0
        self._failed_works: dict[str, Throttle] = {}
        self._restores_resets = restores_resets
        self._tail_watch = TailWatch(self._long_poll, self._notify_change, clock)
        self._task_reports: SimpleQueue[TaskReport] = SimpleQueue()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rocketmq-member", daemon=True)

    # ------------------------------------------------------------------------------------------ start and stop

    def start(self) -> None:
        """Log the start, and start the member's thread, which joins the group, or with ``assign`` reads without a
        group. Do not wait: ``Membership.refresh_metadata`` raises if the cluster does not respond."""
        if self._options.assigned is None:
            log.info("GROUP_JOIN_STARTED: Joining the group to read topics=%s", self._options.shown_topics)
        else:
            log.info(
                "QUEUES_ASSIGNED: Reading the assigned queues without joining the group, count=%d topics=%s",
                len(self._options.assigned),
                self._options.shown_topics,
            )
        self._thread.start()

    def leave_group(self) -> None:
        """End the scheduled work and leave the group (``Membership.leave``): commit completed offsets, unlock queues,
        unregister. Waits up to LAST_WORK_MS (10 s) for work in progress, then for the group lock. A second call does
        nothing. A permanent error is raised before unregistration. Connections stay open. Raises RuntimeError before
        ``start``."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._woken.set()
        # A signal between acquiring the lock and its block leaves it held by this thread; the other never acquires it.
        self._thread.join(LAST_WORK_MS / 1000)
        with self.group_lock() as membership:
            membership.leave(restores_resets=self._restores_resets)
        if self._options.assigned is None:
            log.info("GROUP_LEFT: Left the group")

    def stop(self) -> None:
        """Do ``leave_group``, and raise its errors; in any case close all connections."""
        try:
            self.leave_group()
        finally:
            self._pool.close()

    # ------------------------------------------------------------------------------------------ for the planner

    @contextmanager
    def group_lock(self) -> Iterator[Membership]:
        """Wait for the group lock, record operators' resets that long polls and probes received, and reports of tasks,
        and yield the membership. Held from ``refresh_metadata`` to ``mark_in_flight``, the lock keeps ownership
        unchanged in between."""
        with self._group_lock() as membership:
            while not self._reported_resets.empty():
                membership.resets.record(*self._reported_resets.get())
            while not self._task_reports.empty():
                membership.task_reports.add(self._task_reports.get())
            yield membership

    def wait_for_change(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        """Send long polls (``TailWatch.watch``) of the queues at their offsets in ``positions``, only at responsive
        masters. Wait up to ``timeout_ms`` for a change since the last call. Changes are: a poll returned messages or an
        invalid offset, or failed; ownership, resets or responsive servers changed; a queue may have been re-created;
        the member's thread failed. Return True for a change, once. Return True also, in each call, while a request to
        an unresponsive server is due; it ends the wait only if it is due at the start."""
        masters = self._group_lock.published.masters
        self._tail_watch.watch({queue: at for queue, at in positions.items() if queue.broker_name in masters})
        with self._changed:
            self._changed.wait_for(self._is_something_new, timeout_ms / 1000)
            is_new = self._is_something_new()
            self._has_change = False
            self._last_changes = self._group_lock.published.changes
        return is_new

    def has_lost_connection(self, links: Iterable[Link | None]) -> bool:
        """Return whether any of ``links`` is not the current one: its broker may have been restarted. A None among them
        (a proxy) never counts as lost. Sends nothing."""
        return any(link is not None and self._cluster.connection_number(link[0]) != link[1] for link in links)

    @property
    def outages(self) -> tuple[Outage, ...]:
        """Outages at the end of the latest hold of the group lock, of servers, then commits, then queues."""
        return self._group_lock.published.outages

    def _is_something_new(self) -> bool:
        """Return whether ``wait_for_change`` has a new change, or a request to an unresponsive server is due."""
        published = self._group_lock.published
        return self._has_change or published.changes != self._last_changes or published.is_due(self._clock())

    # ------------------------------------------------------------------------------------------ scheduled work

    def _run(self) -> None:
        """Run scheduled work until ``leave_group``. An unexpected error ends the thread: it is logged, wakes
        ``wait_for_change``, and the next metadata refresh raises it as ``crash``."""
        try:
            self._work_until_stopped()
        except Exception as error:
            log.exception("INTERNAL_ERROR: Unexpected error in thread rocketmq-member; the query fails. Report it.")
            with self._group_lock() as membership:
                membership.crash = error
            self._notify_change()

    def _work_until_stopped(self) -> None:
        """Until ``leave_group``, call ``watch`` and do each scheduled work when its timer is due. Always: rebalance,
        heartbeats, offset commits. With ``subscribePattern``: topic lists. With ``consumeOrderly``: lock renewals and
        lock requests. All are due at the start. A wake-up makes the rebalance due at once. Raises what ``watch``
        raises."""
        options = self._options
        rebalance = self._timed("Rebalance", options.rebalance_interval_ms, Membership.rebalance)
        work: list[tuple[Task, int]] = [
            (self._watch, WATCH_INTERVAL_MS),
            rebalance,
            (self._send_heartbeats, HEARTBEAT_INTERVAL_MS),
            self._timed("Offset commit", options.persist_offset_interval_ms, _persist),
        ]
        if options.topic_pattern is not None:
            work.insert(1, self._timed("Topic list", options.rebalance_interval_ms, list_topics))
        if options.consume_orderly:
            work += [
                self._timed("Queue lock renewal", RENEW_INTERVAL_MS, Membership.renew_locks),
                self._timed("Queue lock request", LOCK_RETRY_INTERVAL_MS, Membership.retry_locks),
            ]
        periodic_work = PeriodicWork(dict(work), self._clock)
        while not self._stopping.is_set():
            if self._woken.is_set():
                self._woken.clear()
                periodic_work.make_due(rebalance[0])
            periodic_work.run_due()
            self._woken.wait(max(0, periodic_work.next_due_ms - self._clock()) / 1000)

    def _send_heartbeats(self) -> None:
        """Send the heartbeats that are due, without the group lock, so that an unresponsive address does not delay a
        plan. Wait for the responses, and record them under the lock. Do nothing while stopping."""
        with self.group_lock() as membership:
            if self._stopping.is_set():
                return
            heartbeats = membership.members.next_heartbeats()
        acknowledged = heartbeats.send(self._cluster)
        with self.group_lock() as membership:
            membership.members.record_acknowledged(heartbeats, acknowledged)

    def _timed(self, name: str, interval_ms: int, work: TimedWork) -> tuple[Task, int]:
        """Return a task that does ``_run_timed_work``, and its interval. ``name``: its name in logs."""
        return partial(self._run_timed_work, name, interval_ms, work), interval_ms

    def _run_timed_work(self, name: str, interval_ms: int, work: TimedWork) -> None:
        """Run ``work`` under the group lock, and wake ``wait_for_change`` if ``Published.changes`` differs then. Do
        nothing while stopping. Log a RocketMQError, do not raise it. ``name``, ``interval_ms``: for the log line."""
        with self.group_lock() as membership:
            if self._stopping.is_set():
                return
            changes = self._group_lock.published.changes
            try:
                work(membership)
            except RocketMQError as error:
                level = self._record_failed_work(error.condition)
                log.log(
                    level, "SCHEDULED_WORK_FAILED: %s failed; retrying in %g s: %s", name, interval_ms / 1000, error
                )
        if self._group_lock.published.changes != changes:
            self._notify_change()

    def _record_failed_work(self, condition: str) -> int:
        """Record a failure and return the level at which the caller logs it. The first failure of ``condition`` gets
        DEBUG, because the next metadata refresh usually raises or tracks it. Later ones get WARNING, or DEBUG during a
        growing pause."""
        throttle = self._failed_works.get(condition)
        if throttle is None:
            self._failed_works[condition] = Throttle()
            return logging.DEBUG
        return logging.WARNING if throttle.try_acquire_event(self._clock()) else logging.DEBUG

    def _notify_change(self) -> None:
        """Record a change and wake ``wait_for_change``."""
        with self._changed:
            self._has_change = True
            self._changed.notify_all()

    # ------------------------------------------------------------------------------------------ reader threads

    def _on_request(self, request: RemotingCommand) -> RemotingCommand | None:
        """Handle a broker's request and return the response, or None if it is unsupported. A change of members wakes
        the rebalance, and returns None (``OnRequest``). A task's report, in a request for running infos, is queued for
        the next ``group_lock``. Never waits for the group lock. Raises RemoteProtocolError for an invalid header."""
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._woken.set()
            return None
        if request.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            self._record_report(request.body)
        return handle_request(request, self._group_lock.published.view)

    def _record_report(self, body: bytes | memoryview) -> None:
        """Queue the report in ``body`` for the next ``group_lock``. Ignore an empty report, and a body without this
        member's token. Log an invalid report at DEBUG: raised, the error would end the connection with its requests in
        flight."""
        try:
            report = decode_task_report(body, self.report_to.token)
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Cannot read the report of a task: %s", error)
            return
        if any(report):
            self._task_reports.put(report)

    def _long_poll(self, queue: MessageQueue, offset: int, suspend_ms: int, on_response: PullCallback) -> None:
        """Send a long poll of the queue at ``offset``; only opening a connection waits. ``on_response`` gets the result
        or error on a reader thread, after an operator's reset was queued for the next ``group_lock``. It is called in
        this call if sending fails, and, without sending, with RouteError[MASTER_UNAVAILABLE] if the broker is not
        responsive."""
        address = self._group_lock.published.masters.get(queue.broker_name)
        if address is None:
            on_response(RouteError("MASTER_UNAVAILABLE", broker=queue.broker_name, topic=queue.topic))
            return

        def on_pulled(response: PullResult | RocketMQError) -> None:
            """Queue an operator's reset for the next ``group_lock``, then call ``on_response``."""
            if isinstance(response, PullResult) and response.reason == OFFSET_RESET:
                self._reported_resets.put((queue, response.next_begin_offset))
            on_response(response)

        broker = self._cluster.broker(address)
        broker.long_poll(self._options.consumer_group, queue, offset, suspend_ms, on_pulled)


def _persist(membership: Membership) -> None:
    """Commit unconfirmed offsets, see ``OffsetCommitter.persist``."""
    membership.offsets.persist()


def list_topics(membership: Membership) -> None:
    """Request the topics that ``subscribePattern`` matches, wait, and rebalance if they have changed."""
    if membership.client.topic_routes.list_topics():
        membership.rebalance()


def boottime_ms() -> int:
    """Return monotonic milliseconds, which include the time in which the machine sleeps if the system has such a
    clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def _local_offsets(options: ReadOptions) -> MemoryOffsetStore | None:
    """Return this query's own offset store: in BROADCASTING a local file, read at once, with ``commitOffsets=false``
    memory. Otherwise return None: brokers store the offsets. Raises what ``LocalFileOffsetStore`` does."""
    if options.message_model == BROADCASTING:
        return LocalFileOffsetStore(offset_file_of(options))
    return MemoryOffsetStore() if options.has_own_offsets else None


def _client_id(options: ReadOptions) -> str:
    """Return ``ip@instanceName``; the default instance name is process ID and epoch nanoseconds. The IP is the local
    one towards the first name server. Source: ``client/ClientConfig.java#buildMQClientId``."""
    instance = options.instance_name or f"{os.getpid()}#{time.time_ns()}"
    return f"{local_ip(options.name_servers[0])}@{instance}"
