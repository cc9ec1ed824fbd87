"""GroupMembers: who is in the group beside us, whether they are like us, and telling the brokers that we are in it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.heartbeats import Heartbeats
from rocketmq_spark.consumer.outages import Outages
from rocketmq_spark.consumer.servers import Servers
from rocketmq_spark.consumer.standing import (
    IDENTITY,
    NAMESAKE_LIMIT_MS,
    GroupStanding,
    Then,
    Told,
    told_by,
)
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.consumer.subscription_check import SubscriptionCheck, told_manner
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.model import BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.route_table import RouteTable
from rocketmq_spark.wire.body.groups import ConsumerData, Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo
from rocketmq_spark.wire.body.subscription import SubscriptionData, build_subscription

log = logging.getLogger(__name__)

ALONE: Final = "the others to leave the group"

MOST_NAMED: Final = 8
"""Members that an error names."""


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
        checkpoint_id: str | None = None,
    ) -> None:
        self._options = options
        self._group = options.consumer_group
        self._client_id = client_id
        self._servers = servers
        self._routes = routes
        self._outages = outages
        self._started_ms = started_ms
        self._greeted: set[BrokerAddress] = set()
        self._unreached: dict[BrokerAddress, None] = {}
        self._others: list[str] = []
        self._standing = GroupStanding()
        self.we = self._consumer_data()
        """What we subscribe to and how we consume, for whoever asks."""
        self.manner = told_manner(options, strategy_of(options), checkpoint_id)
        """The same, as far as all members must do alike; and the checkpoint, which no two may share."""
        self._subscriptions = SubscriptionCheck(
            self._group, client_id, self.we.subscriptions, self.manner, options.retry_topic
        )

    # ------------------------------------------------------------------------------------------ what brokers are told

    def heartbeat(self) -> None:
        """To every master that answers. What the turn waits for is only what a plan needs: see ``next_heartbeats``."""
        self._send(self._outages.answering().values())

    def greet(self) -> None:
        """Heartbeat to masters that answer and have not heard of us yet."""
        self._send(set(self._outages.answering().values()) - self._greeted)

    def _send(self, addresses: Iterable[BrokerAddress]) -> None:
        heartbeats = Heartbeats(self._beat(), tuple(sorted(addresses, key=str)))
        self.heartbeats_answered(heartbeats, self._servers.send(heartbeats))

    def next_heartbeats(self) -> Heartbeats:
        """To every broker of the topics, slaves included, as Java's client does; they are sent without the turn.

        Of the addresses that did not answer the last time, only the one that has been left alone the longest: each may
        take the whole ``brokerTimeoutMs``, and locks must be renewed meanwhile.
        """
        known = self._routes.addresses()
        self._unreached = {address: None for address in self._unreached if address in known}
        again = list(self._unreached)[:1]
        return Heartbeats(self._beat(), (*sorted(known - self._unreached.keys(), key=str), *again))

    def heartbeats_answered(self, heartbeats: Heartbeats, answered: Collection[BrokerAddress]) -> None:
        """Who was reached is a broker that has heard of us."""
        for address in heartbeats.addresses:
            self._unreached.pop(address, None)
            if address not in answered:
                self._unreached[address] = None
        self._greeted.update(answered)

    def unregister(self) -> None:
        """From every broker that has heard of us and still answers."""
        for address in sorted(self._greeted - self._unreached.keys(), key=str):
            self._servers.tell(address, lambda broker: broker.unregister(self._client_id, self._group))

    def _beat(self) -> Heartbeat:
        return Heartbeat(self._client_id, (self._group_data(),))

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
        """The group's members as the brokers that answer list them; None: nobody answers.

        Each broker lists whom it hears. Who reads from a broker is heard by it, so of two members that could read the
        same queue each sees the other in the list of its broker, whatever else they are cut off from: that takes all
        lists together, as often an id as any has it. We are listed where all of them do; by who has
        not heard of us it is a namesake that is listed.
        """
        brokers = {name: name for name in self._routes.broker_names()}
        told = self._servers.ask_together(brokers, lambda broker, _: broker.submit_consumer_ids(self._group))
        if not told:
            return None
        members: Counter[str] = Counter()
        for client_ids in told.values():
            members |= Counter(client_ids)
        self._others = sorted(members.keys() - {self._client_id})
        if not all(self._client_id in client_ids and self._is_greeted(name) for name, client_ids in told.items()):
            del members[self._client_id]
        return sorted(members.elements())

    def _is_greeted(self, broker_name: str) -> bool:
        return self._routes.master(broker_name) in self._greeted

    def are_only_we(self) -> bool:
        """Whether nobody else was in the group when it was last asked for: what we do would take others by surprise.
        Who stays for longer than the dead are listed is raised by a later survey:
        MembershipError[GROUP_HAS_OTHER_MEMBERS]."""
        if not self._others:
            self._outages.succeeded(ALONE)
            return True
        others = ", ".join(self._others[:MOST_NAMED])
        error = MembershipError("GROUP_HAS_OTHER_MEMBERS", group=self._group, others=others)
        self._outages.failed(ALONE, error, NAMESAKE_LIMIT_MS)
        return False

    def may_own(self, client_ids: list[str] | None) -> bool:
        """Whether queues are to be shared among those members now, as ``listed`` has told them: see ``standing``."""
        then = self._hear(told_by(client_ids, self._client_id))
        if then is Then.COMPARE:
            difference = self._difference(client_ids or ())
            then = self._hear(Told.AGREES) if difference is None else self._hear(Told.DIFFERS, difference)
        return then is Then.SHARE

    def _hear(self, told: Told, difference: MembershipError | None = None) -> Then:
        step = self._standing.hear(told)
        self._outages.forget(*step.unsaid)
        for subject in step.settled:
            self._outages.succeeded(subject)
        if step.then in (Then.TELL_AGAIN, Then.ASK_WHY):
            self.heartbeat()
        if step.then is Then.ASK_WHY:
            self._servers.check_group()
        if step.awaited is not None:
            subject, limit, quiet_ms = step.awaited
            limit_ms = limit.in_ms(self._options.cluster_timeout_ms)
            self._outages.failed(subject, difference or self._what_is_wrong(subject), limit_ms, quiet_ms)
        return step.then

    def _what_is_wrong(self, subject: str) -> MembershipError:
        if subject == IDENTITY:
            return MembershipError("DUPLICATE_CLIENT_ID", group=self._group, client_id=self._client_id)
        return MembershipError("NOT_REGISTERED_IN_GROUP", group=self._group, client_id=self._client_id)

    def _difference(self, client_ids: Collection[str]) -> MembershipError | None:
        """How a member subscribes to something else, or consumes in another manner, as far as any has said."""
        to_ask = self._subscriptions.to_ask(client_ids)
        if to_ask:
            self._subscriptions.answered(self._infos_of(to_ask))
            self._warn_of_retries()
        return self._subscriptions.difference()

    def _infos_of(self, client_ids: Collection[str]) -> dict[str, ConsumerRunningInfo]:
        """What members say of themselves. A broker asks them, any that is up; silence means nothing here."""
        return self._servers.ask_any(lambda broker: broker.running_infos(self._group, client_ids)) or {}

    def _warn_of_retries(self) -> None:
        for client_id in self._subscriptions.at_odds_over_retries():
            log.warning(
                "RETRY_TOPIC_INCONSISTENT: Only one of the members clientId=%s and clientId=%s reads topic=%s. "
                "Messages sent back for retry can remain unread there. Set 'retryTopic' to the same value on all "
                "members.",
                self._client_id,
                client_id,
                self._options.retry_topic,
            )
