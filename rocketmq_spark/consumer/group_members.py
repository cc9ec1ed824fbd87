"""GroupMembers: who is in the group beside us, whether they are like us, and telling the brokers that we are in it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.outages import Outages
from rocketmq_spark.consumer.route_table import RouteTable
from rocketmq_spark.consumer.servers import Servers
from rocketmq_spark.consumer.subscription_check import SubscriptionCheck
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.body.heartbeat import ConsumerData, Heartbeat
from rocketmq_spark.wire.body.subscription import SubscriptionData, build_subscription

log = logging.getLogger(__name__)

GROUP: Final = "the group"
IDENTITY: Final = "our client id"
SUBSCRIPTIONS: Final = "the group's subscriptions"

NAMESAKE_LIMIT_MS: Final = 120_000
"""How long a newcomer waits for the connection that has its client id: a broker notices a dead one within so long."""

NEWCOMER_LIMIT_MS: Final = 10_000
"""How long a newcomer waits for a member that differs: its own predecessor, with the old options, may be leaving."""


class GroupMembers:
    """The members of ``options.consumer_group``, one of which has ``client_id``. Not thread-safe.

    ``started_ms``: epoch milliseconds; the version of the subscription, of which brokers keep the newest.
    """

    def __init__(
        self,
        options: ReadOptions,
        client_id: str,
        servers: Servers,
        routes: RouteTable,
        outages: Outages,
        *,
        started_ms: int,
    ) -> None:
        self._options = options
        self._group = options.consumer_group
        self._client_id = client_id
        self._servers = servers
        self._routes = routes
        self._outages = outages
        self._started_ms = started_ms
        self._greeted: set[str] = set()
        self._has_been_alone = False
        self._has_agreed = False
        self.we = self._consumer_data()
        """What we subscribe to and how we consume, for whoever asks."""
        self._subscriptions = SubscriptionCheck(self._group, client_id, self.we.subscriptions, options.retry_topic)

    # ------------------------------------------------------------------------------------------ what brokers are told

    def heartbeat(self) -> None:
        """To every broker of the topics, slaves included, as Java's client does."""
        beat = Heartbeat(self._client_id, (self._group_data(),))
        for address in sorted(self._routes.addresses()):
            if self._servers.tell(address, lambda broker: broker.heartbeat(beat)):
                self._greeted.add(address)

    def greet(self) -> None:
        """Heartbeat where a broker has not heard of us yet."""
        if set(self._routes.masters().values()) - self._greeted:
            self.heartbeat()

    def unregister(self) -> None:
        """From every broker that has heard of us."""
        for address in sorted(self._greeted):
            self._servers.tell(address, lambda broker: broker.unregister(self._client_id, self._group))

    def _consumer_data(self) -> ConsumerData:
        return ConsumerData(
            group=self._group,
            consume_type="CONSUME_ACTIVELY",
            message_model=self._options.message_model,
            consume_from_where=starting_point(self._options).where.value,
            subscriptions=tuple(map(self._subscription, self._options.read_topics)),
        )

    def _group_data(self) -> ConsumerData:
        """What brokers are told: as Java's push consumers do, the retry topic is among the topics, read or not.

        A broker takes the topics of the last heartbeat for the group's, and lets nobody pull from others that has not
        said so in the pull: without it, Java members could not read their retry topic after each heartbeat of ours.
        """
        topics = dict.fromkeys((*self._options.topics, self._options.retry_topic))
        return replace(self.we, subscriptions=tuple(map(self._subscription, topics)))

    def _subscription(self, topic: str) -> SubscriptionData:
        return build_subscription(topic, self._options.expression_of(topic), self._started_ms)

    # ------------------------------------------------------------------------------------------ what they say

    def listed(self) -> list[str] | None:
        """The group's members as the first broker that answers lists them; None: nobody answers."""
        for broker_name in self._routes.broker_names():
            client_ids = self._servers.ask(broker_name, lambda broker: broker.consumer_ids(self._group))
            if client_ids is not None:
                return client_ids
        return None

    def may_own(self, client_ids: list[str] | None) -> bool:
        """Whether nothing of what the members are keeps us from owning queues beside them."""
        return not (self._is_somebody_else(client_ids) or self._is_at_odds(client_ids))

    def not_listed(self, client_ids: list[str] | None) -> None:
        """The group does not know this member (yet), or nobody says whom it knows: heartbeat again, decide nothing."""
        self.heartbeat()
        if client_ids is None:
            self._outages.forget(GROUP, IDENTITY, SUBSCRIPTIONS)
        else:
            error = MembershipError("NOT_LISTED", group=self._group, client_id=self._client_id)
            self._outages.failed(GROUP, error, self._options.cluster_timeout_ms)

    def are_listed(self) -> None:
        """The group knows this member."""
        self._outages.succeeded(GROUP)

    def _is_somebody_else(self, client_ids: list[str] | None) -> bool:
        """Whether our client id was another connection's before it was ours: then we own nothing until that is gone.

        A broker lists an id once for each of its connections. Who was alone once stays who it is: a second entry is a
        newcomer then, or our own connection of before.
        """
        if client_ids is None or self._has_been_alone:
            return False
        if client_ids.count(self._client_id) > 1:
            error = MembershipError("DUPLICATE_CLIENT_ID", group=self._group, client_id=self._client_id)
            self._outages.failed(IDENTITY, error, NAMESAKE_LIMIT_MS)
            return True
        self._outages.succeeded(IDENTITY)
        self._has_been_alone = self._client_id in client_ids
        return False

    def _is_at_odds(self, client_ids: list[str] | None) -> bool:
        """Whether a member subscribes to something else and we are the newcomer, who owns nothing and fails soon.

        Who was there before goes on for its limit: a newcomer should leave, and take nobody with it.
        """
        if client_ids is None or self._client_id not in client_ids:
            return False
        to_ask = self._subscriptions.to_ask(client_ids)
        if to_ask:
            self._subscriptions.answered(self._subscriptions_of(to_ask))
            self._warn_of_retries()
        error = self._subscriptions.difference()
        if error is None:
            self._has_agreed = True
            self._outages.succeeded(SUBSCRIPTIONS)
            return False
        limit_ms = self._options.cluster_timeout_ms
        if not self._has_agreed:
            limit_ms = min(limit_ms, NEWCOMER_LIMIT_MS)
        self._outages.failed(SUBSCRIPTIONS, error, limit_ms)
        return not self._has_agreed

    def _subscriptions_of(self, client_ids: Collection[str]) -> dict[str, tuple[SubscriptionData, ...]]:
        """What members say that they subscribe to. A broker asks them, any that is up; silence means nothing here."""
        infos = self._servers.ask_any(lambda broker: broker.running_infos(self._group, client_ids)) or {}
        return {client_id: info.subscriptions for client_id, info in infos.items()}

    def _warn_of_retries(self) -> None:
        for client_id in self._subscriptions.at_odds_over_retries():
            log.warning(
                "of client_id=%s and client_id=%s only one reads topic=%s: what was sent back may wait there",
                self._client_id,
                client_id,
                self._options.retry_topic,
            )
