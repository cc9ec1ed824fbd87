"""The RPC for the settings of a topic, for readers and writers."""

from __future__ import annotations

from rocketmq_spark.remoting.remoting_client import Rpc
from rocketmq_spark.wire.body.topics import TopicSettings, decode_topic_settings
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand


def topic_config_rpc(topic: str) -> Rpc[TopicSettings]:
    """Return the RPC for a topic's settings on a broker. With ACLs the permission GET on the topic is required."""
    command = RemotingCommand(RequestCode.GET_TOPIC_CONFIG, fields={"topic": topic})
    return Rpc(command, lambda response: decode_topic_settings(response.body))
