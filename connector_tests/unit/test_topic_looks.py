"""What a task learns of topics before it sends: by a scripted name server, and a clock that only pauses move."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector_tests.support.scripted_broker import answer
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from rocketmq_spark.errors import RouteError, TransportError
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.remoting.routes import KnownTopics
from rocketmq_spark.sink.topic_checks import Wanted, lost_without_keys
from rocketmq_spark.sink.topic_looks import TopicLooks
from rocketmq_spark.sink.write_waits import WriteWaits
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand


class Subject:
    """``looks``, and what they cost."""

    def __init__(self, cluster: ScriptedCluster, *, compacted: tuple[str, ...] = (), **given: str) -> None:
        self.now_ms = 0
        self.settings_asked: list[str] = []
        self._compacted = compacted
        options = WriteOptions.parse({"namesrvAddr": NAME_SERVER, **given})
        routes = KnownTopics(cluster.name_servers, {})
        waits = WriteWaits(options, routes.forget, lambda: self.now_ms)
        self.looks = TopicLooks(routes, waits, self._sleep, self._is_compacted)

    def _sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)

    def _is_compacted(self, topic: str) -> bool:
        self.settings_asked.append(topic)
        return topic in self._compacted


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    with ScriptedCluster("a", "b") as cluster:
        yield cluster


def only_topic(cluster: ScriptedCluster, *there: str) -> None:
    """All others do not exist."""

    def route(request: RemotingCommand) -> RemotingCommand:
        known = request.fields["topic"] in there
        return cluster.route(request) if known else answer(ResponseCode.TOPIC_NOT_EXIST)

    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, route)


@pytest.mark.parametrize("is_there", [True, False], ids=["read only", "missing"])
def test_a_topic_that_is_not_served_in_its_time_is_a_problem_that_a_task_waits_for_once(
    cluster: ScriptedCluster, is_there: bool
) -> None:
    cluster.permission = 4
    only_topic(cluster, *(["T"] if is_there else []))
    subject = Subject(cluster, missingTopicTimeoutMs="1000")
    (problem,) = subject.looks.problems([Wanted("T")]).values()
    assert problem.startswith("[ROCKETMQ_NO_WRITABLE_QUEUE]" if is_there else "[ROCKETMQ_TOPIC_NOT_FOUND]")
    assert 1_000 <= subject.now_ms < 3_000
    waited_ms = subject.now_ms
    assert subject.looks.problems([Wanted("T")]) == {Wanted("T"): problem}
    with pytest.raises(RouteError):
        subject.looks.sharded_queues("T")
    assert subject.now_ms == waited_ms


def test_topics_that_are_missing_are_waited_for_together(cluster: ScriptedCluster) -> None:
    """Thirty wrong names took thirty times ``missingTopicTimeoutMs``."""
    only_topic(cluster, "T")
    subject = Subject(cluster, missingTopicTimeoutMs="1000")
    wanted = [Wanted("T"), *(Wanted(f"missing-{number}") for number in range(30))]
    assert set(subject.looks.problems(wanted)) == set(wanted[1:])
    assert 1_000 <= subject.now_ms < 3_000


def test_where_one_problem_is_enough_others_are_not_waited_for(cluster: ScriptedCluster) -> None:
    only_topic(cluster, "T")
    subject = Subject(cluster, missingTopicTimeoutMs="1000")
    bad_queue = Wanted("T", "a", 9, has_keys=True)
    assert set(subject.looks.problems([bad_queue, Wanted("missing")], first_only=True)) == {bad_queue}
    assert subject.now_ms == 0


def test_name_servers_that_are_away_are_no_problem_of_a_topic(cluster: ScriptedCluster) -> None:
    cluster.down.add(NAME_SERVER)
    subject = Subject(cluster, clusterTimeoutMs="3000")
    with pytest.raises(TransportError, match="CLUSTER_UNREACHABLE"):
        subject.looks.problems([Wanted("T"), Wanted("U")])


def test_a_queue_that_is_named_is_looked_for_in_the_route_and_once_more_in_a_new_one(cluster: ScriptedCluster) -> None:
    subject = Subject(cluster)
    there, gone = Wanted("T", "b", 0, has_keys=True), Wanted("T", "b", 1, has_keys=True)
    assert subject.looks.problems([there]) == {}
    assert cluster.routes_asked_count == 1
    for _ in range(2):
        assert subject.looks.problems([there, gone]) == {
            gone: "its topic 'T' has no queue 1 at 'b' (there are: 0 to 0)"
        }
    assert cluster.routes_asked_count == 2


def test_a_broker_that_has_come_since_is_found(cluster: ScriptedCluster) -> None:
    b = cluster.brokers.pop("b")
    subject = Subject(cluster)
    assert subject.looks.problems([Wanted("T", has_keys=True)]) == {}
    keys_go_to = subject.looks.sharded_queues("T")
    cluster.brokers["b"] = b
    assert subject.looks.problems([Wanted("T", "b", 0, has_keys=True)]) == {}
    assert subject.looks.sharded_queues("T") == keys_go_to, "a task keeps to what it has learnt first"


def test_a_name_server_that_is_away_makes_no_named_queue_a_problem(cluster: ScriptedCluster) -> None:
    """Whoever sends waits for it."""
    subject = Subject(cluster)
    subject.looks.problems([Wanted("T", has_keys=True)])
    cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, lambda _: answer(ResponseCode.SYSTEM_ERROR))
    known = Wanted("T", "a", 0, has_keys=True)
    assert subject.looks.problems([known, Wanted("T", "a", 5, has_keys=True)]).keys() == {
        Wanted("T", "a", 5, has_keys=True)
    }


def test_rows_without_keys_are_a_problem_of_a_topic_that_would_lose_them(cluster: ScriptedCluster) -> None:
    """A broker stores a batch of them, says so, and drops them."""
    subject = Subject(cluster, compacted=("C",))
    wanted = [Wanted("C"), Wanted("C", has_keys=True), Wanted("T"), Wanted("T", has_keys=True)]
    for _ in range(2):
        assert subject.looks.problems(wanted) == {Wanted("C"): lost_without_keys("C")}
    assert sorted(subject.settings_asked) == ["C", "T"]


def test_nobody_is_asked_about_compaction_where_all_rows_have_keys(cluster: ScriptedCluster) -> None:
    subject = Subject(cluster, compacted=("C",))
    assert subject.looks.problems([Wanted("C", has_keys=True)]) == {}
    assert subject.settings_asked == []
