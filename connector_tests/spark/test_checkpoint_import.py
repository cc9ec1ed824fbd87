"""A group takes over where a query's checkpoint ends."""

from __future__ import annotations

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Topic
from rocketmq_spark.cli.main import main
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name


def test_other_group_resumes_where_the_query_ended(cluster: EmbeddedCluster, messages: Topic, stream: StreamOf) -> None:
    messages.send(8)
    ended = stream()
    ended.run_to_end()
    other = unique_name("moved")
    name_server = ["--namesrv", cluster.namesrv_addr]
    with_group = stream("other")
    with_group.group = other
    with_group.run_to_end()
    assert len(with_group.rows()) == 8
    messages.send(4)
    ended.run_to_end()
    checkpoint = str(ended.folder / "checkpoint")
    assert main(["offsets", "import", *name_server, "--group", other, "--checkpoint", checkpoint]) == 0
    assert list(messages.committed(other).values()) == [3] * 4
