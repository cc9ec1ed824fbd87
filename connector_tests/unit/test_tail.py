"""What ``rocketmq-spark tail`` holds, and how it follows a topic whose servers fail."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator

import pytest

from connector_tests.support.group_bodies import topic_stats
from connector_tests.support.message_bytes import Record, pull_body
from connector_tests.support.scripted_broker import Script, build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.cli.message_lines import StoredMessage, message_of
from rocketmq_spark.cli.tail import follow, new_range, print_messages
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
    for count, expected in ((4, [0, 1, 2, 3]), (3, [1, 2, 3]), (1, [3]), (0, []), (9, [0, 1, 2, 3])):
        print_messages(scripted.client(), ranges, place, count)
        assert capsys.readouterr().out.split() == [f"a:{number}:{8 - number}" for number in expected]


def followed(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str], steps: Iterable[Callable[[], None]]
) -> list[list[str]]:
    """Follow topic T, of which nothing is new, with one of ``steps`` before each poll, then Ctrl-C. Return for each
    poll the lines that it printed, errors last."""
    remaining = iter(steps)
    printed: list[list[str]] = []

    def pause() -> None:
        captured = capsys.readouterr()
        printed.append([*captured.out.split(), *captured.err.splitlines()])
        step = next(remaining, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    with pytest.raises(KeyboardInterrupt):
        follow(scripted.client(), "T", {A: QueueBounds(0, 5), B: QueueBounds(0, 5)}, place, pause)
    return printed[1:]


def test_what_a_failing_broker_has_follows_once_it_responds(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restart of one broker ended the command. While its pulls alone failed, no other's messages were printed."""

    def poll(a: RemotingCommand | int, b: int, pull: RemotingCommand | Script = pulled) -> Callable[[], None]:
        """The state of both brokers before a poll: their ends, or the response of ``a``."""

        def set_up() -> None:
            stats = topic_stats({A: QueueBounds(0, a)}) if isinstance(a, int) else a
            scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, stats)
            scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, pull)
            scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({B: QueueBounds(0, b)}))

        return set_up

    requests_fail = [poll(BUSY, 6), poll(BUSY, 7)]
    pulls_fail = [poll(7, 8, BUSY), poll(7, 9, BUSY)]
    recovered = [poll(7, 9), poll(BUSY, 9), poll(9, 9), poll(11, 11)]
    printed = followed(scripted, capsys, [*requests_fail, *pulls_fail, *recovered])
    errors = [[line for line in lines if "SYSTEM_BUSY" in line] for lines in printed]
    assert list(map(len, errors)) == [1, 0, 1, 0, 0, 1, 0, 0]
    assert "PULL_MESSAGE" in errors[2][0]
    assert [[line for line in lines if "SYSTEM_BUSY" not in line] for lines in printed] == [
        ["b:0:5"],
        ["b:0:6"],
        ["b:0:7"],
        ["b:0:8"],
        ["a:0:5", "a:0:6"],
        [],
        ["a:0:7", "a:0:8"],
        ["a:0:9", "b:0:9", "a:0:10", "b:0:10"],
    ]


def test_no_queue_is_read_again_while_pulls_of_another_fail(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a broker that fails, no further queue is tried in this poll."""
    pulls: list[str] = []

    def pull(request: RemotingCommand) -> RemotingCommand:
        queue_id = request.fields["queueId"]
        pulls.append(f"{queue_id}:{request.fields['queueOffset']}")
        return BUSY if queue_id == "1" else pulled(request)

    queues = [A, MessageQueue("T", "a", 1), MessageQueue("T", "a", 2)]
    scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(dict.fromkeys(queues, QueueBounds(5, 7))))
    scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({B: QueueBounds(0, 5)}))
    scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, pull)
    first, second, third = followed(
        scripted,
        capsys,
        [lambda: None, lambda: None, lambda: scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, pulled)],
    )
    assert first[:2] == ["a:0:5", "a:0:6"]
    assert "SYSTEM_BUSY" in first[2]
    assert second == []
    assert third == ["a:1:5", "a:1:6", "a:2:5", "a:2:6"]
    assert pulls == ["0:5", "0:6", "1:5", "1:5"]


def test_new_offsets_are_those_since_then_and_all_of_a_new_queue() -> None:
    assert new_range(A, QueueBounds(2, 9), QueueBounds(3, 11), no_search) == QueueBounds(9, 11)
    assert new_range(A, None, QueueBounds(4, 5), no_search) == QueueBounds(4, 5)


def no_search(queue: MessageQueue, timestamp_ms: int) -> int:
    raise AssertionError((queue, timestamp_ms))


@pytest.mark.parametrize(
    ("found", "expected"), [(0, QueueBounds(0, 3)), (3, QueueBounds(3, 3)), (9, QueueBounds(3, 3))]
)
def test_of_a_queue_that_ends_earlier_those_stored_since_then_are_new(found: int, expected: QueueBounds) -> None:
    """All if it was re-created, none if its broker lost the last messages."""
    searched: list[tuple[MessageQueue, int]] = []

    def search(queue: MessageQueue, timestamp_ms: int) -> int:
        searched.append((queue, timestamp_ms))
        return found

    assert new_range(A, QueueBounds(2, 9, 1_000), QueueBounds(0, 3), search) == expected
    assert searched == [(A, 1_001)]
