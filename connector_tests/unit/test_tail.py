"""What ``rocketmq-spark tail`` holds, and how it follows a topic whose servers fail."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator

import pytest

from connector_tests.support.group_bodies import topic_stats
from connector_tests.support.message_bytes import Record, pull_body
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.cli.message_lines import StoredMessage, message_of
from rocketmq_spark.cli.tail import follow, print_messages
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

A, B = (MessageQueue("T", name, 0) for name in "ab")
BUSY = build_response(ResponseCode.SYSTEM_BUSY, remark="busy")


def pulled(request: RemotingCommand) -> RemotingCommand:
    """The message at the requested offset of a queue of 9; each is 1 ms later, and that of a queue with a higher ID."""
    offset, queue_id = int(request.fields["queueOffset"]), int(request.fields["queueId"])
    record = Record(queue_id=queue_id, queue_offset=offset, store_timestamp_ms=offset + queue_id)
    fields = {"nextBeginOffset": str(offset + 1), "minOffset": "0", "maxOffset": "9"}
    return build_response(fields=fields, body=pull_body(record))


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        for broker in cluster.brokers.values():
            broker.on(RequestCode.PULL_MESSAGE, pulled)
        yield cluster


def place(stored: StoredMessage) -> str:
    message = message_of(stored)
    return f"{message.broker_name}:{message.queue_id}:{message.queue_offset}"


class Line(str):
    """A line that a weak reference can name."""

    __slots__ = ("__weakref__",)


def test_only_the_last_lines_are_held(scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """With ``-n 1000`` the last 1,000 of each of 1,000 queues were."""
    lines: list[weakref.ref[Line]] = []
    held_counts: list[int] = []

    def line_of(stored: StoredMessage) -> str:
        held_counts.append(sum(reference() is not None for reference in lines))
        line = Line(place(stored))
        lines.append(weakref.ref(line))
        return line

    ranges = {MessageQueue("T", "a", queue_id): QueueBounds(5, 8) for queue_id in reversed(range(9))}
    print_messages(scripted.client(), ranges, line_of, 3)
    assert capsys.readouterr().out.split() == ["a:7:7", "a:8:6", "a:8:7"]
    assert max(held_counts) <= 3 + 1


def test_last_messages_of_one_time_are_printed_in_queue_order(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    ranges = {MessageQueue("T", "a", queue_id): QueueBounds(8 - queue_id, 9 - queue_id) for queue_id in range(4)}
    for count, expected in ((None, [0, 1, 2, 3]), (3, [1, 2, 3]), (1, [3]), (0, []), (9, [0, 1, 2, 3])):
        print_messages(scripted.client(), ranges, place, count)
        assert capsys.readouterr().out.split() == [f"a:{number}:{8 - number}" for number in expected]


def followed(scripted: ScriptedCluster, steps: Iterable[Callable[[], None]]) -> None:
    """Follow topic T, of which nothing is new, with one of ``steps`` before each poll, then Ctrl-C."""
    remaining = iter(steps)

    def pause() -> None:
        step = next(remaining, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    with pytest.raises(KeyboardInterrupt):
        follow(scripted.client(), "T", {A: QueueBounds(0, 5), B: QueueBounds(0, 5)}, place, pause)


def test_what_a_failing_broker_has_follows_once_it_responds(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restart of one broker ended the command."""
    printed: list[list[str]] = []

    def poll(a: RemotingCommand | int, b: int, pull: RemotingCommand | None = None) -> Callable[[], None]:
        """The state of both brokers before a poll: their ends, or the response of ``a``."""

        def set_up() -> None:
            captured = capsys.readouterr()
            printed.append([*captured.out.split(), *captured.err.splitlines()])
            stats = topic_stats({A: QueueBounds(0, a)}) if isinstance(a, int) else a
            scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, stats)
            scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, pulled if pull is None else pull)
            scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({B: QueueBounds(0, b)}))

        return set_up

    followed(scripted, [poll(BUSY, 6), poll(BUSY, 7), poll(7, 7, BUSY), poll(7, 8), poll(BUSY, 8), poll(7, 8)])
    _, first, second, third, fourth, fifth = printed
    assert first[:1] == ["b:0:5"]
    assert "SYSTEM_BUSY" in first[1]
    assert (second, fourth) == (["b:0:6"], ["a:0:5", "a:0:6", "b:0:7"])
    assert [len(third), len(fifth)] == [1, 1]
    assert "PULL_MESSAGE" in third[0]
