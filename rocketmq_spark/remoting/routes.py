"""Routes that were asked for once and hold until somebody finds them wrong."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from rocketmq_spark.errors import RocketMQError, RouteError, TransportError
from rocketmq_spark.model import BrokerAddress, MessageQueue, TopicRoute
from rocketmq_spark.remoting.namesrv import NameServers
from rocketmq_spark.remoting.retry import Outlook, is_unknown_topic, outlook_of_request


class RouteCache:
    """Routes by topic. Who is refused by an address, or does not reach it, calls ``forget`` and asks again.

    Threads: any; two may ask for the same route at once, and the later answer stays.
    """

    def __init__(self, name_servers: NameServers) -> None:
        self._name_servers = name_servers
        self._routes: dict[str, TopicRoute] = {}

    def route(self, topic: str, refresh: bool = False) -> TopicRoute:
        """Raises what ``NameServers.topic_route`` raises."""
        route = None if refresh else self._routes.get(topic)
        if route is None:
            route = self._routes[topic] = self._name_servers.topic_route(topic)
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

    def forget(self, topic: str) -> None:
        """The next call asks the name servers."""
        self._routes.pop(topic, None)


class KnownTopics(RouteCache):
    """Tells a topic whose brokers are away from one that does not exist, as far as ``known`` has its last route; and
    both from one of which no name server says anything now.

    Threads: as ``RouteCache``. ``known`` may be shared.
    """

    def __init__(self, name_servers: NameServers, known: MutableMapping[str, TopicRoute]) -> None:
        super().__init__(name_servers)
        self._known = known

    def route(self, topic: str, refresh: bool = False) -> TopicRoute:
        """Raises RouteError[BROKERS_AWAY] for a topic that was there, TransportError[NO_NAME_SERVER] for what may pass
        in the name servers, and what ``NameServers.topic_route`` raises that another attempt would not change."""
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
        except RocketMQError as error:
            if outlook_of_request(error) is Outlook.FINAL:
                raise
            addresses = self._name_servers.addresses
            raise TransportError("NO_NAME_SERVER", topic=topic, addresses=addresses, cause=str(error)) from error
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
