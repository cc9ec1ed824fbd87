"""Routes that were asked for once and hold until somebody finds them wrong."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.retry import Outlook, is_unknown_topic, outlook_of_request, refreshes_route


class RouteCache:
    """Routes by topic. Who is refused by an address, or does not reach it, calls ``doubt`` and asks again.

    Threads: any; two may ask for the same route at once, and the later answer stays.
    """

    def __init__(self, name_servers: NameServers) -> None:
        self._name_servers = name_servers
        self._routes: dict[str, TopicRoute] = {}

    def route(self, topic: str, refresh: bool = False) -> TopicRoute:
        """Raises TransportError[NO_NAME_SERVER] for what may pass in the name servers, and what
        ``NameServers.topic_route`` raises that another attempt would not change."""
        route = None if refresh else self._routes.get(topic)
        if route is None:
            told = self._name_servers.topic_routes([topic])[topic]
            if isinstance(told, RocketMQError):
                raise unfound(topic, told, self._name_servers)
            route = self._routes[topic] = told
        return route

    def master(self, queue: MessageQueue) -> BrokerAddress:
        """Address of the queue's master; a cached route without it is asked for again.

        Raises RouteError[NO_MASTER], and what ``route`` raises.
        """
        for refresh in (False, True):
            address = self.route(queue.topic, refresh).master_address(queue.broker_name)
            if address is not None:
                return address
        raise RouteError("NO_MASTER", broker=queue.broker_name, topic=queue.topic)

    def doubt(self, topic: str, error: RocketMQError) -> None:
        """After an error that may come of an old address the next call asks the name servers."""
        if refreshes_route(error):
            self.forget(topic)

    def forget(self, topic: str) -> None:
        """The next call asks the name servers."""
        self._routes.pop(topic, None)


def unfound(topic: str, error: RocketMQError, name_servers: NameServers) -> RocketMQError:
    """Why there is no route: what will not pass as it is, else TransportError[NO_NAME_SERVER]. That is no trouble of a
    topic or broker."""
    if isinstance(error, RouteError) or outlook_of_request(error) is Outlook.FINAL:
        return error
    silent = TransportError("NO_NAME_SERVER", topic=topic, addresses=name_servers.addresses, cause=str(error))
    silent.__cause__ = error
    return silent


class KnownTopics(RouteCache):
    """Tells a topic whose brokers are away from one that does not exist, as far as ``known`` has its last route; and
    both from one of which no name server says anything now.

    Threads: as ``RouteCache``. ``known`` may be shared.
    """

    def __init__(self, name_servers: NameServers, known: MutableMapping[str, TopicRoute]) -> None:
        super().__init__(name_servers)
        self._known = known

    def route(self, topic: str, refresh: bool = False) -> TopicRoute:
        """Raises RouteError[BROKERS_AWAY] for a topic that was there, and what ``RouteCache.route`` does."""
        try:
            route = super().route(topic, refresh)
        except RouteError as error:
            known = self._known.get(topic)
            if known is None or not is_unknown_topic(error):
                raise
            brokers = ", ".join(
                sorted(f"{one.broker_name} ({one.master_address or 'no master'})" for one in known.brokers)
            )
            address = error.context["address"]
            raise RouteError("BROKERS_AWAY", topic=topic, address=address, brokers=brokers) from error
        self._known[topic] = _with_earlier(route, self._known.get(topic))
        return route

    def brokers(self, topic: str) -> frozenset[str]:
        """Names of those that the topic is on, or was as far as ``known`` tells."""
        known = self._known.get(topic)
        return frozenset() if known is None else frozenset(data.broker_name for data in known.queues)


def _with_earlier(route: TopicRoute, before: TopicRoute | None) -> TopicRoute:
    """``route``, and what ``before`` had of brokers that it does not name: these may come back."""
    if before is None:
        return route
    now = {data.broker_name for data in route.queues}
    gone = [data for data in before.queues if data.broker_name not in now]
    if not gone:
        return route
    routed = {broker.broker_name for broker in route.brokers}
    brokers = (broker for broker in before.brokers if broker.broker_name not in routed)
    return replace(route, brokers=(*route.brokers, *brokers), queues=(*route.queues, *gone))
