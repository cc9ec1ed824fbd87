"""What ``rocketmq-spark dlq redrive`` remembers of targets, which producers name."""

from __future__ import annotations

from connector_tests.support.group_bodies import cluster_info
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from connector_tests.unit.test_redrive_plan import letter
from rocketmq_spark.cli.dlq import MAX_CACHED, Redriver
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand


def test_few_targets_are_remembered_and_no_route_requested_twice_for_them() -> None:
    """Each had an entry, with up to 32 KiB of name."""
    requested: list[str] = []

    def no_route(request: RemotingCommand) -> RemotingCommand:
        requested.append(request.fields["topic"])
        return build_response(ResponseCode.TOPIC_NOT_EXIST)

    with ScriptedCluster("a") as cluster:
        cluster.name_server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster_info({"a": "a:10911"}))
        cluster.name_server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, no_route)
        redriver = Redriver(cluster.client(), "g", None, is_chosen=False, is_dry_run=True)
        targets = [str(number) for number in range(MAX_CACHED + 1)]
        for offset, target in enumerate([*targets, targets[-1], targets[0]]):
            assert redriver.redrive(letter(offset, RETRY_TOPIC=target))
    assert requested == [*targets, targets[0]]
