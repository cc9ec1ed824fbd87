"""Two queries of one group, one of which stays, while visitors join it one after the other and leave gracefully."""

from __future__ import annotations

from collections.abc import Iterable

import rocketmq_spark
from connector_tests.support.streams import TIMEOUT_S, Stream, Topic, eventually, steady_messages


def join_and_leave(messages: Topic, group: str, staying: Stream, visitors: Iterable[Stream]) -> list[str]:
    """Under load, until everything is read; returns the bodies that were sent."""
    with staying.running() as staying_query, steady_messages(messages) as sent:
        eventually(lambda: bool(staying.places_and_bodies()), "the first rows")
        for visitor in visitors:
            come_and_go(visitor)
            eventually(lambda: len(messages.members(group)) == 1, "the visitor leaves")
        rocketmq_spark.stop(staying_query, timeout_s=TIMEOUT_S)
    staying.run_to_end()
    return sent


def read_by_all(staying: Stream, visitors: Iterable[Stream]) -> list[str]:
    """The bodies of all their rows, as often as they were read."""
    return [body for stream in (staying, *visitors) for body in stream.bodies()]


def come_and_go(visitor: Stream) -> None:
    query = visitor.start()
    eventually(lambda: bool(visitor.places_and_bodies()), "rows of the visitor")
    rocketmq_spark.stop(query, timeout_s=TIMEOUT_S)
