"""Member: one streaming query as one member of its consumer group. The one shell of this room: a thread, a lock,
sockets.

``Membership`` knows and decides; the member calls it at the right times, one call at a time, and keeps it alive. It
lives in the query's source runner; executors never see it.

Threads: ``rocketmq-member`` does the timed work; the owner's thread calls the public methods; brokers' requests and
long polls arrive on reader threads, which take no lock of ours but ``_news``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Final

from rocketmq_spark.consumer.answers import answer_broker
from rocketmq_spark.consumer.local_offset_store import LocalFileOffsetStore
from rocketmq_spark.consumer.membership import Membership
from rocketmq_spark.consumer.offset_file import offset_file_of
from rocketmq_spark.consumer.ports import Survey
from rocketmq_spark.consumer.queue_locks import RENEW_INTERVAL_MS
from rocketmq_spark.errors import RocketMQError, RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.remoting.clock import Clock, monotonic_ms
from rocketmq_spark.remoting.cluster import RemoteCluster
from rocketmq_spark.remoting.local_address import local_ip
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.tail_watch import PullCallback, TailWatch
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullResult

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL_MS: Final = 30_000
LOCK_RETRY_INTERVAL_MS: Final = 1_000
WATCH_INTERVAL_MS: Final = 1_000


def watch_nothing() -> None:
    """For a member that nobody's death concerns."""


class Member:
    """A member of ``options.consumer_group``. ``start`` joins, ``stop`` leaves; nothing happens before or after.

    ``watch`` is called every second, on the member's thread and without the turn.
    """

    def __init__(
        self, options: ReadOptions, watch: Callable[[], None] = watch_nothing, clock: Clock = monotonic_ms
    ) -> None:
        self._options = options
        self._watch = watch
        self._clock = clock
        self._pool = ConnectionPool(connect_timeout_ms=options.broker_timeout_ms, on_request=self._on_request)
        self._cluster = RemoteCluster(options.name_servers, self._pool, options.broker_timeout_ms)
        self._membership = Membership(
            options,
            _client_id(options),
            self._cluster,
            clock,
            awake_or_asleep_ms,
            started_ms=int(time.time() * 1000),
            local_offsets=_local_offsets(options),
        )
        self._turn = threading.RLock()
        self._news = threading.Condition()
        self._has_news = False
        self._seen_changes = 0
        self._tails = TailWatch(self._long_poll, self._announce)
        self._told_resets: SimpleQueue[tuple[MessageQueue, int]] = SimpleQueue()
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._crash: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="rocketmq-member", daemon=True)

    @property
    def client_id(self) -> str:
        return self._membership.client_id

    # ------------------------------------------------------------------------------------------ life

    def start(self) -> None:
        """Join the group. Returns at once, whether or not the cluster answers; ``survey`` says what is known."""
        log.info("joining group=%s client_id=%s", self._options.consumer_group, self.client_id)
        self._thread.start()

    def hand_over(self) -> None:
        """Leave the group: persist what is proven, unlock what is settled, unregister everywhere. May be called
        twice."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._woken.set()
        self._thread.join()
        with self._turn:
            self._note_told_resets()
            self._membership.leave()
        log.info("left group=%s client_id=%s", self._options.consumer_group, self.client_id)

    def stop(self) -> None:
        """Leave the group, if ``hand_over`` has not, and close all connections."""
        self.hand_over()
        self._pool.close()

    # ------------------------------------------------------------------------------------------ for the planner

    def turn(self) -> AbstractContextManager[object]:
        """Hold it from ``survey`` to ``take``: nothing is released or gained in between."""
        return self._turn

    def survey(self, known: Collection[MessageQueue] = ()) -> Survey:
        """See ``Membership.survey``. Raises what ended the member's thread, if anything did: it must not live on
        unseen."""
        if self._crash is not None:
            raise self._crash
        with self._turn:
            return self._membership.survey(known)

    def ask_bounds(self) -> dict[MessageQueue, QueueBounds]:
        """See ``Membership.ask_bounds``."""
        with self._turn:
            return self._membership.ask_bounds()

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """See ``Membership.search_offsets``."""
        with self._turn:
            return self._membership.search_offsets(timestamps_ms)

    def stored_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """See ``Membership.stored_offsets``."""
        with self._turn:
            return self._membership.stored_offsets(queues)

    def raise_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """See ``Membership.raise_offsets``."""
        with self._turn:
            return self._membership.raise_offsets(wanted)

    def lower_offsets(self, wanted: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """See ``Membership.lower_offsets``."""
        with self._turn:
            return self._membership.lower_offsets(wanted)

    def look_for_resets(self, queues: Iterable[MessageQueue]) -> None:
        """See ``Membership.look_for_resets``."""
        with self._turn:
            self._membership.look_for_resets(queues)

    def take_resets(self) -> dict[MessageQueue, int]:
        """See ``Membership.take_resets``."""
        with self._turn:
            self._note_told_resets()
            return self._membership.take_resets()

    def keep_resets(self, resets: Mapping[MessageQueue, int]) -> None:
        """See ``Membership.keep_resets``."""
        with self._turn:
            self._membership.keep_resets(resets)

    def _note_told_resets(self) -> None:
        while not self._told_resets.empty():
            self._membership.note_reset(*self._told_resets.get())

    def take(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        """See ``Membership.take``."""
        with self._turn:
            self._membership.take(ranges)

    def prove(self, end_offsets: Mapping[MessageQueue, int]) -> None:
        """See ``Membership.prove``."""
        with self._turn:
            self._membership.prove(end_offsets)

    def persist(self) -> bool:
        """See ``Membership.persist``."""
        with self._turn:
            return self._membership.persist()

    def wait_for_news(self, positions: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        """Watch the ends of our queues; True once one grows, ownership changes or something is to be asked again."""
        self._tails.watch({queue: at for queue, at in positions.items() if self._membership.may_ask(queue.broker_name)})
        with self._news:
            self._news.wait_for(self._is_something_new, timeout_ms / 1000)
            is_new = self._is_something_new()
            self._has_news = False
            self._seen_changes = self._membership.changes
        return is_new

    def _is_something_new(self) -> bool:
        has_changed = self._membership.changes != self._seen_changes
        return self._has_news or has_changed or self._membership.may_try_again()

    # ------------------------------------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._work_until_stopped()
        except Exception as error:
            log.exception("the member's thread failed client_id=%s", self.client_id)
            self._crash = error
            self._announce()

    def _work_until_stopped(self) -> None:
        timers = [
            _Timer(HEARTBEAT_INTERVAL_MS, self._membership.heartbeat),
            _Timer(self._options.rebalance_interval_ms, self._membership.rebalance),
            _Timer(self._options.persist_offset_interval_ms, self._membership.persist),
        ]
        if self._options.consume_orderly:
            timers += [
                _Timer(RENEW_INTERVAL_MS, self._membership.renew_locks),
                _Timer(LOCK_RETRY_INTERVAL_MS, self._membership.retry_locks),
            ]
        rebalancing = timers[1]
        watching = _Timer(WATCH_INTERVAL_MS, self._watch)
        while not self._stopping.is_set():
            if watching.is_up(self._clock()):
                watching.work()
            if self._woken.is_set():
                self._woken.clear()
                rebalancing.due_ms = self._clock()
            for timer in timers:
                self._do_when_due(timer)
            next_ms = min(timer.due_ms for timer in (*timers, watching))
            self._woken.wait(max(0, next_ms - self._clock()) / 1000)

    def _do_when_due(self, timer: _Timer) -> None:
        """What fails here is tried again by the timer, and raised by the next survey if it must be."""
        if not timer.is_up(self._clock()):
            return
        with self._turn:
            changes = self._membership.changes
            try:
                timer.work()
            except RocketMQError as error:
                log.warning("timed work failed: %s", error)
        if self._membership.changes != changes:
            self._announce()

    def _announce(self) -> None:
        with self._news:
            self._has_news = True
            self._news.notify_all()

    # ------------------------------------------------------------------------------------------ reader threads

    def _on_request(self, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._woken.set()
            return None
        return answer_broker(request, lambda: self._membership.view)

    def _long_poll(self, queue: MessageQueue, offset: int, suspend_ms: int, on_answer: PullCallback) -> None:
        address = self._address_of(queue)
        if address is None:
            on_answer(RouteError("NO_MASTER", broker=queue.broker_name, topic=queue.topic))
            return

        def told(answer: PullResult | RocketMQError) -> None:
            if isinstance(answer, PullResult) and answer.reason == OFFSET_RESET:
                self._told_resets.put((queue, answer.next_begin_offset))
            on_answer(answer)

        broker = self._cluster.broker(address)
        broker.long_poll(self._options.consumer_group, queue, offset, suspend_ms, told)

    def _address_of(self, queue: MessageQueue) -> str | None:
        return self._membership.address_of(queue.broker_name)


class _Timer:
    """Work that is due at once, and again ``interval_ms`` after it was last done."""

    def __init__(self, interval_ms: int, work: Callable[[], object]) -> None:
        self.interval_ms = interval_ms
        self.work = work
        self.due_ms = 0

    def is_up(self, now_ms: int) -> bool:
        """Whether it is due; then it is due again after its interval."""
        if now_ms < self.due_ms:
            return False
        self.due_ms = now_ms + self.interval_ms
        return True


def awake_or_asleep_ms() -> int:
    """Milliseconds that never go back and go on while the machine sleeps, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def _local_offsets(options: ReadOptions) -> LocalFileOffsetStore | None:
    return LocalFileOffsetStore(offset_file_of(options)) if options.message_model == BROADCASTING else None


def _client_id(options: ReadOptions) -> str:
    """Source: ``client/ClientConfig.java#buildMQClientId``."""
    instance = options.instance_name or f"{os.getpid()}#{time.time_ns()}"
    return f"{local_ip(options.name_servers[0])}@{instance}"
