"""Looks at single messages: pulls of one message, of many queues at once, for a ``Looker``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketmq_spark.model import MessageQueue
from rocketmq_spark.remoting.first_stored import first_stored
from rocketmq_spark.remoting.looker import Looker
from rocketmq_spark.remoting.peer import Peer, Question, ResponseFuture
from rocketmq_spark.wire.message.stored_message import first_of
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.pull import OFFSET_RESET, PullResult, PullStatus, read_pull
from rocketmq_spark.wire.remoting.pull_frames import pull_header

LOOKS_AT_ONCE: Final = 32
"""Each may be answered with a whole message."""


def pull_question(
    group: str, queue: MessageQueue, offset: int, max_messages: int, expression: str, suspend_ms: int = 0
) -> Question[PullResult]:
    """A pull; see ``Broker.pull`` and ``Broker.long_poll``."""
    header = pull_header(group, queue, offset, max_messages, expression, suspend_ms)
    return Question(RemotingCommand(RequestCode.PULL_MESSAGE, fields=header.to_fields()), read_pull)


def first_offsets(
    broker: Peer, hints: Mapping[MessageQueue, int], timestamps_ms: Mapping[MessageQueue, int], looker: Looker
) -> dict[MessageQueue, int]:
    """See ``Broker.search_offsets``; ``hints`` are the broker's own answers."""
    searches = {queue: first_stored(hints[queue], at_ms) for queue, at_ms in timestamps_ms.items()}
    asked = {queue: next(search) for queue, search in searches.items()}
    found: dict[MessageQueue, int] = {}
    while asked:
        seen = _look_at(broker, asked, looker)
        asked = {}
        for queue, result in seen.items():
            try:
                asked[queue] = searches[queue].send(result)
            except StopIteration as end:
                found[queue] = end.value
    return found


def stored_times(broker: Peer, offsets: Mapping[MessageQueue, int], looker: Looker) -> dict[MessageQueue, int | None]:
    """See ``Broker.stored_at``."""
    queues = list(offsets)
    found: dict[MessageQueue, int | None] = {}
    for first in range(0, len(queues), LOOKS_AT_ONCE):
        some = {queue: offsets[queue] for queue in queues[first : first + LOOKS_AT_ONCE]}
        found |= {queue: _stored_ms(result) for queue, result in _look_at(broker, some, looker).items()}
    return found


def _look_at(broker: Peer, offsets: Mapping[MessageQueue, int], looker: Looker) -> dict[MessageQueue, PullResult]:
    """All in flight at once."""
    looks = {queue: _look(broker, looker, queue, offset) for queue, offset in offsets.items()}
    seen = {queue: look.result() for queue, look in looks.items()}
    reset = {queue: result.next_begin_offset for queue, result in seen.items() if result.reason == OFFSET_RESET}
    for queue, offset in reset.items():
        looker.told_reset(queue, offset)
    again = {queue: _look(broker, looker, queue, offsets[queue]) for queue in reset}
    return seen | {queue: look.result() for queue, look in again.items()}


def _look(broker: Peer, looker: Looker, queue: MessageQueue, offset: int) -> ResponseFuture[PullResult]:
    return broker.submit(pull_question(looker.group, queue, offset, 1, "*"))


def _stored_ms(found: PullResult) -> int | None:
    return first_of(found.body).store_timestamp_ms if found.status is PullStatus.FOUND else None
