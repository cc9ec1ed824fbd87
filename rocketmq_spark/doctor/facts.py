"""What is known of a job and its servers: the input of the doctor's diagnoses. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rocketmq_spark.errors import OptionError, RocketMQError, RouteError
from rocketmq_spark.model import UNFILTERED, MessageFilter, MessageQueue, QueueBounds, TopicRoute
from rocketmq_spark.remoting.replicas import FROM_MASTER
from rocketmq_spark.wire.body.connections import GroupConnections
from rocketmq_spark.wire.body.inspection import GroupSwitches


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The part of a job's options that its servers have to allow.

    ``group``: of a streaming read, or that of the pulls of a batch read; None: the job uses none. ``is_member``: the
    job joins the group. ``starts_at_group``: without a checkpoint it begins at the group's committed offsets.
    ``read_from``: the option ``readFrom``. ``waits_for_master``: it reads nothing more of a broker without a master,
    whatever ``read_from``: a batch read, which is planned at masters, or ``consumeOrderly``, whose locks they grant.
    """

    topics: tuple[str, ...] = ()
    group: str | None = None
    is_member: bool = False
    starts_at_group: bool = False
    is_writing: bool = False
    is_message_based: bool = False
    message_model: str = "CLUSTERING"
    message_filter: MessageFilter = UNFILTERED
    reads_retry_topic: bool = False
    read_from: str = FROM_MASTER
    waits_for_master: bool = False

    @property
    def reads_slaves(self) -> bool:
        """Return whether ``readFrom`` lets the job pull from slaves."""
        return self.read_from != FROM_MASTER


class Environment(NamedTuple):
    """Versions on this machine. ``pyspark``: None if it is not installed. ``decoder``: ``native`` or ``python``, or the
    error of loading the one that is configured."""

    python: tuple[int, int, int]
    pyspark: str | None
    decoder: str | OptionError


class Trial(NamedTuple):
    """A request of the job, sent without effect, and the error with which it failed.

    ``action`` of ACL 2.0 that it requires; ``purpose``: its use by the job; ``is_required``: the job fails without it.
    """

    action: str
    purpose: str
    error: RocketMQError | None
    is_required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """One broker of the routes. ``failure``: why no request succeeds. ``version``: RocketMQ's number, 0 if unknown.
    ``clock_ahead_ms``: minimum by which its clock is ahead of this machine's, negative if behind, or None if unknown.
    ``switches``, ``connections``: of the job's group, or None if unknown, or without a group. ``bounds``: of the queues
    of the job's topics. ``committed``: the group's offsets of them, requested later. Without a queue: unknown."""

    name: str
    server: str
    failure: RocketMQError | None = None
    version: int = 0
    clock_ahead_ms: int | None = None
    trials: tuple[Trial, ...] = ()
    switches: GroupSwitches | None = None
    connections: GroupConnections | None = None
    bounds: Mapping[MessageQueue, QueueBounds] = field(default_factory=dict)
    committed: Mapping[MessageQueue, int] = field(default_factory=dict)


RouteResult = TopicRoute | RocketMQError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The servers of a job. ``name_servers``: each one's result for each topic. ``brokers``: masters; ``slaves``: of
    each broker the slave with the lowest ID, if the job reads slaves, with ``failure``, ``version`` and ``trials``
    only. ``proxies``: each gRPC address with the
    errors of a session, by topic, empty text for the session itself. ``advertised``: addresses of brokers that the name
    servers listed; ``address_map``: of ``brokerAddressMap``, by advertised address."""

    name_servers: Mapping[str, Mapping[str, RouteResult]] = field(default_factory=dict)
    brokers: tuple[BrokerFacts, ...] = ()
    slaves: tuple[BrokerFacts, ...] = ()
    proxies: Mapping[str, tuple[RocketMQError, ...]] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    advertised: frozenset[str] = frozenset()
    address_map: Mapping[str, str] = field(default_factory=dict)

    def routes(self) -> dict[str, RouteResult]:
        """Return one result for each topic from those of all name servers. The first route precedes the first
        RouteError, such as a missing topic, which precedes the first other error."""
        routes: dict[str, RouteResult] = {}
        for results in self.name_servers.values():
            for topic, result in results.items():
                if topic not in routes or _rank(result) > _rank(routes[topic]):
                    routes[topic] = result
        return routes


def is_of_topic(result: RouteResult) -> bool:
    """Return whether a name server responded about the topic, with a route or without one."""
    return isinstance(result, TopicRoute | RouteError)


def _rank(result: RouteResult) -> int:
    """Return 2 for a route, 1 for a RouteError, 0 for any other error."""
    return 2 if isinstance(result, TopicRoute) else int(isinstance(result, RouteError))
