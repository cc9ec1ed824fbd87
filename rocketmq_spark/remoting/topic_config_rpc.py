"""How a broker is asked for the settings of a topic: by who reads it, and by who writes to it."""

from __future__ import annotations

from rocketmq_spark.remoting.remoting_client import Rpc
from rocketmq_spark.wire.body.topics import TopicSettings, decode_topic_settings
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand


def topic_config_rpc(topic: str) -> Rpc[TopicSettings]:
    """Wants the right GET on the topic, where there are rights."""
    command = RemotingCommand(RequestCode.GET_TOPIC_CONFIG, fields={"topic": topic})
    return Rpc(command, lambda response: decode_topic_settings(response.body))
