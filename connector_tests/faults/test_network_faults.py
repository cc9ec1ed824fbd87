"""A broker behind a network that cuts, stalls, delays, corrupts and refuses; and one that stands still itself."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.fault_proxy import Direction, FaultProxy
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.timeouts import PATIENT_MS, TIMEOUT_FACTOR, WAIT_S
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.errors import RocketMQError, TransportError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue
from rocketmq_spark.pull.pull_connections import PullConnections
from rocketmq_spark.pull.pull_request import PullRequest
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.remoting.retry import Retryability, retryability_of_request
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.pull import PullOutcome, PullResult, PullStatus
from rocketmq_spark.wire.remoting.pull_frames import pull_frames

QUEUE = MessageQueue("T", "broker-a", 0)
FOUND = build_response(fields={"nextBeginOffset": "1", "minOffset": "0", "maxOffset": "1"}, body=bytes(100_000))
TIMEOUT_MS = PATIENT_MS
SOON_MS = 200


@pytest.fixture
def server() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as server:
        server.on(RequestCode.GET_MAX_OFFSET, build_response(fields={"offset": "5"}))
        server.on(RequestCode.PULL_MESSAGE, FOUND)
        yield server


@pytest.fixture
def proxy(server: ScriptedBroker) -> Iterator[FaultProxy]:
    with FaultProxy(server.listen()) as proxy:
        yield proxy


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    pool = ConnectionPool(TIMEOUT_MS)
    yield pool
    pool.close()


@pytest.fixture
def broker(proxy: FaultProxy, pool: ConnectionPool) -> AdminBroker:
    return AdminBroker(BrokerAddress(proxy.address), pool, TIMEOUT_MS)


def failure(call: Callable[[], object]) -> RocketMQError:
    with pytest.raises(RocketMQError) as raised:
        call()
    return raised.value


def patiently(call: Callable[[], int]) -> int:
    """The first value, when what fails is worth another attempt; the last failure after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return call()
        except RocketMQError as error:
            if retryability_of_request(error) is not Retryability.TRANSIENT or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.mark.parametrize("byte_count", [0, 1, 3, 4, 7, 8, 100, 65_536, 100_000])
def test_a_response_that_is_cut_off_is_a_lost_connection_and_the_next_request_gets_a_new_one(
    proxy: FaultProxy, broker: AdminBroker, byte_count: int
) -> None:
    assert broker.max_offset(QUEUE) == 5
    proxy.cut_after(byte_count)
    error = failure(lambda: broker.pull("G", QUEUE, 0, 32))
    assert (error.condition, error.context["address"]) == ("CONNECTION_LOST", proxy.address)
    proxy.pass_through()
    assert broker.pull("G", QUEUE, 0, 32).status is PullStatus.FOUND


def test_a_request_that_is_cut_off_is_a_lost_connection(proxy: FaultProxy, broker: AdminBroker) -> None:
    proxy.cut_after(10, Direction.TO_SERVER)
    assert failure(lambda: broker.max_offset(QUEUE)).condition == "CONNECTION_LOST"


@pytest.mark.parametrize(
    ("byte_index", "condition"),
    [
        (0, "FRAME_TOO_LARGE"),  # the frame's length
        (4, "MALFORMED_FRAME"),  # the serialization
        (8, "MALFORMED_FRAME"),  # the JSON itself
    ],
)
def test_a_corrupt_response_ends_the_connection_and_is_never_mistaken_for_a_response(
    proxy: FaultProxy, broker: AdminBroker, byte_index: int, condition: str
) -> None:
    proxy.corrupt(byte_index)
    assert failure(lambda: broker.max_offset(QUEUE)).condition == condition
    assert broker.max_offset(QUEUE) == 5


def test_a_network_that_stalls_in_mid_frame_is_a_timeout_and_nothing_is_out_of_step_later(
    server: ScriptedBroker, proxy: FaultProxy, pool: ConnectionPool
) -> None:
    """What had arrived of a frame when the request timed out must not be forgotten."""
    address = BrokerAddress(proxy.address)
    broker, hasty = AdminBroker(address, pool, TIMEOUT_MS), AdminBroker(address, pool, SOON_MS)
    assert broker.max_offset(QUEUE) == 5
    half_sent = threading.Event()

    def half(data: bytes, direction: Direction) -> bytes:
        if direction is Direction.TO_CLIENT and not half_sent.is_set():
            proxy.stall()
            half_sent.set()
        return data

    proxy.inject(half)
    server.on(RequestCode.PULL_MESSAGE, build_response(fields=FOUND.fields, body=bytes(10_000_000)))
    assert failure(lambda: hasty.pull("G", QUEUE, 0, 32)).condition == "RESPONSE_TIMED_OUT"
    assert half_sent.wait(WAIT_S)
    proxy.pass_through()
    assert broker.max_offset(QUEUE) == 5
    assert server.connect_count == 1


def test_a_slow_network_is_no_fault(proxy: FaultProxy, broker: AdminBroker) -> None:
    proxy.delay(50)
    assert broker.max_offset(QUEUE) == 5


def test_a_server_that_comes_back_is_found_again(proxy: FaultProxy, broker: AdminBroker) -> None:
    assert broker.max_offset(QUEUE) == 5
    proxy.refuse()
    assert failure(lambda: broker.max_offset(QUEUE)).condition in {"CONNECTION_LOST", "CONNECT_FAILED"}
    assert failure(lambda: broker.max_offset(QUEUE)).condition == "CONNECT_FAILED"
    threading.Timer(0.1, proxy.pass_through).start()
    assert patiently(lambda: broker.max_offset(QUEUE)) == 5


def test_everything_in_flight_learns_of_a_reset(server: ScriptedBroker, proxy: FaultProxy, broker: AdminBroker) -> None:
    server.unresponsive_on(RequestCode.PULL_MESSAGE)
    reported: list[PullResult | RocketMQError] = []
    all_reported = threading.Event()

    def report(build_response: PullResult | RocketMQError) -> None:
        reported.append(build_response)
        if len(reported) == 32:
            all_reported.set()

    for offset in range(32):
        broker.long_poll("G", QUEUE, offset, 15_000, report)
    session = server.next_session()
    for _ in range(32):
        session.next_received()
    proxy.cut_now()
    assert all_reported.wait(WAIT_S)
    assert {type(error) for error in reported} == {TransportError}


# ------------------------------------------------------------------------------------------------- executors' pulls


@pytest.fixture
def pulling() -> Iterator[PullConnections]:
    pulling = PullConnections(TIMEOUT_MS)
    yield pulling
    pulling.close()


def pulled(pulling: PullConnections, address: str, *offsets: int) -> list[PullOutcome]:
    """What becomes of pulls at these offsets."""
    requests = [PullRequest(offset, offset + 1, 1, deque()) for offset in offsets]
    completions = pulling.get_or_open(BrokerAddress(address)).pull(requests, pull_frames("G", QUEUE, "*"))
    deadline = time.monotonic() + WAIT_S
    while len(completions) < len(requests):
        assert time.monotonic() < deadline, "not told"
        completions += pulling.receive(SOON_MS)
    assert [request for request, _, _ in completions] == requests
    return [build_response for _, build_response, _ in completions]


@pytest.mark.parametrize("byte_count", [0, 1, 3, 4, 7, 8, 100, 65_536, 100_000])
def test_a_pull_whose_response_is_cut_off_is_reported_and_the_next_gets_a_new_connection(
    server: ScriptedBroker, proxy: FaultProxy, pulling: PullConnections, byte_count: int
) -> None:
    assert isinstance(pulled(pulling, proxy.address, 0)[0], PullResult)
    proxy.cut_after(byte_count)
    reported = pulled(pulling, proxy.address, 0, 0)
    assert {(error.condition, error.context["address"]) for error in reported if isinstance(error, RocketMQError)} == {
        ("CONNECTION_LOST", proxy.address)
    }
    proxy.pass_through()
    assert isinstance(pulled(pulling, proxy.address, 0)[0], PullResult)
    assert server.connect_count == 2


@pytest.mark.parametrize(
    ("byte_index", "condition"), [(0, "FRAME_TOO_LARGE"), (4, "MALFORMED_FRAME"), (8, "MALFORMED_FRAME")]
)
@pytest.mark.parametrize("good_ones", [0, 2])
def test_a_corrupt_response_to_a_pull_is_never_mistaken_for_one(
    proxy: FaultProxy, pulling: PullConnections, byte_index: int, condition: str, good_ones: int
) -> None:
    """Nor once ordinary answers are known."""
    for _ in range(good_ones):
        assert isinstance(pulled(pulling, proxy.address, 0)[0], PullResult)
    proxy.corrupt(byte_index)
    reported = pulled(pulling, proxy.address, 0, 0)
    assert {error.condition for error in reported if isinstance(error, RocketMQError)} == {condition}
    assert len(reported) == 2


def test_pulls_over_a_slow_network_are_no_fault(proxy: FaultProxy, pulling: PullConnections) -> None:
    proxy.delay(50)
    assert {type(build_response) for build_response in pulled(pulling, proxy.address, *range(8))} == {PullResult}


# --------------------------------------------------------------------------------------------- the real broker


@pytest.fixture(scope="module")
def pausable(clusters: ClusterPool) -> EmbeddedCluster:
    return clusters.get(separate_jvms=True)


@pytest.mark.broker
def test_a_broker_that_is_suspended_blocks_no_caller_and_works_after_it_resumes(
    pausable: EmbeddedCluster, pool: ConnectionPool
) -> None:
    topic = pausable.create_topic("paused", 1)
    queue = MessageQueue(topic, "broker-a", 0)
    broker, hasty = (
        AdminBroker(BrokerAddress(pausable.broker_addr()), pool, PATIENT_MS),
        AdminBroker(BrokerAddress(pausable.broker_addr()), pool, SOON_MS),
    )
    assert broker.max_offset(queue) == 0
    connection = pool.get(pausable.broker_addr())
    pausable.pause_broker()
    began = time.monotonic()
    try:
        assert failure(lambda: hasty.max_offset(queue)).condition == "RESPONSE_TIMED_OUT"
        large = Message(topic, bytes(4_000_000))
        errors = {failure(lambda: hasty.send(large, queue, "P")).condition for _ in range(5)}
        assert errors <= {"RESPONSE_TIMED_OUT", "CONNECTION_LOST", "CONNECT_FAILED"}
        assert not connection.is_open  # whichever deadline was seen: buffers were full, so this tested sending
    finally:
        pausable.resume_broker()
    assert time.monotonic() - began < 60 * TIMEOUT_FACTOR
    assert patiently(lambda: broker.max_offset(queue)) <= 5


@pytest.mark.broker
def test_a_broker_that_was_killed_is_found_again_after_its_restart(
    pausable: EmbeddedCluster, pool: ConnectionPool
) -> None:
    topic = pausable.create_topic("killed", 1)
    queue = MessageQueue(topic, "broker-a", 0)
    broker = AdminBroker(BrokerAddress(pausable.broker_addr()), pool, TIMEOUT_MS)
    broker.send(Message(topic, b"kept"), queue, "P")
    pausable.kill_broker()
    assert failure(lambda: broker.max_offset(queue)).condition in {"CONNECTION_LOST", "CONNECT_FAILED"}
    pausable.start_broker()
    assert patiently(lambda: broker.max_offset(queue)) in (0, 1)  # its last writes may not have reached the disk


@pytest.mark.broker
def test_a_paused_broker_leaves_no_opaque_behind(pausable: EmbeddedCluster, pool: ConnectionPool) -> None:
    """Late answers come when the broker continues; they must not be mistaken for answers to later requests."""
    topic = pausable.create_topic("late", 4)
    hasty = AdminBroker(BrokerAddress(pausable.broker_addr()), pool, SOON_MS)
    patient = AdminBroker(BrokerAddress(pausable.broker_addr()), pool, PATIENT_MS)
    for queue_id in range(4):
        for _ in range(queue_id):
            patient.send(Message(topic, b"x"), MessageQueue(topic, "broker-a", queue_id), "P")
    patient.await_dispatch()
    pausable.pause_broker()
    try:
        for _ in range(4):
            error = failure(lambda: hasty.max_offset(MessageQueue(topic, "broker-a", 3)))
            assert retryability_of_request(error) is Retryability.TRANSIENT
    finally:
        pausable.resume_broker()
    assert [patient.max_offset(MessageQueue(topic, "broker-a", queue_id)) for queue_id in range(4)] == [0, 1, 2, 3]
