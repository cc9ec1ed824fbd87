"""``rocketmq-spark topic``: creates, describes and deletes topics of a running cluster."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Final

from rocketmq_spark.cli.arguments import add_actions, cluster_at, integer_argument
from rocketmq_spark.cli.text_table import text_table
from rocketmq_spark.condition import one_line
from rocketmq_spark.errors import RouteError
from rocketmq_spark.model import MessageQueue, QueueBounds, TopicRoute
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.remoting.error_kinds import is_unknown_topic

DEFAULT_QUEUES: Final = 4
MAX_QUEUES: Final = 1_000
READY_TIMEOUT_MS: Final = 60_000
POLL_S: Final = 0.05
HEADER: Final = ("broker", "queue", "first", "next", "messages")


def main(argv: Sequence[str]) -> int:
    """Run the action ``create``, ``describe`` or ``delete`` on the cluster, and print its result; return 0. Raises
    RouteError, BrokerError, TransportError, OptionError. Wrong arguments raise SystemExit."""
    arguments = new_parser().parse_args(argv)
    with cluster_at(arguments.namesrv, arguments.options) as cluster:
        match arguments.action:
            case "create":
                print(create(cluster, arguments.topic, arguments.queues))
            case "describe":
                print(describe(cluster, arguments.topic))
            case "delete":
                print(delete(cluster, arguments.topic))
    return 0


def create(cluster: ClusterClient, topic: str, queue_count: int, ready_timeout_ms: int = READY_TIMEOUT_MS) -> str:
    """Create the topic on the master of every broker of the cluster, and wait until the route has all its queues.
    Return the line to print. ``queue_count``: on each broker. Brokers without a master are skipped.

    Raises RouteError[TOPIC_EXISTS] if the topic has a route, RouteError[NO_MASTER_BROKER] without a master,
    RouteError[TOPIC_CREATION_TIMEOUT] after ``ready_timeout_ms``, and the error of a broker, which ends the creation.
    """
    if (route := route_of(cluster, topic)) is not None:
        raise RouteError("TOPIC_EXISTS", topic=topic, count=len(route.read_queues()))
    brokers = cluster.name_servers.cluster_info().brokers
    masters = {name: address for name in sorted(brokers) if (address := brokers[name].master_address) is not None}
    if not masters:
        raise RouteError("NO_MASTER_BROKER", name_servers=str(cluster.name_servers))
    for address in masters.values():
        cluster.broker(address).create_topic(topic, queue_count)
    if not await_route(cluster, topic, len(masters) * queue_count, ready_timeout_ms):
        raise RouteError("TOPIC_CREATION_TIMEOUT", topic=topic, brokers=", ".join(masters), waited_ms=ready_timeout_ms)
    return f"{topic}: {queue_count} queues on {one_line(', '.join(masters))}"


def await_route(cluster: ClusterClient, topic: str, queue_count: int, timeout_ms: int) -> bool:
    """Request the route every 50 ms until it has at least ``queue_count`` readable queues, on all brokers together;
    return True then, False after ``timeout_ms``. Raises what ``route_of`` does."""
    deadline_s = time.monotonic() + timeout_ms / 1000
    while (route := route_of(cluster, topic)) is None or len(route.read_queues()) < queue_count:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def describe(cluster: ClusterClient, topic: str) -> str:
    """Request each queue's offsets from the masters, one after another, and return them as ``table`` does. A further
    line names each broker of the route without a master. Raises RouteError for a missing topic, and the first error of
    a broker."""
    held: dict[MessageQueue, QueueBounds] = {}
    unavailable: list[str] = []
    for broker in cluster.name_servers.query_topic_route(topic).brokers:
        if broker.master_address is None:
            unavailable.append(f"{one_line(broker.broker_name)} has no master; its queues are not listed")
        else:
            held |= cluster.broker(broker.master_address).query_topic_stats(topic)
    return "\n".join((table(held), *unavailable))


def table(held: dict[MessageQueue, QueueBounds]) -> str:
    """Return a table as text. It has a header, one line per queue with min and max offset and number of messages, and a
    last line with the total number of messages."""
    rows = [
        (queue.broker_name, queue.queue_id, bounds.min_offset, bounds.max_offset, bounds.max_offset - bounds.min_offset)
        for queue, bounds in sorted(held.items(), key=lambda item: MessageQueue.sort_key(item[0]))
    ]
    return "\n".join((*text_table(HEADER, rows), f"{sum(row[-1] for row in rows)} messages"))


def delete(cluster: ClusterClient, topic: str) -> str:
    """Delete the topic, its messages and its groups' offsets, on every broker of its route that has a master. Then
    delete its route on every name server. Return the line to print. Raises RouteError for a missing topic, and the
    first error of a server, after which the rest is not deleted."""
    for broker in cluster.name_servers.query_topic_route(topic).brokers:
        if broker.master_address is not None:
            cluster.broker(broker.master_address).delete_topic(topic)
    cluster.name_servers.delete_topic(topic)
    return f"{topic} was deleted"


def route_of(cluster: ClusterClient, topic: str) -> TopicRoute | None:
    """Request the topic's route and return it, or None if a name server reports a missing topic and no other has a
    route. Raises the other errors of ``NameServers.query_topic_route``."""
    try:
        return cluster.name_servers.query_topic_route(topic)
    except RouteError as error:
        if is_unknown_topic(error):
            return None
        raise


def new_parser() -> argparse.ArgumentParser:
    """Return the parser of this subcommand's options."""
    parser = argparse.ArgumentParser(
        prog="rocketmq-spark topic", description="Create, describe or delete a topic of a cluster that is running."
    )
    does = {
        "create": "create it on every broker",
        "describe": "list the offsets and the number of messages of each queue",
        "delete": "delete it, with its messages and the offsets of all groups",
    }
    for name, action in add_actions(parser, does).items():
        action.add_argument("topic")
        if name == "create":
            action.add_argument(
                "--queues",
                type=integer_argument(1, MAX_QUEUES),
                default=DEFAULT_QUEUES,
                metavar="N",
                help="queues per broker (default: %(default)s)",
            )
    return parser
