"""Probes of single messages: pulls of one message from each of many queues at once, with the group of a ``Prober``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.broker_rpcs import pull_rpc
from rocketmq_spark.remoting.first_stored import first_stored
from rocketmq_spark.remoting.prober import Prober
from rocketmq_spark.remoting.remoting_client import RemotingClient, ResponseFuture
from rocketmq_spark.wire.message.stored_message import decode_first
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullResult, PullStatus

MAX_CONCURRENT_PROBES: Final = 32
"""Maximum number of probes in flight; the response to each may be an entire message."""

MAX_SEARCH_PULLS: Final = 131_072
"""Maximum number of pulls of one search. Two suffice, and some hundred where the broker's result is wrong; it needs
thousands to cross messages whose commit log files were deleted."""


def find_first_offsets(
    broker: RemotingClient, hints: Mapping[MessageQueue, int], timestamps_ms: Mapping[MessageQueue, int], prober: Prober
) -> dict[MessageQueue, int]:
    """Return the verified offsets of ``Broker.search_offsets``. Pull one message of each queue in rounds, from the
    offsets that ``first_stored`` requests, until each search is complete. ``hints``: the broker's own results, for the
    queues of ``timestamps_ms``. Resets are passed to ``prober``, see ``_probe_all``. Raises
    RemoteProtocolError[SEARCH_STALLED] for a search that is not complete after MAX_SEARCH_PULLS rounds."""
    searches = {queue: first_stored(hints[queue], at_ms) for queue, at_ms in timestamps_ms.items()}
    pending = {queue: next(search) for queue, search in searches.items()}
    found: dict[MessageQueue, int] = {}
    for _ in range(MAX_SEARCH_PULLS):
        if not pending:
            return found
        probed = _probe_all(broker, pending, prober)
        pending = {}
        for queue, result in probed.items():
            try:
                pending[queue] = searches[queue].send(result)
            except StopIteration as end:
                found[queue] = end.value
    queue, offset = next(iter(pending.items()))
    raise RemoteProtocolError(
        "SEARCH_STALLED",
        queue=str(queue),
        timestamp_ms=timestamps_ms[queue],
        pulls=MAX_SEARCH_PULLS,
        offset=offset,
    )


def probe_store_times(
    broker: RemotingClient, offsets: Mapping[MessageQueue, int], prober: Prober
) -> dict[MessageQueue, int | None]:
    """Pull the message at each offset, at most ``MAX_CONCURRENT_PROBES`` in flight at once, and return the store times
    of ``Broker.probe_store_times``. Resets are passed to ``prober``, see ``_probe_all``."""
    return _probe_some(broker, offsets, prober, _store_time_ms)


def probe_sizes(
    broker: RemotingClient, offsets: Mapping[MessageQueue, int], prober: Prober
) -> dict[MessageQueue, int | None]:
    """Pull messages as ``probe_store_times`` does, and return the sizes of ``Broker.probe_sizes``."""
    return _probe_some(broker, offsets, prober, _size_bytes)


def _probe_some(
    broker: RemotingClient,
    offsets: Mapping[MessageQueue, int],
    prober: Prober,
    read: Callable[[PullResult], int | None],
) -> dict[MessageQueue, int | None]:
    """Pull the message at each offset, ``MAX_CONCURRENT_PROBES`` (32) at once, and return what ``read`` returns for
    each result. Resets are passed to ``prober``, see ``_probe_all``."""
    queues = list(offsets)
    found: dict[MessageQueue, int | None] = {}
    for first in range(0, len(queues), MAX_CONCURRENT_PROBES):
        some = {queue: offsets[queue] for queue in queues[first : first + MAX_CONCURRENT_PROBES]}
        found |= {queue: read(result) for queue, result in _probe_all(broker, some, prober).items()}
    return found


def _probe_all(
    broker: RemotingClient, offsets: Mapping[MessageQueue, int], prober: Prober
) -> dict[MessageQueue, PullResult]:
    """Pull one message from each queue, all in flight at once, and wait. If a result is an operator's offset reset,
    which the broker has then removed, pass it to ``prober.on_reset``, and repeat this pull once. The first error of a
    pull is raised."""
    probes = {queue: _submit_probe(broker, prober, queue, offset) for queue, offset in offsets.items()}
    probed = {queue: probe.result() for queue, probe in probes.items()}
    reset = {queue: result.next_begin_offset for queue, result in probed.items() if result.reason == OFFSET_RESET}
    for queue, offset in reset.items():
        prober.on_reset(queue, offset)
    again = {queue: _submit_probe(broker, prober, queue, offsets[queue]) for queue in reset}
    return probed | {queue: probe.result() for queue, probe in again.items()}


def _submit_probe(
    broker: RemotingClient, prober: Prober, queue: MessageQueue, offset: int
) -> ResponseFuture[PullResult]:
    """Send a pull of one message at ``offset``, unfiltered, in the prober's group, and return its future. Wait only for
    a new connection. The pull may remove an operator's offset reset (reason OFFSET_RESET) from the broker; the caller
    passes the reset to ``prober.on_reset``. Raises what ``RemotingClient.submit`` does."""
    return broker.submit(pull_rpc(prober.group, queue, offset, 1, "*"))


def _store_time_ms(found: PullResult) -> int | None:
    """Return the first message's store time (Unix ms), or None if the pull found none."""
    return decode_first(found.body).store_timestamp_ms if found.status is PullStatus.FOUND else None


def _size_bytes(found: PullResult) -> int | None:
    """Return the stored size of the one message that the pull found, or None if it found none."""
    return len(found.body) if found.status is PullStatus.FOUND else None
