"""Check that the members of a group have the same subscription and consumer settings. Pure: it selects the members to
query and evaluates their running infos.

A broker keeps one subscription table per group, that of the last heartbeat, so only the members themselves report
their subscriptions. Inconsistent members leave messages unread without an error: each allocates queues of a topic to
members that never read it.

A member reports its settings among the properties of its running info. Java's push consumers report all settings
(``MixAll#object2Properties``): the message model, and the strategy as its class and an address,
``org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@1b2c6ec2``. Settings that a member does
not report are not compared.

A query also reports its checkpoint ID. A sink that skips batches that it already has, such as Delta's, would take the
batches of a copied checkpoint for those of the original.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rocketmq_spark.condition import cut
from rocketmq_spark.consumer import allocation
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.model import TAG
from rocketmq_spark.options import BROADCASTING, ReadOptions
from rocketmq_spark.wire.body.running_info import (
    PROP_CHECKPOINT,
    PROP_CONSUME_ORDERLY,
    PROP_TOPIC_PATTERN,
    ConsumerRunningInfo,
)
from rocketmq_spark.wire.body.subscription import SubscriptionData

MESSAGE_MODEL: Final = "messageModel"
STRATEGY: Final = "allocateMessageQueueStrategy"

PATTERN: Final = "subscribePattern"

OPTIONS: Final = {
    MESSAGE_MODEL: "messageModel",
    PROP_CONSUME_ORDERLY: "consumeOrderly",
    STRATEGY: "allocateStrategy",
    PROP_TOPIC_PATTERN: PATTERN,
}
"""Options that are compared, by the property that reports them."""

COMPARABLE_STRATEGIES: Final = frozenset(
    {
        allocation.AllocateMessageQueueAveragely.__name__,
        allocation.AllocateMessageQueueAveragelyByCircle.__name__,
        allocation.AllocateMessageQueueConsistentHash.__name__,
        allocation.AllocateMessageQueueByConfig.__name__,
        allocation.AllocateMessageQueueByMachineRoom.__name__,
        allocation.AllocateMachineRoomNearby.__name__,
        allocation.AllocateAveragelyOverAllTopics.__name__,
    }
)
"""Class names of the strategies that are compared, equal to Java's. Whether two other classes allocate alike is
unknown."""


def consumer_settings_of(options: ReadOptions, strategy: object, checkpoint_id: str | None = None) -> dict[str, str]:
    """Return this member's settings, by the property that reports them in its running info: message model, orderly or
    not, class name of the strategy, and topic pattern and checkpoint ID if there are any. In BROADCASTING omit strategy
    and checkpoint ID: members share no queues, and a copied checkpoint is an independent reader."""
    reported = {
        MESSAGE_MODEL: options.message_model,
        PROP_CONSUME_ORDERLY: "true" if options.consume_orderly else "false",
    }
    if options.topic_pattern is not None:
        reported[PROP_TOPIC_PATTERN] = options.topic_pattern.pattern
    if options.message_model == BROADCASTING:
        return reported
    return reported | {STRATEGY: type(strategy).__name__} | ({PROP_CHECKPOINT: checkpoint_id} if checkpoint_id else {})


def comparable_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a member that can be compared, by option name, from the ``properties`` of its running
    info. Settings that were not reported are missing, and so are the checkpoint ID, strategies that are not in
    COMPARABLE_STRATEGIES, and any strategy in BROADCASTING."""
    reported = {option: properties[name] for name, option in OPTIONS.items() if name in properties}
    strategy = reported.pop(OPTIONS[STRATEGY], "").partition("@")[0].rpartition(".")[2]
    is_comparable = strategy in COMPARABLE_STRATEGIES and reported.get(OPTIONS[MESSAGE_MODEL]) != BROADCASTING
    return reported | ({OPTIONS[STRATEGY]: strategy} if is_comparable else {})


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Return the names of options that both members report with different values, in the order of ``ours``."""
    return [option for option, value in ours.items() if theirs.get(option, value) != value]


REPORTED_CHARACTERS: Final = 1_000
"""Maximum length of what an error shows of another member, which may report anything."""

FilterByTopic = dict[str, tuple[str, frozenset[str] | str]]
"""Expression type and expression (for TAG: the set of tags) by topic."""

NOTHING: Final = "nothing"

MAX_UNANSWERED_QUERIES: Final = 2
"""Maximum number of queries to a member that does not respond, even if it leaves and returns: a Java consumer can hang
in one."""

MAX_QUERIES: Final = 256
"""Maximum number of members queried at once. A broker lists whatever client IDs a client has registered."""

MAX_COUNTED_MEMBERS: Final = 4_096
"""Number of members that did not respond from which on those that left are forgotten."""


class SubscriptionCheck:
    """Compares this member's subscription and settings with the running infos of the other members. ``GroupMembers``
    queries these at each change of the member list.

    A member that does not respond counts as consistent, and is queried once more at the next change. If the list is
    long, a later call queries it (see ``start_queries``). The group's retry topic is ignored: Java's push consumers
    always read it, its pull consumers never do.

    Not thread-safe.
    """

    def __init__(
        self,
        group: str,
        client_id: str,
        subscriptions: Iterable[SubscriptionData],
        consumer_settings: Mapping[str, str],
        retry_topic: str,
    ) -> None:
        self._group = group
        self._client_id = client_id
        self._retry_topic = retry_topic
        self._ours = _subscribed_topics(subscriptions)
        self._our_settings = comparable_settings(consumer_settings)
        self._our_checkpoint = consumer_settings.get(PROP_CHECKPOINT)
        self._checkpoints: dict[str, str | None] = {}
        self._their_settings: dict[str, dict[str, str]] = {}
        self._listed: frozenset[str] | None = frozenset()
        self._theirs: dict[str, FilterByTopic] = {}
        self._unanswered_queries: Counter[str] = Counter()

    def update_subscriptions(self, subscriptions: Iterable[SubscriptionData]) -> None:
        """Replace this member's subscription; members are compared with it from now on. Sends nothing."""
        self._ours = _subscribed_topics(subscriptions)

    def start_queries(self, client_ids: Iterable[str]) -> frozenset[str]:
        """Record the member list and return the members to query, without this one. They are members that were
        inconsistent, and members that have not responded and were queried less than MAX_UNANSWERED_QUERIES (2) times.
        If they are more than MAX_QUERIES (256), return the least queried ones; calls with the same list return the
        rest, then none. Discard reports of members that left. Count each returned member as queried. Sends nothing."""
        listed = frozenset(client_ids) - {self._client_id}
        if listed == self._listed:
            return frozenset()
        for left in self._theirs.keys() - listed:
            del self._theirs[left], self._their_settings[left], self._checkpoints[left]
        if len(self._unanswered_queries) > MAX_COUNTED_MEMBERS:
            for left in self._unanswered_queries.keys() - listed:
                del self._unanswered_queries[left]
        to_query = sorted(filter(self._must_query, listed), key=lambda one: (self._unanswered_queries[one], one))
        self._listed = listed if len(to_query) <= MAX_QUERIES else None
        self._unanswered_queries.update(to_query[:MAX_QUERIES])
        return frozenset(to_query[:MAX_QUERIES])

    def _must_query(self, client_id: str) -> bool:
        """Return whether the member reported a difference or this member's checkpoint. A member that has not reported
        must be queried if it was queried less than MAX_UNANSWERED_QUERIES (2) times without a response."""
        if client_id in self._theirs:
            differs = self._differs(client_id) or bool(self._differing_settings(client_id))
            return differs or self._shares_checkpoint(client_id)
        return self._unanswered_queries[client_id] < MAX_UNANSWERED_QUERIES

    def record_running_infos(self, infos: Mapping[str, ConsumerRunningInfo]) -> None:
        """Record subscription, settings and checkpoint ID of members that responded, by client ID, in place of earlier
        ones. Reset their counts of unanswered queries."""
        for client_id, info in infos.items():
            self._theirs[client_id] = _subscribed_topics(info.subscriptions)
            self._their_settings[client_id] = comparable_settings(info.properties)
            self._checkpoints[client_id] = info.properties.get(PROP_CHECKPOINT)
            del self._unanswered_queries[client_id]

    def _differing_settings(self, client_id: str) -> list[str]:
        """Return the options that both members report, with different values. Raises KeyError if no running info of
        ``client_id`` is recorded."""
        return differences(self._our_settings, self._their_settings[client_id])

    def _shares_checkpoint(self, client_id: str) -> bool:
        """Return whether a member reports this one's checkpoint ID; False if this one has none."""
        return self._our_checkpoint is not None and self._checkpoints[client_id] == self._our_checkpoint

    def difference(self) -> MembershipError | None:
        """Return, not raise, for the first inconsistent member by client ID the first of these errors, or None if no
        reported member differs. MembershipError[INCONSISTENT_SUBSCRIPTION] names both subscriptions,
        MembershipError[INCONSISTENT_GROUP_SETTINGS] the settings that differ, MembershipError[CHECKPOINT_SHARED] a
        member with the same checkpoint. Ignores the retry topic."""
        for client_id, theirs in sorted(self._theirs.items()):
            if self._differs(client_id):
                return MembershipError(
                    "INCONSISTENT_SUBSCRIPTION",
                    group=self._group,
                    client_id=self._client_id,
                    ours=_describe(self._ours),
                    other=cut(client_id),
                    theirs=cut(_describe(theirs), REPORTED_CHARACTERS),
                )
            if options := self._differing_settings(client_id):
                return MembershipError(
                    "INCONSISTENT_GROUP_SETTINGS",
                    group=self._group,
                    client_id=self._client_id,
                    ours=_format_settings(self._our_settings, options),
                    other=cut(client_id),
                    theirs=cut(_format_settings(self._their_settings[client_id], options), REPORTED_CHARACTERS),
                )
            if self._shares_checkpoint(client_id):
                return MembershipError(
                    "CHECKPOINT_SHARED", group=self._group, client_id=self._client_id, other=cut(client_id)
                )
        return None

    def members_differing_in_retry(self) -> list[str]:
        """Return, ascending, the members that last reported to read the retry topic while this one does not, or the
        reverse. Its queues may be allocated to members that do not read it."""
        reads_it = self._retry_topic in self._ours
        return sorted(
            client_id for client_id, theirs in self._theirs.items() if (self._retry_topic in theirs) != reads_it
        )

    def _differs(self, client_id: str) -> bool:
        """Return whether the member has other topics or filters than this one, apart from the retry topic. If both have
        a ``subscribePattern``, only the filters of common topics are compared: the lists of topics may differ for a
        moment."""
        ours, theirs = (_without(one, self._retry_topic) for one in (self._ours, self._theirs[client_id]))
        if PATTERN in self._our_settings and PATTERN in self._their_settings[client_id]:
            return any(ours[topic] != theirs[topic] for topic in ours.keys() & theirs.keys())
        return ours != theirs


def _subscribed_topics(subscriptions: Iterable[SubscriptionData]) -> FilterByTopic:
    """Return expression type and expression by topic: for TAG the set of tags, else the text."""
    return {
        one.topic: (one.expression_type, one.tags_set if one.expression_type == TAG else one.sub_string)
        for one in subscriptions
    }


def _without(subscribed: FilterByTopic, topic: str) -> FilterByTopic:
    return {name: expression for name, expression in subscribed.items() if name != topic}


def _format_settings(consumer_settings: Mapping[str, str], options: Iterable[str]) -> str:
    """Return ``option=value`` of ``options``, in their order, joined by commas."""
    return ", ".join(f"{option}={consumer_settings[option]}" for option in options)


def _describe(subscribed: FilterByTopic) -> str:
    """Return ``topic (filter)`` of each topic, ascending, joined by commas; ``nothing`` without topics."""
    texts = (f"{topic} ({_text(expression)})" for topic, (_, expression) in sorted(subscribed.items()))
    return ", ".join(texts) or NOTHING


def _text(expression: frozenset[str] | str) -> str:
    """Return an expression unchanged, or a set of tags as ``A || B``, ascending; ``*`` for no tags."""
    return expression if isinstance(expression, str) else " || ".join(sorted(expression)) or "*"
