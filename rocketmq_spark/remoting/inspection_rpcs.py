"""RPCs for the state of a broker and of a group on it, which operators' tools send and no query needs."""

from __future__ import annotations

from rocketmq_spark.remoting.remoting_client import Rpc
from rocketmq_spark.wire.body.inspection import (
    GroupConnections,
    GroupSwitches,
    decode_clock,
    decode_group_connections,
    decode_group_switches,
)
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.meanings import Meaning, meaning_of


def clock_rpc() -> Rpc[int | None]:
    """Return the RPC for a broker's clock (Unix ms), see ``decode_clock``. With ACLs GET on the cluster is required."""
    command = RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO)
    return Rpc(command, lambda response: decode_clock(response.body))


def group_switches_rpc(group: str) -> Rpc[GroupSwitches]:
    """Return the RPC for a group's switches. A broker that creates groups on demand creates this one. With ACLs GET on
    the group is required."""
    command = RemotingCommand(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, fields={"group": group})
    return Rpc(command, lambda response: decode_group_switches(response.body))


def group_connections_rpc(group: str) -> Rpc[GroupConnections | None]:
    """Return the RPC for a group's connections, None without any. With ACLs GET on the group is required."""
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST

    def decode(response: RemotingCommand) -> GroupConnections | None:
        is_none = meaning_of(code, response) is Meaning.EMPTY
        return None if is_none else decode_group_connections(response.body)

    return Rpc(RemotingCommand(code, fields={"consumerGroup": group}), decode)
