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
from rocketmq_spark.cli.tail import HELD_CHARS, NewMessages, follow, new_range, print_messages
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

A, B = (MessageQueue("T", name, 0) for name in "ab")
BUSY = build_response(ResponseCode.SYSTEM_BUSY, remark="busy")


def held(max_offset: int) -> QueueBounds:
    """The bounds of queue 0 of a broker; the last message's store time is as ``pulled`` has it."""
    return QueueBounds(0, max_offset, max_offset - 1)


def pulled(request: RemotingCommand, later_from: int = 9) -> RemotingCommand:
    """The message at the requested offset of a queue of 9; each is 1 ms later, and that of a queue with a higher ID."""
    offset, queue_id = int(request.fields["queueOffset"]), int(request.fields["queueId"])
    stored_ms = offset + queue_id + 100 * (offset >= later_from)
    record = Record(queue_id=queue_id, queue_offset=offset, store_timestamp_ms=stored_ms)
    fields = {"nextBeginOffset": str(offset + 1), "minOffset": "0", "maxOffset": "9"}
    return build_response(fields=fields, body=pull_body(record))


@pytest.fixture
def scripted() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        for broker in cluster.brokers.values():
            broker.on(RequestCode.PULL_MESSAGE, pulled)
            broker.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, build_response(fields={"offset": "9"}))
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
        follow(scripted.client(), "T", dict.fromkeys((A, B), held(5)), place, pause)
    return printed[1:]


def test_what_a_failing_broker_has_follows_once_it_responds(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restart of one broker ended the command. While its pulls alone failed, no other's messages were printed."""

    def poll(a: RemotingCommand | int, b: int, pull: RemotingCommand | Script = pulled) -> Callable[[], None]:
        """The state of both brokers before a poll: their ends, or the response of ``a``."""

        def set_up() -> None:
            stats = topic_stats({A: held(a)}) if isinstance(a, int) else a
            scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, stats)
            scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, pull)
            scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({B: held(b)}))

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
    scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({B: held(5)}))
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


def test_messages_are_printed_in_parts_of_bounded_size(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that was stored since the last poll was held: of 200 compressed messages, 6 GiB. The end of an outage was the
    same. A part that was printed is not printed again after a failure."""
    lines: list[weakref.ref[Line]] = []
    held_counts: list[int] = []

    def line_of(stored: StoredMessage) -> str:
        held_counts.append(sum(reference() is not None for reference in lines))
        line = Line(place(stored) + " " + "x" * (HELD_CHARS // 3))
        lines.append(weakref.ref(line))
        return line

    def fail_at_7(request: RemotingCommand) -> RemotingCommand:
        return BUSY if (request.fields["queueId"], request.fields["queueOffset"]) == ("4", "7") else pulled(request)

    queues = [MessageQueue("T", "a", queue_id) for queue_id in range(5)]
    scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats(dict.fromkeys(queues, QueueBounds(0, 9))))
    scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({B: held(5)}))
    scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, fail_at_7)
    seen = {queue: QueueBounds(0, 5, 4 + queue.queue_id) for queue in [*queues, B]}
    new_messages = NewMessages(scripted.client(), "T", seen, line_of)
    (error,) = new_messages.print_all()
    assert "SYSTEM_BUSY" in str(error)
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(printed) == [*(f"a:{n}:{at}" for n in range(4) for at in range(5, 9)), "a:4:5", "a:4:6"]
    assert max(held_counts) <= 3
    assert seen[queues[4]] == QueueBounds(5, 7, 10)
    scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, pulled)
    assert new_messages.print_all() == []
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["a:4:7", "a:4:8"]


def test_lines_that_are_held_are_printed_before_an_interrupt(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def line_of(stored: StoredMessage) -> str:
        if message_of(stored).queue_offset == 7:
            raise KeyboardInterrupt
        return place(stored)

    scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({A: held(9)}))
    new_messages = NewMessages(scripted.client(), "T", {A: held(5), B: held(5)}, line_of)
    with pytest.raises(KeyboardInterrupt):
        new_messages.print_all()
    assert capsys.readouterr().out.splitlines() == ["a:0:5", "a:0:6"]


def test_lost_tail_that_has_grown_again_is_printed(
    scripted: ScriptedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker restarted without its last messages and stored more than these before the next poll that succeeded."""

    def poll(a: RemotingCommand | int) -> Callable[[], None]:
        def set_up() -> None:
            stats = topic_stats({A: held(a)}) if isinstance(a, int) else a
            scripted.brokers["a"].on(RequestCode.GET_TOPIC_STATS_INFO, stats)
            scripted.brokers["b"].on(RequestCode.GET_TOPIC_STATS_INFO, topic_stats({B: held(5)}))

        return set_up

    def restart() -> None:
        poll(7)()
        scripted.brokers["a"].on(RequestCode.PULL_MESSAGE, pulled_after)

    def pulled_after(request: RemotingCommand) -> RemotingCommand:
        return pulled(request, later_from=3)

    printed = followed(scripted, capsys, [poll(5), poll(BUSY), restart, poll(8)])
    assert [[line for line in lines if "SYSTEM_BUSY" not in line] for lines in printed] == [
        [],
        [],
        ["a:0:3", "a:0:4", "a:0:5", "a:0:6"],
        ["a:0:7"],
    ]


@pytest.mark.parametrize(("found", "begin_offset"), [(8, 8), (13, 10), (0, 2)])
def test_queue_that_was_missed_begins_with_what_was_stored_since_then(found: int, begin_offset: int) -> None:
    current = QueueBounds(2, 13, 9_000)
    new = new_range(A, QueueBounds(0, 10, 1_000), current, lambda *_: found, was_missed=True)
    assert new == QueueBounds(begin_offset, 13)
    assert new_range(A, QueueBounds(0, 10), current, no_search, was_missed=True) == QueueBounds(10, 13), "time unknown"


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
