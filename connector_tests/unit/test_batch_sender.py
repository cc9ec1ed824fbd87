from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from connector_tests.support.log_lines import outage_text, text_of, texts_of
from connector_tests.support.scripted_broker import ScriptedBroker, build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.remoting.route_table import RouteHistory
from rocketmq_spark.remoting.write_queues import ROUTE_LIFETIME_MS
from rocketmq_spark.sink import batch_sender
from rocketmq_spark.sink.batch_sender import BatchSender
from rocketmq_spark.sink.send_batches import RowTarget, SendBatch
from rocketmq_spark.sink.topic_lookup import TopicRequirement
from rocketmq_spark.sink.write_task import Columns, WriteTask, write_rows
from rocketmq_spark.wire.message.batch import decode_batch
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

STORED = {"msgId": "ID", "queueId": "0", "queueOffset": "0"}
BATCHES = [SendBatch("T", None, memoryview(f"batch {number}".encode()), 1, number) for number in range(4)]
BODIES = [bytes(batch.body) for batch in BATCHES]
WITH_KEYS, WITHOUT_KEYS = TopicRequirement("T", has_keys=True), TopicRequirement("T")


NOT_STORED = (
    "A batch of 1 rows for topic T, the first of them row 0 of the task, was not stored; rows behind it may not be "
    "either."
)


class Time:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.pauses: list[int] = []

    def __call__(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds * 1000))
        self.now_ms += round(seconds * 1000)


class Responses:
    """What a broker answers to one batch after another; the last code stays."""

    def __init__(self, broker: ScriptedBroker, *codes: int) -> None:
        self._codes = list(codes) or [ResponseCode.SUCCESS]
        self.requests: list[RemotingCommand] = []
        self.remark: str | None = None
        broker.on(RequestCode.SEND_BATCH_MESSAGE, self._response)

    def _response(self, request: RemotingCommand) -> RemotingCommand:
        self.requests.append(request)
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        return build_response(code, STORED, remark=self.remark)

    def bodies(self) -> list[bytes]:
        return [bytes(request.body) for request in self.requests]


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        yield cluster


def write(
    cluster: ScriptedCluster,
    batches: list[SendBatch],
    clock: Time | None = None,
    history: RouteHistory | None = None,
    **given: str,
) -> Time:
    clock = clock or Time()
    options = WriteOptions.parse({"namesrvAddr": NAME_SERVER, "clusterTimeoutMs": "10000", **given})
    sender = BatchSender(options, cluster.pool, clock, clock.sleep, history, initial_queue_index=lambda: 0)
    for batch in batches:
        sender.send(batch)
    sender.finish()
    return clock


def failure(cluster: ScriptedCluster, history: RouteHistory | None = None, **given: str) -> tuple[RocketMQError, Time]:
    clock = Time()
    with pytest.raises(RocketMQError) as raised:
        write(cluster, BATCHES[:1], clock, history, **given)
    return raised.value, clock


def test_a_batch_goes_to_the_next_queue_with_the_producer_group(cluster: ScriptedCluster) -> None:
    at_a, at_b = Responses(cluster.brokers["a"]), Responses(cluster.brokers["b"])
    write(cluster, BATCHES, producerGroup="G")
    assert (at_a.bodies(), at_b.bodies()) == (BODIES[0::2], BODIES[1::2])
    assert {(one.fields["a"], one.fields["b"], one.fields["m"]) for one in at_a.requests} == {("G", "T", "true")}


def test_tasks_begin_with_different_queues(cluster: ScriptedCluster) -> None:
    """Each began with the first queue of the first broker: what fits into a batch went there, of all tasks."""
    at_a, at_b = Responses(cluster.brokers["a"]), Responses(cluster.brokers["b"])
    for _ in range(60):
        a_task = BatchSender(WriteOptions.parse({"namesrvAddr": NAME_SERVER}), cluster.pool)
        a_task.send(BATCHES[0])
        a_task.finish()
    assert len(at_a.requests) + len(at_b.requests) == 60
    assert min(len(at_a.requests), len(at_b.requests)) > 5


def test_each_topic_is_served_round_robin(cluster: ScriptedCluster) -> None:
    """Topics that took turns with each other had one broker each."""
    at_a, at_b = Responses(cluster.brokers["a"]), Responses(cluster.brokers["b"])
    write(cluster, [replace(batch, topic="TU"[number % 2]) for number, batch in enumerate(BATCHES)])
    for at_one in (at_a, at_b):
        assert sorted(request.fields["b"] for request in at_one.requests) == ["T", "U"]


def test_a_broker_that_joins_gets_batches_of_a_running_task(cluster: ScriptedCluster) -> None:
    """The route was requested after a failure only: the rest of a long task went to the other broker."""
    clock = Time()
    b = cluster.brokers.pop("b")
    at_a, at_b = Responses(cluster.brokers["a"]), Responses(b)
    task = sender(cluster, clock)
    for waited_ms, batch in zip((0, ROUTE_LIFETIME_MS - 1, 1, 0), BATCHES, strict=True):
        clock.now_ms += waited_ms
        task.send(batch)
        task.finish()
        cluster.brokers["b"] = b
    assert (len(at_a.requests), len(at_b.requests)) == (3, 1)
    assert cluster.route_request_count == 2


def test_several_batches_are_on_their_way_at_once_and_never_more_bytes_than_allowed(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    size_bytes = len(BODIES[0])
    monkeypatch.setattr(batch_sender, "IN_FLIGHT_BYTES", 2 * size_bytes + 1)
    for broker in cluster.brokers.values():
        Responses(broker)
    sender = BatchSender(WriteOptions.parse({"namesrvAddr": NAME_SERVER}), cluster.pool)
    in_flight = []
    for batch in BATCHES:
        sender.send(batch)
        in_flight.append(sender.bytes_in_flight)
    assert in_flight == [size_bytes, 2 * size_bytes, 2 * size_bytes, 2 * size_bytes]
    sender.send(SendBatch("T", None, memoryview(b"larger than all that may be in flight"), 1, 4))
    assert sender.bytes_in_flight == len("larger than all that may be in flight")
    sender.finish()
    assert sender.bytes_in_flight == 0


def test_no_more_requests_are_on_their_way_than_a_broker_queues(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of delayed rows, each a request, bytes alone let 40,000 go at once."""
    monkeypatch.setattr(batch_sender, "IN_FLIGHT_REQUESTS", 2)
    for broker in cluster.brokers.values():
        Responses(broker)
    sender = BatchSender(WriteOptions.parse({"namesrvAddr": NAME_SERVER}), cluster.pool)
    in_flight = []
    for batch in BATCHES:
        sender.send(batch)
        in_flight.append(sender.bytes_in_flight // len(BODIES[0]))
    sender.finish()
    assert in_flight == [1, 2, 2, 2]


@pytest.mark.parametrize(
    "code", [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE]
)
def test_a_broker_that_is_busy_is_given_time_while_another_takes_the_batch(cluster: ScriptedCluster, code: int) -> None:
    at_a, at_b = Responses(cluster.brokers["a"], code), Responses(cluster.brokers["b"])
    clock = write(cluster, BATCHES[:1])
    assert (at_a.bodies(), at_b.bodies()) == ([BODIES[0]], [BODIES[0]])
    assert clock.pauses == [50]


def test_where_all_brokers_are_busy_the_batch_waits_for_them(cluster: ScriptedCluster) -> None:
    busy = [ResponseCode.SYSTEM_BUSY] * 3
    at_a = Responses(cluster.brokers["a"], *busy, ResponseCode.SUCCESS)
    at_b = Responses(cluster.brokers["b"], *busy, ResponseCode.SUCCESS)
    clock = write(cluster, BATCHES[:1])
    assert len(at_a.requests) + len(at_b.requests) == len(clock.pauses) + 1
    assert clock.pauses[:3] == [50, 100, 200]


def test_a_broker_that_is_unavailable_is_replaced_by_another_and_not_tried_for_each_batch(
    cluster: ScriptedCluster,
) -> None:
    cluster.down.add("a:10911")
    at_b = Responses(cluster.brokers["b"])
    clock = write(cluster, BATCHES)
    assert sorted(at_b.bodies()) == BODIES
    assert len(clock.pauses) <= 2


def test_a_broker_that_stored_a_batch_after_a_failure_gets_others_at_once(cluster: ScriptedCluster) -> None:
    """Else the pause after the failure, which is longer than that between two attempts, would keep them away."""
    at_a = Responses(cluster.brokers["a"], ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS)
    at_b = Responses(cluster.brokers["b"])
    write(cluster, [*map(pinned, BATCHES[:2]), *BATCHES[2:]])
    assert (at_a.bodies(), at_b.bodies()) == ([BODIES[0], *BODIES[:3]], BODIES[3:])


def test_what_was_in_flight_when_the_connection_is_lost_is_sent_again(cluster: ScriptedCluster) -> None:
    at_b = Responses(cluster.brokers["b"])
    seen: list[bytes] = []

    def cut(request: RemotingCommand) -> RemotingCommand:
        seen.append(bytes(request.body))
        raise TransportError("CONNECTION_LOST", address="the client", reason="the script cuts it")

    cluster.brokers["a"].on(RequestCode.SEND_BATCH_MESSAGE, cut)
    write(cluster, BATCHES)
    assert BODIES[0] in seen
    assert set(at_b.bodies()) == set(BODIES)


def test_what_no_broker_stores_within_the_limit_is_an_error_that_names_the_topic_and_the_last_failure(
    cluster: ScriptedCluster,
) -> None:
    Responses(cluster.brokers["a"], ResponseCode.SYSTEM_BUSY)
    Responses(cluster.brokers["b"], ResponseCode.SYSTEM_BUSY)
    error, clock = failure(cluster, clusterTimeoutMs="3000")
    assert isinstance(error, TransportError)
    assert error.condition == "CLUSTER_TIMEOUT"
    assert "topic T" in str(error)
    assert "SYSTEM_BUSY" in str(error)
    assert 3_000 <= clock.now_ms < 5_000


def test_that_nothing_is_lost_is_logged_for_streams_alone(cluster: ScriptedCluster) -> None:
    """A batch write has no checkpoint, and the rows before may be stored; it was told that nothing is lost."""
    Responses(cluster.brokers["a"], ResponseCode.SYSTEM_BUSY)
    Responses(cluster.brokers["b"], ResponseCode.SYSTEM_BUSY)
    error, _ = failure(cluster, clusterTimeoutMs="3000")
    assert "(limit 3000 ms)" in str(error)
    assert str(error).endswith(
        "raise 'clusterTimeoutMs'. A restarted streaming query resumes from its checkpoint. A batch write may have "
        "stored some rows: a rerun stores these again."
    )


def test_what_another_attempt_would_not_change_is_an_error_at_once_that_reports_the_rows(
    cluster: ScriptedCluster,
) -> None:
    Responses(cluster.brokers["a"], ResponseCode.MESSAGE_ILLEGAL)
    error, clock = failure(cluster)
    assert isinstance(error, BrokerError)
    assert error.code == ResponseCode.MESSAGE_ILLEGAL
    assert error.__notes__ == [NOT_STORED]
    assert clock.pauses == []


@pytest.mark.parametrize(
    "code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE]
)
def test_what_is_not_durable_is_sent_again_unless_that_is_accepted(cluster: ScriptedCluster, code: int) -> None:
    at_a, at_b = Responses(cluster.brokers["a"], code), Responses(cluster.brokers["b"])
    write(cluster, BATCHES[:1], acceptNotDurable="true")
    assert (len(at_a.requests), len(at_b.requests)) == (1, 0)
    write(cluster, BATCHES[:1])
    assert (len(at_a.requests), len(at_b.requests)) == (2, 1)
    Responses(cluster.brokers["b"], code)
    error, _ = failure(cluster, clusterTimeoutMs="500")
    assert "MESSAGE_NOT_DURABLE" in str(error)
    assert "acceptNotDurable" in str(error)


def test_what_is_waited_for_is_logged_at_once_at_growing_intervals_and_when_it_is_over(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A sink used to state nothing for five minutes, and then to fail."""
    caplog.set_level("INFO")
    Responses(cluster.brokers["a"], *([ResponseCode.SYSTEM_BUSY] * 14), ResponseCode.SUCCESS)
    write(cluster, [pinned(BATCHES[0])], clusterTimeoutMs="300000")
    begun, *more, over = caplog.messages
    assert outage_text(begun).startswith("Waiting for queue T@a:0 (fails in 299 s): [ROCKETMQ_BROKER_ERROR] ")
    assert [text.split(",")[0] for text in texts_of(more)] == ["Still waiting for queue T@a:0 (for 17 s"]
    assert text_of(over) == "Recovered after 19 s: queue T@a:0"


def test_of_what_is_stored_after_a_moment_nothing_is_logged(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    Responses(cluster.brokers["a"], ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS)
    write(cluster, [pinned(BATCHES[0])])
    assert caplog.messages == []


def test_a_topic_that_is_waited_for_before_a_row_can_be_sent_is_logged(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
    assert sender(cluster, Time(), missingTopicTimeoutMs="5000").topics.find_problems([WITH_KEYS])
    assert outage_text(caplog.messages[0]).startswith("Waiting for topic T (fails in 4 s): [ROCKETMQ_TOPIC_NOT_FOUND] ")


def test_a_topic_that_may_not_be_written_to_is_waited_for_no_longer_than_a_missing_one(
    cluster: ScriptedCluster,
) -> None:
    cluster.permission = 4
    error, clock = failure(cluster, missingTopicTimeoutMs="1000")
    assert isinstance(error, RouteError)
    assert error.condition == "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE"
    assert 1_000 <= clock.now_ms < 3_000


def test_a_topic_that_is_not_there_is_named_when_its_time_is_over(cluster: ScriptedCluster) -> None:
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
    error, clock = failure(cluster, missingTopicTimeoutMs="0")
    assert error.condition == "TOPIC_NOT_FOUND"
    assert clock.pauses == []


def test_a_topic_that_was_written_to_is_waited_for_as_its_brokers_are_and_not_reported_as_one_that_does_not_exist(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The name servers forget a killed broker's topics: a sink once gave it a minute, and advised to create it."""
    history = RouteHistory()
    for broker in cluster.brokers.values():
        Responses(broker)
    write(cluster, BATCHES, history=history)
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
    error, clock = failure(cluster, history=history, missingTopicTimeoutMs="0")
    unavailable = (
        f"[ROCKETMQ_TOPIC_UNAVAILABLE.NO_ROUTE] Topic 'T' is unavailable: name server {NAME_SERVER} no longer "
        "returns a route. Last brokers: a (a:10911), b (b:10911)."
    )
    advice = "Start these brokers, and check that they register. If the topic was deleted, create it again."
    assert error.condition == "CLUSTER_TIMEOUT"
    assert unavailable in str(error)
    assert outage_text(caplog.messages[0]) == f"Waiting for topic T (fails in 9 s): {unavailable} {advice}"
    assert clock.now_ms >= 10_000


def test_a_topic_that_is_back_is_written_to_where_it_is(cluster: ScriptedCluster) -> None:
    def deleted_for_a_while(request: RemotingCommand) -> RemotingCommand:
        return cluster.route(request) if clock.now_ms > 5_000 else build_response(ResponseCode.TOPIC_NOT_EXIST)

    at_a, clock, history = Responses(cluster.brokers["a"]), Time(), RouteHistory()
    write(cluster, [pinned(BATCHES[0])], history=history)
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, deleted_for_a_while)
    write(cluster, [pinned(BATCHES[1])], clock, history=history, missingTopicTimeoutMs="0")
    assert at_a.bodies() == BODIES[:2]


class NameServerIsBack:
    """A name server that is silent at first, and knows no broker for a while when it is back."""

    def __init__(self, cluster: ScriptedCluster, clock: Time, back_ms: int, registered_ms: int) -> None:
        self._cluster, self._clock, self._back_ms, self._registered_ms = cluster, clock, back_ms, registered_ms
        cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, self._response)

    def _response(self, request: RemotingCommand) -> RemotingCommand:
        if self._clock.now_ms < self._back_ms:
            raise TransportError("CONNECTION_LOST", address="the client", reason="the script cuts it")
        if self._clock.now_ms < self._registered_ms:
            return build_response(ResponseCode.TOPIC_NOT_EXIST)
        return self._cluster.route(request)


@pytest.mark.parametrize("batch", [BATCHES[0], replace(BATCHES[0], queue=MessageQueue("T", "a", 0))])
def test_a_topic_is_given_its_time_from_when_a_name_server_is_back(
    cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture, batch: SendBatch
) -> None:
    """The outage was charged to the topic: a name server that was back before its brokers ended the sink at once."""
    caplog.set_level("INFO")
    at_a, clock = Responses(cluster.brokers["a"]), Time()
    NameServerIsBack(cluster, clock, back_ms=20_000, registered_ms=26_000)
    write(cluster, [batch], clock, clusterTimeoutMs="60000", missingTopicTimeoutMs="10000")
    assert at_a.bodies() == [bytes(batch.body)]
    begun, *_, over = caplog.messages
    assert outage_text(begun).startswith(
        "Waiting for the name servers (fails in 59 s): [ROCKETMQ_NAME_SERVERS_UNAVAILABLE] "
    )
    assert any(": Recovered after 2" in line and " s: the name servers" in line for line in caplog.messages)
    assert text_of(over).startswith("Recovered after ")


def test_a_key_waits_for_name_servers_as_its_rows_would(cluster: ScriptedCluster) -> None:
    clock = Time()
    NameServerIsBack(cluster, clock, back_ms=20_000, registered_ms=26_000)
    waiting = sender(cluster, clock, clusterTimeoutMs="60000", missingTopicTimeoutMs="10000")
    assert waiting.topics.find_problems([WITH_KEYS]) == {}
    assert clock.now_ms >= 26_000


def test_a_topic_that_is_missing_when_a_name_server_is_back_has_its_own_limit(cluster: ScriptedCluster) -> None:
    clock = Time()
    NameServerIsBack(cluster, clock, back_ms=20_000, registered_ms=1_000_000)
    with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
        write(cluster, BATCHES[:1], clock, clusterTimeoutMs="60000", missingTopicTimeoutMs="10000")
    assert 30_000 <= clock.now_ms < 36_000


def test_name_servers_that_stay_unresponsive_are_named(cluster: ScriptedCluster) -> None:
    cluster.down.add(NAME_SERVER)
    error, clock = failure(cluster, clusterTimeoutMs="3000", missingTopicTimeoutMs="0")
    assert error.condition == "CLUSTER_TIMEOUT"
    assert "No successful response from the name servers for" in str(error)
    assert "[ROCKETMQ_NAME_SERVERS_UNAVAILABLE] Cannot get the route of topic 'T': no name server of " in str(error)
    assert 3_000 <= clock.now_ms < 5_000


def test_brokers_that_are_unavailable_when_a_name_server_is_back_have_their_own_limit(cluster: ScriptedCluster) -> None:
    for broker in cluster.brokers.values():
        Responses(broker)
    history, clock = RouteHistory(), Time()
    write(cluster, BATCHES, history=history)
    NameServerIsBack(cluster, clock, back_ms=8_000, registered_ms=14_000)
    assert write(cluster, BATCHES, clock, history).now_ms >= 14_000


def test_a_broker_that_is_given_as_a_name_server_is_logged_at_once(cluster: ScriptedCluster) -> None:
    unknown = build_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="request type 105 not supported")
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, unknown)
    error, clock = failure(cluster)
    assert str(error) == (
        f"[ROCKETMQ_NOT_A_NAME_SERVER] {NAME_SERVER} is not a name server, but probably a broker: it does not "
        "support GET_ROUTEINFO_BY_TOPIC. Set 'namesrvAddr' to the name server's address. Its port is 9876 by "
        "default, a broker's is 10911."
    )
    assert clock.pauses == []


# ---------------------------------------------------------------------------------------------- queues of their own


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (ResponseCode.SYSTEM_ERROR, "java.lang.RuntimeException: message body size exceeded, ..."),
        (ResponseCode.MESSAGE_ILLEGAL, "the message is illegal, maybe ... msg body length limit 65536B, ..."),
    ],
)
def test_what_is_too_large_for_a_broker_is_an_error_at_once_that_reports_what_to_set(
    cluster: ScriptedCluster, code: ResponseCode, remark: str
) -> None:
    """The one was tried again for as long as a silent broker, and then it was said to be silent."""
    Responses(cluster.brokers["a"], code).remark = remark
    error, clock = failure(cluster)
    assert (error.condition, clock.pauses) == ("BROKER_ERROR", [])
    assert error.__notes__ == [f"{NOT_STORED} Set 'maxMessageBytes' to the 'maxMessageSize' of the broker."]


def test_a_topic_that_is_deleted_is_not_made_again_by_a_send(cluster: ScriptedCluster) -> None:
    """A broker with autoCreateTopicEnable makes it like the topic that the request names, TBW102 by default."""
    at_a = Responses(cluster.brokers["a"])
    write(cluster, BATCHES[:1])
    assert at_a.requests[0].fields["c"] == "-"


def pinned(batch: SendBatch, broker: str = "a") -> SendBatch:
    return replace(batch, queue=MessageQueue("T", broker, 0))


def test_a_batch_for_a_queue_goes_there_and_is_stored_before_the_next_one_is_sent(cluster: ScriptedCluster) -> None:
    """The broker refuses the first once: what was sent behind it would be stored before it."""
    at_a = Responses(cluster.brokers["a"], ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS)
    Responses(cluster.brokers["b"])
    write(cluster, [pinned(batch) for batch in BATCHES])
    assert at_a.bodies() == [BODIES[0], *BODIES]


def test_a_broker_whose_queue_is_named_is_waited_for_and_then_the_queue_is_named(cluster: ScriptedCluster) -> None:
    Responses(cluster.brokers["b"])
    cluster.down.add("a:10911")
    clock = Time()
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*queue T@a:0") as raised:
        write(cluster, [pinned(BATCHES[0])], clock, clusterTimeoutMs="3000")
    assert 3_000 <= clock.now_ms < 5_500
    assert raised.value.__notes__ == [NOT_STORED]


def test_a_single_message_is_sent_as_one_with_its_properties_and_flags(cluster: ScriptedCluster) -> None:
    requests: list[RemotingCommand] = []

    def store(request: RemotingCommand) -> RemotingCommand:
        requests.append(request)
        return build_response(fields=STORED)

    cluster.brokers["a"].on(RequestCode.SEND_MESSAGE_V2, store)
    write(cluster, [replace(pinned(BATCHES[0]), properties="DELAY\x013\x02", sys_flag=0x301)])
    (request,) = requests
    assert (request.fields["i"], request.fields["f"], request.fields["m"]) == ("DELAY\x013\x02", "769", "false")


def sender(cluster: ScriptedCluster, clock: Time, **given: str) -> BatchSender:
    return BatchSender(WriteOptions.parse({"namesrvAddr": NAME_SERVER, **given}), cluster.pool, clock, clock.sleep)


def test_a_sharding_key_leads_to_a_queue_also_while_its_broker_is_not_in_the_route(cluster: ScriptedCluster) -> None:
    asking = sender(cluster, Time())
    assert asking.topics.find_problems([WITH_KEYS]) == {}
    keys = [RowTarget("T", sharding_key=f"key-{number}") for number in range(20)]
    before = [asking.topics.resolve_queue(place) for place in keys]
    assert {queue.broker_name for queue in before if queue is not None} == {"a", "b"}
    Responses(cluster.brokers["a"], ResponseCode.SYSTEM_BUSY, ResponseCode.SUCCESS)
    del cluster.brokers["b"]
    asking.send(pinned(BATCHES[0]))
    asking.finish()
    assert cluster.route_request_count == 2
    assert [asking.topics.resolve_queue(place) for place in keys] == before
    assert asking.topics.resolve_queue(RowTarget("T", "z", 3, "key-1")) == MessageQueue("T", "z", 3)
    assert asking.topics.resolve_queue(RowTarget("T")) is None


def test_a_key_of_a_topic_that_is_not_there_waits_as_long_as_its_rows_would(cluster: ScriptedCluster) -> None:
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(ResponseCode.TOPIC_NOT_EXIST))
    clock = Time()
    (problem,) = sender(cluster, clock, missingTopicTimeoutMs="1000").topics.find_problems([WITH_KEYS]).values()
    assert problem.startswith("[ROCKETMQ_TOPIC_NOT_FOUND]")
    assert 1_000 <= clock.now_ms < 3_000


def test_rows_with_keys_are_sent_after_one_lookup(cluster: ScriptedCluster) -> None:
    responses = [Responses(broker) for broker in cluster.brokers.values()]
    keys = [f"key-{number}" for number in range(20)]
    rows = pa.record_batch([pa.array(keys, pa.binary()), pa.array(keys)], names=["body", "shardingKey"])
    options, columns = (
        WriteOptions.parse({"namesrvAddr": NAME_SERVER, "topic": "T"}),
        Columns({"body": 0, "shardingKey": 1}),
    )
    assert write_rows([rows, rows], columns, WriteTask("query q batch 1", 0), options, sender(cluster, Time())) == 40
    bodies = [[message.body.decode() for body in one.bodies() for message in decode_batch(body)] for one in responses]
    assert sorted([*bodies[0], *bodies[1]]) == sorted([*keys, *keys])
    assert set(bodies[0]).isdisjoint(bodies[1])
    assert cluster.route_request_count == 1


COMPACTED = b'{"attributes":{"cleanup.policy":"COMPACTION"}}'


def test_the_next_broker_reports_whether_a_topic_is_compacted_where_one_is_unavailable(
    cluster: ScriptedCluster,
) -> None:
    for unavailable in ("a", "b"):
        cluster.down = {f"{unavailable}:10911"}
        for broker in cluster.brokers.values():
            broker.on(RequestCode.GET_TOPIC_CONFIG, build_response(body=COMPACTED))
        clock = Time()
        assert sender(cluster, clock).topics.find_problems([WITHOUT_KEYS], first_only=False).keys() == {WITHOUT_KEYS}
        assert clock.pauses == []


def test_a_topic_whose_brokers_are_all_unavailable_is_waited_for_before_rows_without_keys_are_sent(
    cluster: ScriptedCluster,
) -> None:
    """It was mistaken for one that is not compacted: what was sent to it when they were back was lost."""
    cluster.down = {"a:10911", "b:10911"}
    clock = Time()
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*topic T"):
        sender(cluster, clock, clusterTimeoutMs="3000").topics.find_problems([WITHOUT_KEYS], first_only=True)
    assert 3_000 <= clock.now_ms < 5_500


def test_while_all_brokers_are_busy_it_is_unknown_whether_a_topic_is_compacted(cluster: ScriptedCluster) -> None:
    """A broker that rejects what waits too long in its queue was mistaken for one that does not know the request."""
    for broker in cluster.brokers.values():
        broker.on(RequestCode.GET_TOPIC_CONFIG, build_response(ResponseCode.SYSTEM_BUSY))
    with pytest.raises(TransportError, match=r"CLUSTER_TIMEOUT.*topic T"):
        sender(cluster, Time(), clusterTimeoutMs="3000").topics.find_problems([WITHOUT_KEYS], first_only=True)


@pytest.mark.parametrize("code", [ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR, None])
def test_a_broker_that_does_not_report_its_permission_is_written_to(cluster: ScriptedCluster, code: int | None) -> None:
    """An older one does not know the request, an ACL may refuse it."""
    if code is not None:
        for broker in cluster.brokers.values():
            broker.on(RequestCode.GET_TOPIC_CONFIG, build_response(code))
    clock = Time()
    assert sender(cluster, clock).topics.find_problems([WITHOUT_KEYS], first_only=True) == {}
    assert clock.pauses == []


def test_rows_without_a_key_go_only_where_the_order_configuration_names_queues(cluster: ScriptedCluster) -> None:
    cluster.queue_count, cluster.order_conf = 4, "b:2"
    at_a, at_b = Responses(cluster.brokers["a"]), Responses(cluster.brokers["b"])
    write(cluster, BATCHES)
    assert [request.fields["e"] for request in at_b.requests] == ["0", "1", "0", "1"]
    assert at_a.requests == []
