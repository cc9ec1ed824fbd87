from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path

import pytest

from connector_tests.support.hostile_queue import HostileQueue, QueueKind, Sent
from connector_tests.support.log_lines import outage_text, text_of, texts_of
from connector_tests.support.manual_clock import ManualClock
from connector_tests.support.message_bytes import BORN_HOST_V6
from connector_tests.support.refusals import refused
from connector_tests.support.simulated_queue import QUEUE, SimulatedNetwork, SimulatedQueue, offsets_of
from rocketmq_spark.errors import RemoteProtocolError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, BrokerData, QueueBounds, QueueRange
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pull.absent_offsets import ABSENT_LIMIT_MS
from rocketmq_spark.pull.outage_notes import OutageNotes
from rocketmq_spark.pull.pull_request import LOST_KINDS, READ, PulledRange, RangeKind
from rocketmq_spark.pull.range_puller import (
    MAX_DEPTH,
    RangePuller,
    new_range_puller,
)
from rocketmq_spark.remoting.replicas import (
    AUTO,
    FIRST_SERVERS,
    FROM_MASTER,
    FROM_SLAVE,
    Server,
    ServerKind,
    pull_address,
)
from rocketmq_spark.remoting.retry import PULL_PAUSES
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult, PullStatus

LOST_CONNECTION = TransportError("CONNECTION_LOST", address="a:1", reason="cut")
NAME_SERVERS_UNAVAILABLE = TransportError("NAME_SERVERS_UNAVAILABLE", topic="orders", addresses="n:1;m:1", cause="cut")
NO_ROUTE = RouteError("TOPIC_NOT_FOUND", topic="orders", address="a:1")
UNAVAILABLE = RouteError("TOPIC_UNAVAILABLE.QUEUE", topic="orders", address="a:1", queue_id=0, broker="broker-a (b:1)")
MASTER_UNAVAILABLE = RouteError("MASTER_UNAVAILABLE", broker="broker-a", topic="orders")
LIMIT_MS = 60_000
MISSING_MS = 20_000
BEGAN_MS = 7_000_000
REFRESHED = BrokerAddress("a:1")
MASTER = BrokerAddress("m:1")
ONLY_MASTER, SUGGESTED_MASTER = Server(ServerKind.ONLY_MASTER), Server(ServerKind.SUGGESTED_MASTER)
ANY_SLAVE, ANY_MASTER = Server(ServerKind.ANY_SLAVE), Server(ServerKind.ANY_MASTER)
REPLICATED = BrokerData("c", "broker-a", {0: "m:1", 1: "s:1"})


NO_BROKER_SERVES_IT = [
    UNAVAILABLE,
    MASTER_UNAVAILABLE,
    refused(ResponseCode.NO_PERMISSION),
    refused(ResponseCode.TOPIC_NOT_EXIST),
    refused(ResponseCode.INVALID_PARAMETER),
]


class Run:
    """One range, read from what ``answer(offset, max messages)`` states."""

    def __init__(
        self,
        response: Callable[[int, int], PullOutcome],
        begin: int = 0,
        end: int = 100,
        missing_ms: int = MISSING_MS,
        waited: Callable[[str], OutageNotes] | None = None,
        began_ms: int = BEGAN_MS,
        unresponsive_ms: int = 0,
        brings_more: Callable[[], bool] = lambda: False,
    ) -> None:
        """``silent_ms``: for so long no name server answers."""
        self.clock = ManualClock(began_ms)
        self._began_ms = began_ms
        self.network = SimulatedNetwork(
            response,
            self.clock,
            no_route=lambda: NAME_SERVERS_UNAVAILABLE if self.took_ms < unresponsive_ms else None,
            brings_more=brings_more,
        )
        queue_range = QueueRange(QUEUE, begin, end)
        self.puller = RangePuller(
            queue_range,
            self.network,
            address=REFRESHED,
            limit_ms=LIMIT_MS,
            missing_ms=missing_ms,
            waited=waited,
            clock=self.clock,
        )

    @property
    def took_ms(self) -> int:
        return self.clock() - self._began_ms

    def pulled(self) -> list[PulledRange]:
        return list(self.puller.pull())

    def rows(self) -> list[int]:
        return [offset for pulled in self.pulled() for offset in offsets_of(pulled)]

    def lost(self) -> list[tuple[int, int]]:
        return [(pulled.begin_offset, pulled.end_offset) for pulled in self.pulled() if pulled.kind in LOST_KINDS]


def failing_first(failures: Iterable[PullOutcome], queue: SimulatedQueue) -> Callable[[int, int], PullOutcome]:
    left = iter(failures)
    return lambda offset, count: next(left, None) or queue.pull(offset, count)


def test_a_broker_that_is_down_is_logged_in_few_lines_and_that_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run = Run(failing_first([LOST_CONNECTION] * 20, SimulatedQueue(max_offset=100)))
    assert run.rows() == list(range(100))
    assert run.took_ms > 20_000
    begun, again, over = caplog.messages
    assert outage_text(begun).startswith(
        f"Waiting for broker {QUEUE.broker_name} (fails in 59 s): [ROCKETMQ_CONNECTION_LOST] "
    )
    assert text_of(again).startswith(f"Still waiting for broker {QUEUE.broker_name} (for ")
    assert over.startswith("CONNECTION_LOST: Recovered after ")


def test_a_topic_that_goes_while_it_is_read_is_not_reported_as_one_that_does_not_exist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A task used to advise to create the topic whose broker was down."""
    run = Run(failing_first([NO_ROUTE] * 8, SimulatedQueue(max_offset=100)))
    assert run.rows() == list(range(100))
    (begun, *_) = caplog.messages
    assert outage_text(begun) == (
        f"Waiting for broker {QUEUE.broker_name} (fails in 19 s): [ROCKETMQ_TOPIC_UNAVAILABLE.QUEUE] Queue 0 of topic "
        f"'orders' is unavailable: name server a:1 no longer returns a route of the topic. Last broker: "
        f"{QUEUE.broker_name} ({REFRESHED}). Start this broker, and check that it registers. A task retries for "
        "'missingQueuesTimeoutMs'; in a stream with missingQueues=fail it fails at once."
    )


def test_a_queue_that_is_unavailable_and_was_never_found_is_reported_with_its_broker_alone() -> None:
    clock = ManualClock()
    network = SimulatedNetwork(lambda _offset, _count: NO_ROUTE, clock)
    puller = RangePuller(QueueRange(QUEUE, 0, 100), network, limit_ms=9_999, missing_ms=0, clock=clock)
    with pytest.raises(RouteError) as raised:
        list(puller.pull())
    assert raised.value.context["broker"] == QUEUE.broker_name


def test_name_servers_that_are_down_are_what_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """A task used to state that it waits for the broker, of which nobody knew anything."""
    run = Run(lambda _offset, _count: LOST_CONNECTION, unresponsive_ms=2 * LIMIT_MS)
    with pytest.raises(TransportError) as raised:
        run.pulled()
    assert str(raised.value).startswith("[ROCKETMQ_CLUSTER_TIMEOUT] No successful response from the name servers for ")
    assert LIMIT_MS <= run.took_ms <= LIMIT_MS + 2 * PULL_PAUSES.longest_ms
    begun, *more = caplog.messages
    assert outage_text(begun) == f"Waiting for the name servers (fails in 59 s): {NAME_SERVERS_UNAVAILABLE}"
    assert more
    assert all(text.startswith("Still waiting for the name servers (for ") for text in texts_of(more))


def test_while_no_name_server_responds_the_address_of_the_plan_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    queue = SimulatedQueue(max_offset=100)

    def response(offset: int, count: int) -> PullOutcome:
        return LOST_CONNECTION if run.took_ms < 5_000 else queue.pull(offset, count)

    run = Run(response, unresponsive_ms=LIMIT_MS)
    assert run.rows() == list(range(100))
    assert set(run.network.addresses) == {REFRESHED}
    assert [text.split(" (")[0].split(" after ")[0] for text in texts_of(caplog.messages)] == [
        "Waiting for the name servers",
        "Recovered",
    ]


def test_a_broker_that_stays_unresponsive_when_name_servers_are_back_has_all_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run(lambda _offset, _count: LOST_CONNECTION, unresponsive_ms=LIMIT_MS // 2)
    with pytest.raises(TransportError, match="No successful response from broker broker-a for"):
        run.pulled()
    assert LIMIT_MS * 3 // 2 <= run.took_ms <= LIMIT_MS * 3 // 2 + 2 * PULL_PAUSES.longest_ms
    assert any(text.startswith("Waiting for broker broker-a") for text in texts_of(caplog.messages))


def test_of_a_pull_that_fails_once_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(failing_first([LOST_CONNECTION] * 3, SimulatedQueue(max_offset=100)))
    assert run.rows() == list(range(100))
    assert caplog.messages == []


def test_an_empty_range_sends_no_request() -> None:
    run = Run(SimulatedQueue(max_offset=10).pull, 5, 5)
    assert (run.pulled(), run.network.pulls) == ([], [])


def test_a_range_is_read_with_as_many_pulls_as_the_brokers_limit_needs() -> None:
    run = Run(SimulatedQueue(max_offset=320, message_limit=32).pull, 0, 320)
    assert run.rows() == list(range(320))
    assert len(run.network.pulls) == 10


def test_pulls_are_in_flight_together() -> None:
    run = Run(SimulatedQueue(max_offset=12_800).pull, 0, 12_800)
    assert run.rows() == list(range(12_800))
    assert run.network.most_in_flight == MAX_DEPTH


@pytest.mark.parametrize("failure", [LOST_CONNECTION, refused(ResponseCode.SYSTEM_BUSY), *NO_BROKER_SERVES_IT])
def test_what_may_pass_is_tried_again(failure: RocketMQError) -> None:
    """A route that is missing passes too: a name server that has just been restarted knows no topic for a while."""
    run = Run(failing_first([failure] * 3, SimulatedQueue(max_offset=100)))
    assert run.rows() == list(range(100))
    assert run.took_ms > 0
    assert run.network.routes_forgotten_count == 3, "after each failure, and after an answer not"


def test_a_broker_that_has_too_much_to_do_is_called_again_where_it_is() -> None:
    """While a cluster was overloaded, every task of every query asked its name servers before each attempt."""
    failure = refused(ResponseCode.FLOW_CONTROL)
    run = Run(failing_first([failure] * 3, SimulatedQueue(max_offset=100)))
    assert run.rows() == list(range(100))
    assert run.network.routes_forgotten_count == 0


def test_responses_that_come_while_another_range_is_read_wait_for_their_own() -> None:
    """Ranges that are asked for ahead share connections with the one that is read."""
    clock, queue = ManualClock(), SimulatedQueue(max_offset=300)
    network = SimulatedNetwork(queue.pull, clock, choose=lambda count: count - 1, brings_more=lambda: True)
    ranges = [QueueRange(QUEUE, begin, begin + 100) for begin in (0, 100, 200)]
    pullers = [
        RangePuller(queue_range, network, limit_ms=9_999, missing_ms=9_999, clock=clock) for queue_range in ranges
    ]
    for puller in pullers:
        puller.start()
    rows = [offset for puller in pullers for pulled in puller.pull() for offset in offsets_of(pulled)]
    assert rows == list(range(300))
    assert len(network.pulls) == len(set(network.pulls))


def test_each_of_many_completions_is_processed_once() -> None:
    run = Run(SimulatedQueue(max_offset=10_000).pull, end=10_000, brings_more=lambda: True)
    assert run.rows() == list(range(10_000))
    assert run.network.routes_forgotten_count == 0


def test_pauses_are_short_again_after_a_response() -> None:
    called_at_ms: list[int] = []
    queue = SimulatedQueue(max_offset=100, message_limit=50)
    failing = iter([True] * 8 + [False, True, False])

    def response(offset: int, count: int) -> PullOutcome:
        called_at_ms.append(run.took_ms)
        return LOST_CONNECTION if next(failing) else queue.pull(offset, count)

    run = Run(response)
    assert run.rows() == list(range(100))
    assert called_at_ms[8] - called_at_ms[7] > 1_000
    assert called_at_ms[10] - called_at_ms[9] == PULL_PAUSES.shortest_ms


@pytest.mark.parametrize(
    "failure",
    [
        refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        RemoteProtocolError("MALFORMED_FRAME", peer="a:1", problem="garbage"),
    ],
)
def test_what_cannot_pass_is_raised_at_once(failure: RocketMQError) -> None:
    run = Run(lambda _offset, _count: failure)
    with pytest.raises(type(failure)) as raised:
        run.pulled()
    assert raised.value is failure
    assert run.took_ms == 0


def test_a_broker_that_stays_unavailable_is_an_error_that_names_it() -> None:
    run = Run(lambda _offset, _count: LOST_CONNECTION)
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*a:1") as raised:
        run.pulled()
    assert raised.value.__cause__ is LOST_CONNECTION
    assert LIMIT_MS <= run.took_ms <= LIMIT_MS + PULL_PAUSES.longest_ms


@pytest.mark.parametrize(("missing_ms", "most_ms"), [(MISSING_MS, MISSING_MS + PULL_PAUSES.longest_ms), (0, 0)])
@pytest.mark.parametrize("failure", NO_BROKER_SERVES_IT)
def test_a_queue_without_a_broker_is_an_error_after_its_own_limit(
    failure: RocketMQError, missing_ms: int, most_ms: int
) -> None:
    run = Run(lambda _offset, _count: failure, missing_ms=missing_ms)
    with pytest.raises(type(failure)) as raised:
        run.pulled()
    assert raised.value is failure
    assert missing_ms <= run.took_ms <= most_ms


# ----------------------------------------------------------------------------------- the limit is the query's


LATER_MS = BEGAN_MS + 10 * LIMIT_MS


def notes_in(folder: Path, batch_id: str = "one") -> Callable[[str], OutageNotes]:
    return lambda subject: OutageNotes(batch_id, subject, folder)


def attempts(
    folder: Path,
    response: Callable[[int, int], PullOutcome],
    count: int = 4,
    batch_id: str = "one",
    began_ms: int = BEGAN_MS,
) -> int:
    """How long so many attempts take that follow each other, as Spark makes them, until one reads the range."""
    now_ms = began_ms
    for _ in range(count):
        run = Run(response, waited=notes_in(folder, batch_id), began_ms=now_ms)
        try:
            run.rows()
        except RocketMQError:
            now_ms = run.clock() + 100
        else:
            return run.clock() - began_ms
    return now_ms - began_ms


def unresponsive(_offset: int, _count: int) -> PullOutcome:
    return LOST_CONNECTION


def unresponsive_after_one() -> Callable[[int, int], PullOutcome]:
    responses = iter([SimulatedQueue(max_offset=100).pull(0, 32)])
    return lambda _offset, _count: next(responses, LOST_CONNECTION)


def test_four_attempts_wait_for_name_servers_no_longer_than_one(tmp_path: Path) -> None:
    def attempt(began_ms: int) -> Run:
        run = Run(
            lambda _offset, _count: LOST_CONNECTION,
            waited=notes_in(tmp_path),
            began_ms=began_ms,
            unresponsive_ms=9 * LIMIT_MS,
        )
        with pytest.raises(TransportError, match="No successful response from the name servers for"):
            run.rows()
        return run

    first = attempt(BEGAN_MS)
    assert attempt(first.clock() + 100).took_ms <= PULL_PAUSES.longest_ms


def test_a_broker_that_became_unresponsive_within_a_range_is_waited_for_once(tmp_path: Path) -> None:
    took_ms = attempts(tmp_path, unresponsive_after_one())
    assert took_ms <= LIMIT_MS + PULL_PAUSES.longest_ms + 4 * 100


def test_the_next_batch_has_all_its_time(tmp_path: Path) -> None:
    assert attempts(tmp_path, unresponsive, count=1) >= LIMIT_MS
    assert attempts(tmp_path, unresponsive, count=1, began_ms=LATER_MS) < LIMIT_MS
    assert attempts(tmp_path, unresponsive, count=1, began_ms=LATER_MS, batch_id="two") >= LIMIT_MS


def test_a_broker_that_has_responded_since_has_all_its_time(tmp_path: Path) -> None:
    assert attempts(tmp_path, unresponsive, count=1) >= LIMIT_MS
    assert attempts(tmp_path, SimulatedQueue(max_offset=100).pull, count=1, began_ms=LATER_MS) == 0
    assert attempts(tmp_path, unresponsive, count=1, began_ms=LATER_MS) >= LIMIT_MS


def test_one_response_removes_the_note(tmp_path: Path) -> None:
    attempts(tmp_path, unresponsive, count=1)
    run = Run(SimulatedQueue(max_offset=4).pull, 0, 4, waited=notes_in(tmp_path), began_ms=LATER_MS)
    assert run.rows() == list(range(4))
    assert len(run.network.pulls) == 1
    assert notes_in(tmp_path)("broker broker-a").since_ms(LATER_MS) is None


def test_a_broker_that_responds_within_an_attempt_has_all_its_time_from_then_on(tmp_path: Path) -> None:
    attempts(tmp_path, unresponsive, count=1)
    assert attempts(tmp_path, unresponsive_after_one(), count=1, began_ms=LATER_MS) >= LIMIT_MS


def test_what_others_waited_before_this_attempt_got_a_response_do_not_count(tmp_path: Path) -> None:
    response, notes = unresponsive_after_one(), OutageNotes("one", "broker broker-a", tmp_path)

    def respond_and_note(offset: int, count: int) -> PullOutcome:
        result = response(offset, count)
        if isinstance(result, RocketMQError):
            notes.record(BEGAN_MS)
        return result

    assert attempts(tmp_path, respond_and_note, count=1, began_ms=LATER_MS) >= LIMIT_MS


def test_where_nothing_can_be_noted_each_attempt_counts_for_itself(tmp_path: Path) -> None:
    file = tmp_path / "no folder"
    file.touch()
    assert attempts(file, unresponsive, count=2) >= 2 * LIMIT_MS


def side_by_side(task: Callable[[], None], count: int = 2) -> None:
    threads = [threading.Thread(target=task) for _ in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def test_a_file_that_another_task_removes_prevents_no_other_caller_from_noting(tmp_path: Path) -> None:
    """Whoever noted looked at all files of the folder, and was put off where one was gone by then."""
    (tmp_path / ("0" * 64)).symlink_to(tmp_path / "nowhere")
    notes = notes_in(tmp_path)("broker broker-a")
    notes.record(BEGAN_MS)
    assert notes.since_ms(BEGAN_MS) == BEGAN_MS


def test_threads_of_a_process_do_not_write_into_each_others_files(tmp_path: Path) -> None:
    """One renamed what the other had just begun to write, and the note was empty."""
    read: list[int | None] = []

    def note_and_read() -> None:
        notes = notes_in(tmp_path)("broker broker-a")
        for _ in range(250):
            notes.record(BEGAN_MS)
            read.append(notes.since_ms(BEGAN_MS))

    side_by_side(note_and_read, count=8)
    assert set(read) == {BEGAN_MS}


def test_tasks_that_run_side_by_side_share_the_note(tmp_path: Path) -> None:
    """Speculation, and tasks of other queues of the same broker."""
    took_ms: list[int] = []

    def read() -> None:
        took_ms.append(attempts(tmp_path, unresponsive))

    side_by_side(read)
    assert max(took_ms) <= LIMIT_MS + PULL_PAUSES.longest_ms + 4 * 100


@pytest.mark.parametrize("failure", [refused(ResponseCode.SYSTEM_BUSY), refused(ResponseCode.NO_PERMISSION)])
def test_ranges_that_are_refused_are_pulled_seldom_however_many_there_are(failure: RocketMQError) -> None:
    """``consumeEnable=false``, or a broker with too much to do."""
    clock, queue = ManualClock(), SimulatedQueue(max_offset=10_000)
    network = SimulatedNetwork(lambda offset, n: failure if clock() < 10_000 else queue.pull(offset, n), clock)
    ranges = [QueueRange(QUEUE, begin, begin + 100) for begin in range(0, 10_000, 100)]
    pullers = [
        RangePuller(queue_range, network, limit_ms=60_000, missing_ms=60_000, clock=clock) for queue_range in ranges
    ]
    for puller in pullers[:8]:
        puller.start()
    rows = [offset for puller in pullers for pulled in puller.pull() for offset in offsets_of(pulled)]
    assert rows == list(range(10_000))
    assert len([at for at, _ in network.pulls if at < 800]) <= 8 * 4 + 8 + 15


def test_a_broker_that_leaves_the_route_may_be_unavailable_for_longer_than_it_may_be_unresponsive() -> None:
    """Its silence used to go on counting while the name servers already said that it was not there."""
    queue = SimulatedQueue(max_offset=100)

    def response(offset: int, count: int) -> PullOutcome:
        if run.took_ms < LIMIT_MS // 2:
            return LOST_CONNECTION
        return MASTER_UNAVAILABLE if run.took_ms < 2 * LIMIT_MS else queue.pull(offset, count)

    run = Run(response, missing_ms=3 * LIMIT_MS)
    assert run.rows() == list(range(100))


def test_the_time_limit_counts_from_the_last_response() -> None:
    queue = SimulatedQueue(max_offset=100, message_limit=10)

    def response(offset: int, count: int) -> PullOutcome:
        is_failing_call = (run.took_ms // (LIMIT_MS // 2)) % 2 == offset // 10 % 2
        return LOST_CONNECTION if is_failing_call else queue.pull(offset, count)

    run = Run(response)
    assert run.rows() == list(range(100))


def test_a_broker_that_refuses_for_load_is_called_less_at_once() -> None:
    """Else it is asked 70 times after every pause."""
    queue = SimulatedQueue(max_offset=3_200)

    def response(offset: int, count: int) -> PullOutcome:
        is_busy = offset >= 1_000 and run.took_ms < 10_000
        return refused(ResponseCode.SYSTEM_BUSY) if is_busy else queue.pull(offset, count)

    run = Run(response, 0, 3_200)
    assert run.rows() == list(range(3_200))
    assert len(run.network.pulls) < 100 + 70 + 15


def test_after_a_slow_response_the_first_pause_is_the_shortest() -> None:
    clock, queue = ManualClock(), SimulatedQueue(max_offset=10)
    failing, called_at_ms = iter([True]), list[int]()

    def response(offset: int, count: int) -> PullOutcome:
        called_at_ms.append(clock())
        return LOST_CONNECTION if next(failing, False) else queue.pull(offset, count)

    network = SimulatedNetwork(response, clock, is_slow=iter([True] * 20 + [False] * 9).__next__)
    puller = RangePuller(QueueRange(QUEUE, 0, 10), network, limit_ms=9_999, missing_ms=9_999, clock=clock)
    assert sum(pulled.end_offset - pulled.begin_offset for pulled in puller.pull()) == 10
    failed_at_ms, again_at_ms = called_at_ms
    assert failed_at_ms > PULL_PAUSES.longest_ms
    assert again_at_ms - failed_at_ms == PULL_PAUSES.shortest_ms


def test_a_slow_response_is_not_requested_again_with_what_was_postponed() -> None:
    """Pauses are shorter than answers may take."""
    clock, queue = ManualClock(), SimulatedQueue(max_offset=100)
    left = iter([False, True, False, True])
    network = SimulatedNetwork(
        lambda offset, count: LOST_CONNECTION if next(left, False) else queue.pull(offset, count),
        clock,
        is_slow=iter([True] * 5 + [False] * 1_000).__next__,
    )
    queue_range = QueueRange(QUEUE, 0, 100)
    puller = RangePuller(queue_range, network, limit_ms=9_999, missing_ms=9_999, clock=clock)
    assert [offset for pulled in puller.pull() for offset in offsets_of(pulled)] == list(range(100))


def at_another_address(here: SimulatedQueue, there: SimulatedQueue) -> Run:
    """The queue is ``there``, and ``here``, where it was surveyed, somebody else answers."""

    def response(offset: int, count: int) -> PullOutcome:
        queue = here if run.network.routes_forgotten_count == 0 else there
        return queue.pull(offset, count)

    run = Run(response)
    return run


@pytest.mark.parametrize(
    "here",
    [
        SimulatedQueue(min_offset=500, max_offset=600),
        SimulatedQueue(max_offset=0),
        SimulatedQueue(max_offset=40),
        SimulatedQueue(removed_to=100, max_offset=100),
    ],
)
def test_the_route_is_requested_again_before_anything_is_lost(here: SimulatedQueue) -> None:
    """31 s of waiting used to end in a loss, though the messages were there."""
    run = at_another_address(here, SimulatedQueue(max_offset=100))
    assert run.rows() == list(range(100))
    assert run.took_ms <= PULL_PAUSES.longest_ms
    assert run.network.addresses[0] == REFRESHED
    assert run.network.addresses[-1] is None


def test_what_another_server_does_not_have_is_not_lost_before_a_name_server_was_called() -> None:
    """None answers at first, so it is tried where it was surveyed, and there another broker is."""
    here, there = SimulatedQueue(min_offset=500, max_offset=600), SimulatedQueue(max_offset=100)

    def response(offset: int, count: int) -> PullOutcome:
        return (here if run.took_ms < 5_000 else there).pull(offset, count)

    run = Run(response, unresponsive_ms=5_000)
    assert run.rows() == list(range(100))


def test_a_tail_is_not_skipped_while_no_name_server_reports_where_the_queue_is() -> None:
    unresponsive_ms = ABSENT_LIMIT_MS + 10_000

    def response(offset: int, count: int) -> PullOutcome:
        return SimulatedQueue(max_offset=60 if run.took_ms < unresponsive_ms else 100).pull(offset, count)

    run = Run(response, unresponsive_ms=unresponsive_ms)
    assert run.rows() == list(range(100))


@pytest.mark.parametrize("failure", [MASTER_UNAVAILABLE, LOST_CONNECTION])
def test_a_tail_is_not_skipped_when_a_master_is_back_that_recovers(failure: RocketMQError) -> None:
    """A slave or the old master lacked it before; the outage between counted as if all responses had lacked it."""
    back_ms = ABSENT_LIMIT_MS + 10_000

    def response(offset: int, count: int) -> PullOutcome:
        if 0 < run.took_ms < back_ms:
            return failure
        return SimulatedQueue(max_offset=60 if run.took_ms < back_ms + 5_000 else 100).pull(offset, count)

    run = Run(response, missing_ms=LIMIT_MS)
    assert run.rows() == list(range(100))


def test_a_tail_is_not_an_error_when_a_master_is_back_after_the_limit_of_a_broker() -> None:
    """A queue may be unavailable for longer than its broker unresponsive: at its first response the task failed."""
    back_ms = LIMIT_MS + 10_000

    def response(offset: int, count: int) -> PullOutcome:
        if 0 < run.took_ms < back_ms:
            return MASTER_UNAVAILABLE
        return SimulatedQueue(max_offset=60 if run.took_ms < back_ms + 5_000 else 100).pull(offset, count)

    run = Run(response, missing_ms=2 * LIMIT_MS)
    assert run.rows() == list(range(100))


def test_responses_that_lack_an_offset_between_failures_are_an_error_in_the_end() -> None:
    lacking, failing = SimulatedQueue(max_offset=60), iter([False, True] * 10_000)
    run = Run(lambda offset, count: LOST_CONNECTION if next(failing) else lacking.pull(offset, count), 60)
    with pytest.raises(RemoteProtocolError) as raised:
        run.pulled()
    assert raised.value.condition == "PULL_STALLED"
    assert LIMIT_MS <= run.took_ms <= LIMIT_MS + 2 * ABSENT_LIMIT_MS + 2 * PULL_PAUSES.longest_ms


def test_the_route_is_requested_again_before_anything_more_is_lost() -> None:
    """Brokers that exchange their addresses a second time, within what was requested at once."""
    elsewhere, queue = SimulatedQueue(min_offset=500, max_offset=600), SimulatedQueue(max_offset=100, message_limit=4)
    wrong = iter([True, False, True])
    run = Run(lambda offset, count: (elsewhere if next(wrong, False) else queue).pull(offset, count), 0, 10)
    assert run.rows() == list(range(10))


def test_a_wide_loss_requests_the_route_again_and_for_nothing_twice_over() -> None:
    queue = SimulatedQueue(max_offset=10_000)

    def response(offset: int, count: int) -> PullOutcome:
        queue.min_offset = 9_000 if offset >= 500 else 0
        return queue.pull(offset, count)

    run = Run(response, 0, 10_000)
    assert run.lost()[-1][1] == 9_000
    assert len(run.network.pulls) < 10_000 // 32 + 2 * MAX_DEPTH


def test_a_range_of_which_no_address_is_known_requests_the_route() -> None:
    clock, queue = ManualClock(), SimulatedQueue(max_offset=100)
    network = SimulatedNetwork(queue.pull, clock)
    puller = RangePuller(QueueRange(QUEUE, 0, 100), network, limit_ms=9_999, missing_ms=9_999, clock=clock)
    assert sum(pulled.end_offset - pulled.begin_offset for pulled in puller.pull()) == 100
    assert network.routes_forgotten_count == 1


def test_what_retention_deleted_is_lost_exactly() -> None:
    lost, *_ = Run(SimulatedQueue(min_offset=37, max_offset=100).pull).pulled()
    assert lost == PulledRange(0, 37, kind=RangeKind.DELETED)


def test_the_min_offset_is_waited_for_while_retention_deletes() -> None:
    queue = SimulatedQueue(removed_to=100, max_offset=200, scan_limit=50)

    def response(offset: int, count: int) -> PullOutcome:
        queue.min_offset = 100 if run.took_ms >= 10_000 else 0
        return queue.pull(offset, count)

    run = Run(response)
    assert run.lost() == [(0, 100)]
    assert 10_000 <= run.took_ms < ABSENT_LIMIT_MS


def test_each_response_that_brings_something_gives_the_rest_its_full_time() -> None:
    queue = SimulatedQueue(max_offset=100)

    def response(offset: int, count: int) -> PullOutcome:
        queue.max_offset = next(to for from_ms, to in ((40_000, 100), (20_000, 80), (0, 60)) if run.took_ms >= from_ms)
        return queue.pull(offset, count)

    run = Run(response)
    assert run.rows() == list(range(100))


def test_a_tail_that_stays_unavailable_is_lost_after_one_time_limit_however_long_it_is() -> None:
    """It used to wait again for every 32 pieces: a day for a million messages."""
    run = Run(SimulatedQueue(max_offset=60).pull, 0, 1_000_000)
    *_, lost = run.pulled()
    assert lost == PulledRange(60, 1_000_000, kind=RangeKind.PRESUMED_LOST)
    assert ABSENT_LIMIT_MS <= run.took_ms <= ABSENT_LIMIT_MS + 2 * PULL_PAUSES.longest_ms


@pytest.mark.parametrize("found_again_at", [None, 500])
def test_lost_offsets_are_logged_once_however_many_pulls_are_in_flight(
    found_again_at: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Two replays of a batch with a lost tail logged 256 lines."""

    def response(offset: int, count: int) -> PullOutcome:
        end = 60 if found_again_at is None else 10_000
        result = SimulatedQueue(max_offset=end, min_offset=0).pull(offset, count)
        if found_again_at is not None and 60 <= offset < found_again_at:
            return result._replace(
                status=PullStatus.NO_MATCHED_MSG, reason="MESSAGE_WAS_REMOVING", next_begin_offset=found_again_at
            )
        return result

    Run(response, 0, 1_000_000 if found_again_at is None else 10_000).pulled()
    assert sum(line.startswith("OFFSETS_UNREADABLE: ") for line in caplog.messages) == 1


def test_a_tail_that_the_queue_has_and_pulls_do_not_reach_is_an_error_and_no_loss() -> None:
    """Tiered stores: the answer to a pull names the end of another store, before that of the queue."""
    run = Run(SimulatedQueue(max_offset=60).pull)
    run.network.held[QUEUE] = QueueBounds(0, 100)
    with pytest.raises(RemoteProtocolError, match=r"PULL_STALLED.*offset 60 of orders@broker-a:0.*OFFSET_OVERFLOW_ONE"):
        run.pulled()
    assert run.took_ms >= LIMIT_MS


def test_a_tail_of_unknown_existence_is_an_error_and_no_loss() -> None:
    run = Run(SimulatedQueue(max_offset=60).pull)
    run.network.held.clear()
    with pytest.raises(RemoteProtocolError, match=r"PULL_STALLED.*offset 60"):
        run.pulled()


def test_a_smaller_end_beside_messages_that_come_is_not_probed() -> None:
    def lagging(offset: int, count: int) -> PullOutcome:
        return SimulatedQueue(max_offset=100).pull(offset, count)._replace(max_offset=4)

    run = Run(lagging)
    assert run.rows() == list(range(100))
    assert run.took_ms == 0


def test_responses_that_lead_nowhere_are_an_error_and_no_loss() -> None:
    stalled = PullResult(PullStatus.NO_MATCHED_MSG, "NO_MATCHED_MESSAGE", 0, 0, 100, memoryview(b""))
    run = Run(lambda _offset, _count: stalled)
    with pytest.raises(
        RemoteProtocolError, match=r"PULL_STALLED.*offset 0 of orders@broker-a:0.*NO_MATCHED_MESSAGE"
    ) as raised:
        run.pulled()
    assert raised.value.context["waited_ms"] == run.took_ms
    assert LIMIT_MS <= run.took_ms <= LIMIT_MS + PULL_PAUSES.longest_ms


def reset_to(offset: int) -> PullResult:
    return PullResult(PullStatus.OFFSET_ILLEGAL, "OFFSET_RESET", offset, 0, 100, memoryview(b""))


def test_a_reset_mark_delays_nothing() -> None:
    run = Run(failing_first([reset_to(3), reset_to(3)], SimulatedQueue(max_offset=100)))
    assert run.rows() == list(range(100))
    assert run.took_ms == 0


# ------------------------------------------------------------------------------------------- as the options say


@pytest.mark.parametrize(("failure", "limit_ms"), [(LOST_CONNECTION, LIMIT_MS), (MASTER_UNAVAILABLE, MISSING_MS)])
def test_an_executor_waits_as_long_as_the_options_define_and_for_what_others_have_waited(
    tmp_path: Path, failure: RocketMQError, limit_ms: int
) -> None:
    given = {"namesrvAddr": "n:1", "consumerGroup": "G", "subscribe": "orders"}
    limits = {"clusterTimeoutMs": str(LIMIT_MS), "missingQueuesTimeoutMs": str(MISSING_MS)}
    options = ReadOptions.parse({**given, **limits})
    clock = ManualClock(BEGAN_MS)
    network = SimulatedNetwork(lambda _offset, _count: failure, clock)
    queue_range = QueueRange(QUEUE, 0, 100)

    def attempt_ms() -> int:
        began_ms, waited = clock(), notes_in(tmp_path)
        with pytest.raises(RocketMQError):
            list(new_range_puller(queue_range, network, options, clock, REFRESHED, waited, is_filtered=False).pull())
        return clock() - began_ms

    assert limit_ms <= attempt_ms() <= limit_ms + PULL_PAUSES.longest_ms
    assert attempt_ms() == 0


def least_in_flight(brings_more: Callable[[], bool]) -> int:
    """While somebody has something in hand, in the middle of a long range."""
    run = Run(SimulatedQueue(max_offset=200_000).pull, end=200_000, brings_more=brings_more)
    counts = [
        run.network.in_flight for pulled in run.puller.pull() if 20_000 < pulled.end_offset < 200_000 - 32 * MAX_DEPTH
    ]
    assert len(counts) > 4_000
    return min(counts)


@pytest.mark.parametrize("responds_at_once", [1, 4, 16])
def test_while_what_came_is_decoded_the_broker_has_most_of_the_pulls(responds_at_once: int) -> None:
    """It used to have none: what came was decoded first, and a probe that fails holds up all behind it."""
    outcomes = cycle([True] * (responds_at_once - 1) + [False])
    assert least_in_flight(lambda: next(outcomes)) > MAX_DEPTH * 2 // 3


# ---------------------------------------------------------------------------------------------------- slaves


def reading_slaves(response: Callable[[int, int], PullOutcome], read_from: str) -> tuple[SimulatedNetwork, RangePuller]:
    clock = ManualClock(BEGAN_MS)
    network = SimulatedNetwork(response, clock)
    return network, RangePuller(
        QueueRange(QUEUE, 0, 100),
        network,
        address=REFRESHED,
        limit_ms=LIMIT_MS,
        missing_ms=MISSING_MS,
        read_from=read_from,
        clock=clock,
    )


@pytest.mark.parametrize(
    ("read_from", "first", "then"), [(AUTO, SUGGESTED_MASTER, ANY_SLAVE), (FROM_SLAVE, ANY_SLAVE, ANY_MASTER)]
)
def test_a_server_that_fails_is_replaced_whatever_is_suggested(read_from: str, first: Server, then: Server) -> None:
    network, puller = reading_slaves(failing_first([LOST_CONNECTION], SimulatedQueue(max_offset=100)), read_from)
    network.suggested_id = 2
    rows = [offset for pulled in puller.pull() for offset in offsets_of(pulled)]
    assert rows == list(range(100))
    assert (network.addresses[0], network.servers[0]) == (REFRESHED, first)
    assert set(zip(network.addresses[1:], network.servers[1:], strict=True)) == {(None, then)}


@pytest.mark.parametrize("failure", [LOST_CONNECTION, refused(ResponseCode.SYSTEM_BUSY)])
@pytest.mark.parametrize("read_from", [AUTO, FROM_SLAVE])
def test_a_slave_that_fails_is_replaced_by_the_master(read_from: str, failure: RocketMQError) -> None:
    """A slave that hangs stays in the route; one with slaveReadEnable=false responds to each pull that it is busy."""
    clock = ManualClock(BEGAN_MS)
    network: SimulatedNetwork

    def respond(offset: int, count: int) -> PullOutcome:
        address = pull_address(REPLICATED, network.servers[-1])
        return SimulatedQueue(max_offset=100).pull(offset, count) if address == MASTER else failure

    network = SimulatedNetwork(respond, clock)
    network.suggested_id = 1
    given = {"namesrvAddr": "n:1", "consumerGroup": "G", "subscribe": "orders"}
    options = ReadOptions.parse({**given, "readFrom": read_from})
    puller = new_range_puller(QueueRange(QUEUE, 0, 100), network, options, clock, is_filtered=False)
    assert [offset for pulled in puller.pull() for offset in offsets_of(pulled)] == list(range(100))
    assert network.servers[0] == FIRST_SERVERS[read_from]
    assert clock() - BEGAN_MS < 2 * PULL_PAUSES.longest_ms


@pytest.mark.parametrize("end", [2_900, 3_000])
def test_pulls_at_a_slave_that_time_out_one_after_another_replace_it_once(end: int) -> None:
    """Each pull in flight has its own deadline: the second one to time out led back to the slave. With some ends
    the last one to time out led to the master again."""
    clock, outcomes, slow = ManualClock(BEGAN_MS), iter([SimulatedQueue(max_offset=end)]), cycle([True, False])

    def respond(offset: int, count: int) -> PullOutcome:
        sent = max(place for place, (at, _) in enumerate(network.pulls) if at == offset)
        is_at_slave = network.servers[sent] == ANY_SLAVE
        held = next(outcomes, None) if is_at_slave else SimulatedQueue(max_offset=end)
        return LOST_CONNECTION if held is None else held.pull(offset, count)

    network = SimulatedNetwork(respond, clock, is_slow=lambda: next(slow))
    puller = RangePuller(
        QueueRange(QUEUE, 0, end), network, read_from=FROM_SLAVE, limit_ms=LIMIT_MS, missing_ms=0, clock=clock
    )
    assert [offset for pulled in puller.pull() for offset in offsets_of(pulled)] == list(range(end))
    replaced = network.servers.index(ANY_MASTER)
    assert replaced > 10
    assert set(network.servers[replaced:]) == {ANY_MASTER}


@pytest.mark.parametrize("read_from", [AUTO, FROM_SLAVE])
@pytest.mark.parametrize("held", [SimulatedQueue(max_offset=40), SimulatedQueue(min_offset=60, max_offset=100)])
def test_what_a_server_lacks_is_pulled_from_the_master(held: SimulatedQueue, read_from: str) -> None:
    """A slave that has replicated too little, or deleted earlier than its master, proves no loss."""
    network: SimulatedNetwork

    def respond(offset: int, count: int) -> PullOutcome:
        is_master = network.servers[-1] == ONLY_MASTER
        return SimulatedQueue(max_offset=100).pull(offset, count) if is_master else held.pull(offset, count)

    network, puller = reading_slaves(respond, read_from)
    network.suggested_id = 2
    pulled = list(puller.pull())
    assert [offset for one in pulled for offset in offsets_of(one)] == list(range(100))
    assert not any(one.kind in LOST_KINDS for one in pulled)
    assert set(network.servers[network.servers.index(ONLY_MASTER) :]) == {ONLY_MASTER}


@pytest.mark.parametrize(
    ("read_from", "server"),
    [
        (AUTO, (None, Server(ServerKind.SUGGESTED_SLAVE, 2))),
        (FROM_SLAVE, (REFRESHED, ANY_SLAVE)),
        (FROM_MASTER, (REFRESHED, ONLY_MASTER)),
    ],
)
def test_a_pull_goes_to_the_server_that_the_response_before_suggested(
    read_from: str, server: tuple[BrokerAddress | None, Server]
) -> None:
    queue = SimulatedQueue(max_offset=1_000, message_limit=10)
    network, puller = reading_slaves(queue.pull, read_from)
    network.suggested_id = 2
    rows = [offset for pulled in puller.pull() for offset in offsets_of(pulled)]
    assert rows == list(range(100))
    assert (network.addresses[-1], network.servers[-1]) == server


def test_vacant_offsets_are_probed_while_pulls_of_them_are_in_flight() -> None:
    clock, queue = ManualClock(), HostileQueue(QueueKind.BATCH, QUEUE.topic)
    for flags in (0, *[BORN_HOST_V6] * 100, 0):
        queue.send(Sent(b"", flags))
    network = SimulatedNetwork(lambda offset, _: queue.pull(offset, 1, None), clock, choose=lambda count: count // 2)
    puller = RangePuller(QueueRange(QUEUE, 0, 102), network, limit_ms=60_000, missing_ms=60_000, clock=clock)
    pulled = list(puller.pull())
    assert [(one.begin_offset, one.end_offset) for one in pulled if one.kind is READ] == [(0, 1), (101, 102)]
    assert {one.kind for one in pulled} == {READ, RangeKind.VACANT}
    begins, ends = [one.begin_offset for one in pulled], [one.end_offset for one in pulled]
    assert (begins[0], begins[1:], ends[-1]) == (0, ends[:-1], 102)
