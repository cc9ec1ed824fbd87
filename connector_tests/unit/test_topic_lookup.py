"""What a task learns of topics before it sends: by a scripted name server, and a clock that only pauses move."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from connector_tests.support.log_lines import outage_text
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import TransportError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.remoting.failures import Failures
from rocketmq_spark.remoting.retry import WRITE_PAUSES, Policy, retryability_of_write
from rocketmq_spark.remoting.route_table import RouteHistory, RouteTable
from rocketmq_spark.sink.send_batches import RowTarget
from rocketmq_spark.sink.topic_lookup import TopicLookup, TopicRequirement, lost_without_keys
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand


class Subject:
    """``looks``, and what they cost."""

    def __init__(
        self,
        cluster: ScriptedCluster,
        *,
        compacted: tuple[str, ...] = (),
        history: RouteHistory | None = None,
        **given: str,
    ) -> None:
        self.now_ms = 0
        self.unresponsive_until_ms = 0
        self.settings_requested: list[str] = []
        self._compacted = compacted
        options = WriteOptions.parse({"namesrvAddr": NAME_SERVER, **given})
        self.routes = RouteTable(cluster.name_servers, history)
        limits_ms = options.cluster_timeout_ms, options.missing_topic_timeout_ms
        failures = Failures(Policy(retryability_of_write, WRITE_PAUSES, *limits_ms), lambda: self.now_ms)
        self.lookup = TopicLookup(self.routes, failures, self._sleep, self._is_compacted)

    def _sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)

    def _is_compacted(self, topic: str) -> bool:
        self.settings_requested.append(topic)
        if self.now_ms < self.unresponsive_until_ms:
            raise TransportError("CONNECT_FAILED", address="a:10911", reason="refused")
        return topic in self._compacted


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        yield cluster


def only_topic(cluster: ScriptedCluster, *there: str) -> None:
    """All others do not exist."""

    def route(request: RemotingCommand) -> RemotingCommand:
        known = request.fields["topic"] in there
        return cluster.route(request) if known else build_response(ResponseCode.TOPIC_NOT_EXIST)

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)


@pytest.mark.parametrize("is_there", [True, False], ids=["read only", "missing"])
def test_a_topic_that_is_not_served_in_its_time_is_a_problem_that_a_task_waits_for_once(
    cluster: ScriptedCluster, is_there: bool
) -> None:
    cluster.permission = 4
    only_topic(cluster, *(["T"] if is_there else []))
    subject = Subject(cluster, missingTopicTimeoutMs="1000")
    (problem,) = subject.lookup.find_problems([TopicRequirement("T")]).values()
    assert problem.startswith(
        "[ROCKETMQ_TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE]" if is_there else "[ROCKETMQ_TOPIC_NOT_FOUND]"
    )
    assert 1_000 <= subject.now_ms < 3_000
    waited_ms = subject.now_ms
    assert subject.lookup.find_problems([TopicRequirement("T")]) == {TopicRequirement("T"): problem}
    assert subject.now_ms == waited_ms


def test_topics_that_are_missing_are_waited_for_together(cluster: ScriptedCluster) -> None:
    """Thirty wrong names took thirty times ``missingTopicTimeoutMs``."""
    only_topic(cluster, "T")
    subject = Subject(cluster, missingTopicTimeoutMs="1000")
    requirements = [TopicRequirement("T"), *(TopicRequirement(f"missing-{number}") for number in range(30))]
    assert set(subject.lookup.find_problems(requirements)) == set(requirements[1:])
    assert 1_000 <= subject.now_ms < 3_000


def test_where_one_problem_is_enough_others_are_not_waited_for(cluster: ScriptedCluster) -> None:
    only_topic(cluster, "T")
    subject = Subject(cluster, missingTopicTimeoutMs="1000")
    invalid_queue = TopicRequirement("T", "a", 9, has_keys=True)
    assert set(subject.lookup.find_problems([invalid_queue, TopicRequirement("missing")], first_only=True)) == {
        invalid_queue
    }
    assert subject.now_ms == 0


def test_name_servers_that_are_unavailable_are_no_problem_of_a_topic(cluster: ScriptedCluster) -> None:
    cluster.down.add(NAME_SERVER)
    subject = Subject(cluster, clusterTimeoutMs="3000")
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        subject.lookup.find_problems([TopicRequirement("T"), TopicRequirement("U")])


def test_a_queue_that_is_named_is_searched_for_in_the_route_and_once_more_in_a_new_one(
    cluster: ScriptedCluster,
) -> None:
    subject = Subject(cluster)
    there, missing = TopicRequirement("T", "b", 0, has_keys=True), TopicRequirement("T", "b", 1, has_keys=True)
    assert subject.lookup.find_problems([there]) == {}
    assert cluster.route_request_count == 1
    for call_count in (2, 3):
        assert subject.lookup.find_problems([there, missing]) == {
            missing: "its topic 'T' has no queue 1 at 'b' (there are: 0 to 0)"
        }
        assert cluster.route_request_count == call_count
    assert subject.now_ms == 0


def test_a_broker_that_has_come_since_is_found(cluster: ScriptedCluster) -> None:
    b = cluster.brokers.pop("b")
    subject = Subject(cluster)
    assert subject.lookup.find_problems([TopicRequirement("T", has_keys=True)]) == {}
    keys = [RowTarget("T", sharding_key=f"key-{number}") for number in range(20)]
    queues_of_keys = [subject.lookup.resolve_queue(key) for key in keys]
    cluster.brokers["b"] = b
    assert subject.lookup.find_problems([TopicRequirement("T", "b", 0, has_keys=True)]) == {}
    assert [subject.lookup.resolve_queue(key) for key in keys] == queues_of_keys, "a key has one queue in a task"


def test_a_name_server_that_is_unavailable_makes_no_named_queue_a_problem(cluster: ScriptedCluster) -> None:
    """It was one where the topic had got that queue since: whoever sends waits for name servers too."""
    subject = Subject(cluster, clusterTimeoutMs="3000")
    subject.lookup.find_problems([TopicRequirement("T", has_keys=True)])
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: build_response(ResponseCode.SYSTEM_ERROR))
    assert subject.lookup.find_problems([TopicRequirement("T", "a", 0, has_keys=True)]) == {}
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        subject.lookup.find_problems([TopicRequirement("T", "a", 5, has_keys=True)])


AT_B = TopicRequirement("T", "b", 0, has_keys=True)


def test_a_broker_that_no_route_has_is_waited_for_as_a_missing_topic_is_and_once(cluster: ScriptedCluster) -> None:
    """One that was killed a moment ago was a wrong name: its rows became dead letters."""
    del cluster.brokers["b"]
    subject = Subject(cluster, missingTopicTimeoutMs="1000")
    problem = "no broker 'b' serves its topic 'T' (there are: a)"
    at_a = TopicRequirement("T", "a", 0, has_keys=True)
    assert subject.lookup.find_problems([AT_B, at_a, AT_B._replace(queue_id=1)]) == {
        AT_B: problem,
        AT_B._replace(queue_id=1): problem,
    }
    assert 1_000 <= subject.now_ms < 3_000
    waited_ms = subject.now_ms
    assert subject.lookup.find_problems([AT_B]) == {AT_B: problem}
    assert subject.now_ms == waited_ms


def test_a_broker_that_is_back_in_time_has_its_rows(cluster: ScriptedCluster, caplog: pytest.LogCaptureFixture) -> None:
    b = cluster.brokers.pop("b")
    subject = Subject(cluster, missingTopicTimeoutMs="10000")

    def route(request: RemotingCommand) -> RemotingCommand:
        if subject.now_ms >= 4_000:
            cluster.brokers["b"] = b
        return cluster.route(request)

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)
    assert subject.lookup.find_problems([AT_B], first_only=True) == {}
    assert 4_000 <= subject.now_ms < 7_000
    assert outage_text(caplog.messages[0]) == (
        "Waiting for topic T (fails in 9 s): [ROCKETMQ_UNKNOWN_BROKER] Broker 'b' is not in the route of topic 'T'. "
        "Start the broker, or correct column 'brokerName'."
    )


def test_a_broker_that_the_process_has_is_left_to_the_sender(cluster: ScriptedCluster) -> None:
    """That waits for it, for ``clusterTimeoutMs``."""
    history = RouteHistory()
    Subject(cluster, history=history).lookup.find_problems([AT_B])
    del cluster.brokers["b"]
    for _ in range(2):
        subject = Subject(cluster, history=history)
        assert subject.lookup.find_problems([AT_B, TopicRequirement("T", has_keys=True)]) == {}
        assert subject.now_ms == 0


def test_a_broker_that_is_not_writable_now_is_left_to_the_sender(cluster: ScriptedCluster) -> None:
    """It was one that does not serve the topic. Operators take the permission away for a while."""
    closed = {"a": 6, "b": 4}
    body = {
        "brokerDatas": [{"brokerAddrs": {"0": f"{n}:10911"}, "brokerName": n, "cluster": "c"} for n in closed],
        "queueDatas": [
            {"brokerName": name, "perm": perm, "readQueueNums": 1, "writeQueueNums": 1} for name, perm in closed.items()
        ],
    }
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, build_response(body=json.dumps(body).encode()))
    subject = Subject(cluster)
    assert subject.lookup.find_problems([AT_B]) == {}
    assert subject.lookup.find_problems([AT_B._replace(queue_id=3)]).keys() == {AT_B._replace(queue_id=3)}


def test_while_no_broker_reports_whether_a_topic_is_compacted_it_is_waited_for(cluster: ScriptedCluster) -> None:
    """Silence was mistaken for no, for all of the task, and what was sent then was lost."""
    subject = Subject(cluster, compacted=("C",), clusterTimeoutMs="10000")
    subject.unresponsive_until_ms = 4_000
    assert subject.lookup.find_problems([TopicRequirement("C")]) == {TopicRequirement("C"): lost_without_keys("C")}
    assert 4_000 <= subject.now_ms < 7_000
    subject = Subject(cluster, clusterTimeoutMs="3000")
    subject.unresponsive_until_ms = 1_000_000
    with pytest.raises(TransportError, match="CLUSTER_TIMEOUT"):
        subject.lookup.find_problems([TopicRequirement("C")])


def test_rows_without_keys_are_a_problem_of_a_topic_that_would_lose_them(cluster: ScriptedCluster) -> None:
    """A broker stores a batch of them, states it, and drops them."""
    subject = Subject(cluster, compacted=("C",))
    requirements = [
        TopicRequirement("C"),
        TopicRequirement("C", has_keys=True),
        TopicRequirement("T"),
        TopicRequirement("T", has_keys=True),
    ]
    for _ in range(2):
        assert subject.lookup.find_problems(requirements) == {TopicRequirement("C"): lost_without_keys("C")}
    assert sorted(subject.settings_requested) == ["C", "T"]


def test_compaction_is_not_requested_where_all_rows_have_keys(cluster: ScriptedCluster) -> None:
    subject = Subject(cluster, compacted=("C",))
    assert subject.lookup.find_problems([TopicRequirement("C", has_keys=True)]) == {}
    assert subject.settings_requested == []


KEY = RowTarget("T", sharding_key="k")


def test_the_queue_of_a_key_is_found_without_a_request(cluster: ScriptedCluster) -> None:
    """The encoder of rows calls it; it could wait there for a topic."""
    subject = Subject(cluster)
    with pytest.raises(KeyError):
        subject.lookup.resolve_queue(KEY)
    assert cluster.route_request_count == 0
    subject.lookup.find_problems([TopicRequirement("T", has_keys=True)])
    cluster.down.add(NAME_SERVER)
    assert subject.lookup.resolve_queue(KEY) in {MessageQueue("T", name, 0) for name in cluster.brokers}


def test_a_queue_that_the_topic_lost_since_is_a_problem(cluster: ScriptedCluster) -> None:
    """The task kept the first route: it sent the row, and failed after ``missingTopicTimeoutMs``."""
    cluster.queue_count = 4
    subject, named = Subject(cluster), TopicRequirement("T", "a", 3, has_keys=True)
    assert subject.lookup.find_problems([named]) == {}
    cluster.queue_count = 1
    subject.routes.invalidate("T")
    subject.routes.find_master(MessageQueue("T", "a", 3))
    assert subject.lookup.find_problems([named]) == {named: "its topic 'T' has no queue 3 at 'a' (there are: 0 to 0)"}
