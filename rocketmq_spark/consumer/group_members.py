"""GroupMembers: the members of the consumer group, their consistency with this one, and its registration at the
brokers."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from rocketmq_spark.condition import MAX_LISTED, cut
from rocketmq_spark.consumer.cluster_api import BrokerApi
from rocketmq_spark.consumer.consume_from_where import starting_point
from rocketmq_spark.consumer.heartbeats import Heartbeats
from rocketmq_spark.consumer.membership_state import (
    DUPLICATE_CLIENT_ID_LIMIT_MS,
    IDENTITY,
    MembershipAction,
    MembershipEvent,
    MembershipStateMachine,
    event_from_lists,
)
from rocketmq_spark.consumer.outage_aware_client import OutageAwareClient
from rocketmq_spark.consumer.strategy_names import strategy_of
from rocketmq_spark.consumer.subscribed_topics import warn_of_batch_queues
from rocketmq_spark.consumer.subscription_check import SubscriptionCheck, consumer_settings_of
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.model import UNFILTERED, BrokerAddress
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.wire.body.groups import ConsumerData, Heartbeat
from rocketmq_spark.wire.body.running_info import ConsumerRunningInfo
from rocketmq_spark.wire.body.subscription import SubscriptionData, build_subscription
from rocketmq_spark.wire.body.topics import TopicSettings

log = logging.getLogger(__name__)

OTHER_MEMBERS: Final = "the others to leave the group"


class GroupMembers:
    """This member's heartbeats, the group's member list, and the check that the members are consistent. ``Membership``
    calls it. Not thread-safe.

    ``client_id``: ID of this member. ``started_ms``: epoch milliseconds; the version of the subscription, of which
    brokers keep the newest.
    """

    def __init__(
        self,
        options: ReadOptions,
        client_id: str,
        client: OutageAwareClient,
        *,
        started_ms: int,
        checkpoint_id: str | None,
    ) -> None:
        """Send nothing. Raises the errors of ``starting_point`` and ``strategy_of``."""
        self._options = options
        self._group = options.consumer_group
        self._client_id = client_id
        self._client = client
        self._routes, self._topics, self._outage_tracker = client.routes, client.topics, client.outage_tracker
        self._topics_version = self._topics.version
        self._started_ms = started_ms
        self._registered: set[BrokerAddress] = set()
        """Addresses that have acknowledged a heartbeat."""
        self._subscribed: set[BrokerAddress] = set()
        """Those of ``_registered`` that have acknowledged one with the current topics."""
        self._filtering: set[BrokerAddress] = set()
        """Masters that have compiled the SQL92 filter."""
        self._unknown_queue_types = self._filtered_topics()
        """Filtered topics of which it is unknown whether they have batch consume queues."""
        self._unreached: dict[BrokerAddress, None] = {}
        self._other_members: list[str] = []
        self._state_machine = MembershipStateMachine()
        self.consumer_data = self._consumer_data()
        """Subscription and consumer settings of this member, for heartbeats and operators' tools."""
        self.consumer_settings = consumer_settings_of(options, strategy_of(options), checkpoint_id)
        """Settings that must be equal on all members, and the checkpoint ID, which must differ."""
        self._subscriptions = SubscriptionCheck(
            self._group, client_id, self.consumer_data.subscriptions, self.consumer_settings, options.retry_topic
        )

    # ------------------------------------------------------------------------------------------ heartbeats

    def heartbeat(self) -> None:
        """Send heartbeats to the addresses that need one before a plan (``SlaveReads.heartbeat_addresses``); wait, and
        record which acknowledged them. Failures are logged, not raised. ``next_heartbeats`` is for all addresses."""
        self._send(self._client.slave_reads.heartbeat_addresses())

    def send_first_heartbeats(self) -> None:
        """Send heartbeats, as ``heartbeat`` does, only to addresses that have not acknowledged one with the current
        topics yet. Once any broker has acknowledged one, ``_warn_of_batch_queues``. Then let masters compile a SQL92
        filter (``_check_filter``), and raise its errors."""
        self._send(self._client.slave_reads.heartbeat_addresses() - self._subscribed)
        if self._registered:
            self._warn_of_batch_queues()
        self._check_filter()

    def _check_filter(self) -> None:
        """With a SQL92 filter, request each responsive master to compile it, once for each address, for the first
        topic; wait. Masters that do not respond are requested again by the next call. Raises
        BrokerError[FILTER_EXPRESSION_INVALID | PROPERTY_FILTER_DISABLED], TransportError[FILTER_NOT_VERIFIABLE]."""
        options, message_filter = self._options, self._options.message_filter
        if not message_filter.is_sql or not self._topics.selected:
            return
        names = filter(options.reads_from, self._routes.broker_names())
        masters = {name: self._routes.master(name) for name in names}
        topic = self._topics.selected[0]
        unchecked = {name: name for name, address in masters.items() if address not in self._filtering}
        checked = self._client.call_concurrently(
            unchecked,
            lambda broker, _: broker.submit_filter_check(self._group, topic, message_filter),
        )
        self._filtering |= {address for name in checked if (address := masters[name]) is not None}

    def _warn_of_batch_queues(self) -> None:
        """Request the settings of each filtered topic from one responsive master, and wait. Log a warning if the topic
        has batch consume queues. Each topic is requested once, also if the request fails. Do nothing without such a
        master."""
        for topic in sorted(self._unknown_queue_types) if self._outage_tracker.responsive_masters() else ():
            self._unknown_queue_types.discard(topic)
            settings = self._client.call_any(partial(_query_topic_settings, topic))
            if settings is not None and settings.has_batch_queues:
                warn_of_batch_queues(topic)

    def _send(self, addresses: Iterable[BrokerAddress]) -> None:
        """Send heartbeats concurrently, wait for all responses, and record which addresses acknowledged. Failures are
        logged."""
        heartbeats = Heartbeats(self._build_heartbeat(), tuple(sorted(addresses, key=str)))
        self.record_acknowledged(heartbeats, self._client.send(heartbeats))

    def next_heartbeats(self) -> Heartbeats:
        """Return heartbeats to addresses in the routes, slaves included, as in Java's client; send nothing. The caller
        sends them without the group lock, and calls ``record_acknowledged``.

        Included are all addresses that acknowledged their last heartbeat or never got one. Of the failing addresses
        only the one tried longest ago is included: each may last the whole ``brokerTimeoutMs``, and locks must be
        renewed meanwhile. Failures of addresses that left the routes are discarded.
        """
        addresses = self._routes.addresses()
        self._unreached = {address: None for address in self._unreached if address in addresses}
        retried = list(self._unreached)[:1]
        return Heartbeats(self._build_heartbeat(), (*sorted(addresses - self._unreached.keys(), key=str), *retried))

    def record_acknowledged(self, heartbeats: Heartbeats, acknowledged: Collection[BrokerAddress]) -> None:
        """Record the ``acknowledged`` addresses of ``heartbeats`` as registered, its other addresses as not reached. If
        the topics have changed since the heartbeat was built, ``send_first_heartbeats`` sends again to the acknowledged
        addresses."""
        for address in heartbeats.addresses:
            self._unreached.pop(address, None)
            if address not in acknowledged:
                self._unreached[address] = None
        self._registered.update(acknowledged)
        if heartbeats.heartbeat == self._build_heartbeat():
            self._subscribed.update(acknowledged)
        else:
            # It may have arrived after a later one, and a broker keeps the topics of the last.
            self._subscribed.difference_update(acknowledged)

    def update_topics(self) -> bool:
        """If the topics have changed since the last call (or the construction), build the subscription again, for the
        consumer data and the consistency check. Return whether they have. Sends nothing: the next
        ``send_first_heartbeats`` sends it to all responsive masters. Raises the errors of ``starting_point``."""
        if self._topics_version == self._topics.version:
            return False
        self._topics_version = self._topics.version
        known = {one.topic for one in self.consumer_data.subscriptions}
        self.consumer_data = self._consumer_data()
        self._subscriptions.update_subscriptions(self.consumer_data.subscriptions)
        self._unknown_queue_types |= self._filtered_topics() - known
        self._subscribed.clear()
        return True

    def _filtered_topics(self) -> set[str]:
        """Return the topics that are read with a filter: without one an empty set, else all but the retry topic."""
        return set(self._topics.selected) if self._options.message_filter != UNFILTERED else set()

    def unregister(self) -> None:
        """Unregister at every broker that acknowledged a heartbeat and responded to the last one, one after another,
        waiting for each response. Failures are logged at DEBUG, not raised."""
        for address in sorted(self._registered - self._unreached.keys(), key=str):
            self._client.try_call(address, lambda broker: broker.unregister(self._client_id, self._group))

    def _build_heartbeat(self) -> Heartbeat:
        """Return the heartbeat with the current subscription; send nothing."""
        return Heartbeat(self._client_id, (self._group_data(),))

    def _consumer_data(self) -> ConsumerData:
        """Return new consumer data of this member, with subscriptions to all topics of the query; send nothing. Raises
        the errors of ``starting_point``."""
        return ConsumerData(
            group=self._group,
            consume_type="CONSUME_ACTIVELY",
            message_model=self._options.message_model,
            consume_from_where=starting_point(self._options).where.value,
            subscriptions=tuple(map(self._subscription, self._topics)),
        )

    def _group_data(self) -> ConsumerData:
        """Return the consumer data of heartbeats: ``consumer_data`` plus a subscription to the group's retry topic, as
        in Java's push consumers, even if this member does not read it.

        A broker keeps only the topics of the group's last heartbeat, and rejects pulls of other topics that carry no
        subscription. Without the retry topic, Java members could not read it after each heartbeat of this member.
        """
        topics = dict.fromkeys((*self._topics.selected, self._options.retry_topic))
        return replace(self.consumer_data, subscriptions=tuple(map(self._subscription, topics)))

    def _subscription(self, topic: str) -> SubscriptionData:
        """Return the subscription to ``topic`` with its filter; the retry topic has none. Its version, of which brokers
        keep the newest, grows with each change of the topics."""
        expression, expression_type = self._options.filter_of(topic)
        version_ms = self._started_ms + self._topics_version
        return build_subscription(topic, expression, version_ms, expression_type)

    # ------------------------------------------------------------------------------------------ members

    def query_members(self) -> list[str] | None:
        """Request the group's members from all brokers in the routes, wait, and return the sorted client IDs, or None
        if no broker responded. Keep the IDs of the other members for ``record_other_members``. Permanent errors are
        raised.

        Each broker lists the members that send it heartbeats, and a member sends heartbeats to every broker that it
        reads from. So the list of a queue's broker has all members that could read the queue. Therefore all lists are
        merged, with each ID as often as in the list that has it most often. This member's ID is omitted unless every
        list has it, and every broker that returned a list has acknowledged its heartbeat: on another broker the ID
        belongs to a duplicate.
        """
        brokers = {name: name for name in self._routes.broker_names()}
        event = self._client.call_concurrently(
            brokers, lambda broker, _: broker.submit_consumer_ids(self._group), of_slaves=True
        )
        if not event:
            return None
        members: Counter[str] = Counter()
        for client_ids in event.values():
            members |= Counter(client_ids)
        self._other_members = sorted(members.keys() - {self._client_id})
        if not all(self._client_id in client_ids and self._is_registered(name) for name, client_ids in event.items()):
            del members[self._client_id]
        return sorted(members.elements())

    def _is_registered(self, broker_name: str) -> bool:
        """Return whether the address that ``SlaveReads.address`` returns for the broker has acknowledged a
        heartbeat."""
        return self._client.slave_reads.address(broker_name) in self._registered

    def record_other_members(self) -> bool:
        """Record an outage if the last ``query_members`` found other members, else its end; return whether it found
        any. Sends nothing. For callers that must be alone to reset the group's offsets. If other members are listed for
        DUPLICATE_CLIENT_ID_LIMIT_MS (120 s), longer than a dead one can be, a later metadata refresh raises
        MembershipError[GROUP_HAS_OTHER_MEMBERS]."""
        if not self._other_members:
            self._outage_tracker.record_success(OTHER_MEMBERS)
            return False
        shown_members = ", ".join(map(cut, self._other_members[:MAX_LISTED]))
        error = MembershipError("GROUP_HAS_OTHER_MEMBERS", group=self._group, others=shown_members)
        self._outage_tracker.record_failure(OTHER_MEMBERS, error, DUPLICATE_CLIENT_ID_LIMIT_MS)
        return True

    def update_state(self, client_ids: list[str] | None) -> MembershipAction:
        """Apply ``client_ids`` (from ``query_members``; None: no broker responded) to the member's state, do what the
        resulting action requires, and return the last action. Only after SHARE may the caller allocate queues among
        ``client_ids``.

        It may send heartbeats, check the group, or request running infos of other members, and wait. Problems and their
        ends are recorded as outages, also an inconsistent member: return WAIT if JOINING, SHARE if MEMBER. Raises the
        errors of ``OutageAwareClient.check_group``.
        """
        action = self._apply_event(event_from_lists(client_ids, self._client_id))
        if action is not MembershipAction.COMPARE:
            return action
        difference = self._find_inconsistency(client_ids or ())
        if difference is None:
            return self._apply_event(MembershipEvent.CONSISTENT)
        return self._apply_event(MembershipEvent.INCONSISTENT, difference)

    def _apply_event(self, event: MembershipEvent, difference: MembershipError | None = None) -> MembershipAction:
        """Change the state and return the action of the transition. For SEND_HEARTBEATS and CHECK_GROUP send heartbeats
        and wait; for CHECK_GROUP also run ``OutageAwareClient.check_group``, and raise its errors. Record outages of
        resolved conditions as ended, and the transition's problem as an outage with ``difference``, or by default the
        problem's own error."""
        transition = self._state_machine.apply(event)
        self._outage_tracker.discard(*transition.unknown)
        for subject in transition.resolved:
            self._outage_tracker.record_success(subject)
        if transition.action in (MembershipAction.SEND_HEARTBEATS, MembershipAction.CHECK_GROUP):
            self.heartbeat()
        if transition.action is MembershipAction.CHECK_GROUP:
            self._client.check_group()
        if transition.problem is not None:
            subject, limit, quiet_ms = transition.problem
            limit_ms = limit.in_ms(self._options.cluster_timeout_ms)
            self._outage_tracker.record_failure(subject, difference or self._problem_error(subject), limit_ms, quiet_ms)
        return transition.action

    def _problem_error(self, subject: str) -> MembershipError:
        """Return MembershipError[DUPLICATE_CLIENT_ID] for the subject IDENTITY, else
        MembershipError[NOT_REGISTERED_IN_GROUP]."""
        if subject == IDENTITY:
            return MembershipError("DUPLICATE_CLIENT_ID", group=self._group, client_id=self._client_id)
        return MembershipError("NOT_REGISTERED_IN_GROUP", group=self._group, client_id=self._client_id)

    def _find_inconsistency(self, client_ids: Collection[str]) -> MembershipError | None:
        """If the member list has changed, request running infos of the members of ``SubscriptionCheck.start_queries``,
        wait, and log differences in reading the retry topic. Return, not raise, the error of a member with another
        subscription, other consumer settings or the same checkpoint. Return None if no member that has responded
        differs."""
        members_to_query = self._subscriptions.start_queries(client_ids)
        if members_to_query:
            self._subscriptions.record_running_infos(self._query_running_infos(members_to_query))
            self._warn_of_retries()
        return self._subscriptions.difference()

    def _query_running_infos(self, client_ids: Collection[str]) -> dict[str, ConsumerRunningInfo]:
        """Request members' running infos through any responsive master, and wait. Members that did not respond are
        missing; {} without such a master, or if the request fails."""
        return self._client.call_any(lambda broker: broker.query_running_infos(self._group, client_ids)) or {}

    def _warn_of_retries(self) -> None:
        """Log a warning, at each call, for each member that reads the retry topic while this one does not, or the
        reverse."""
        for client_id in self._subscriptions.members_differing_in_retry():
            log.warning(
                "RETRY_TOPIC_INCONSISTENT: Only one of the members clientId=%s and clientId=%s reads topic=%s. "
                "Messages sent back for retry can remain unread there. Set 'retryTopic' to the same value on all "
                "members.",
                self._client_id,
                cut(client_id),
                self._options.retry_topic,
            )


def _query_topic_settings(topic: str, broker: BrokerApi) -> TopicSettings:
    """Request the topic's settings, wait and return them; raises what ``Broker.query_topic_settings`` does."""
    return broker.query_topic_settings(topic)
