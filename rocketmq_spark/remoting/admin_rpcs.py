"""RPCs for what a broker knows: the settings of a topic, its clock, its groups, and who is connected to it."""

from __future__ import annotations

from rocketmq_spark.remoting.remoting_client import Rpc
from rocketmq_spark.wire.body.connections import GroupConnections, decode_group_connections, decode_group_names
from rocketmq_spark.wire.body.inspection import GroupSwitches, decode_clock, decode_group_switches
from rocketmq_spark.wire.body.topics import TopicSettings, decode_topic_settings
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.headers import GetConsumerConnectionListRequest
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of


def topic_config_rpc(topic: str) -> Rpc[TopicSettings]:
    """Return the RPC for a topic's settings on a broker. With ACLs the permission GET on the topic is required."""
    command = RemotingCommand(RequestCode.GET_TOPIC_CONFIG, fields={"topic": topic})
    return Rpc(command, lambda response: decode_topic_settings(response.body))


def group_names_rpc() -> Rpc[list[str]]:
    """Return the RPC for the names of all groups of a broker, the system's included."""
    command = RemotingCommand(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return Rpc(command, lambda response: decode_group_names(response.body))


def group_connections_rpc(group: str) -> Rpc[GroupConnections]:
    """Return the RPC for the members of ``group`` that are connected to a broker. The result is empty, not an error, if
    the group has no member on this broker. With ACLs the permission GET on the group is required."""
    header = GetConsumerConnectionListRequest(consumer_group=group)

    def decode(response: RemotingCommand) -> GroupConnections:
        """Return the connected members; none if the broker reports that the group is not online."""
        if meaning_of(RequestCode.GET_CONSUMER_CONNECTION_LIST, response) is Meaning.EMPTY:
            return GroupConnections()
        return decode_group_connections(response.body)

    return Rpc(RemotingCommand(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields=header.to_fields()), decode)


def clock_rpc() -> Rpc[int | None]:
    """Return the RPC for a broker's clock (Unix ms), see ``decode_clock``. With ACLs GET on the cluster is required."""
    command = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
    return Rpc(command, lambda response: decode_clock(response.body))


def group_switches_rpc(group: str) -> Rpc[GroupSwitches]:
    """Return the RPC for a group's switches. A broker that creates groups on demand creates this one. With ACLs GET on
    the group is required."""
    command = RemotingCommand(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": group})
    return Rpc(command, lambda response: decode_group_switches(response.body))
