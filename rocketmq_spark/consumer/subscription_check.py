"""Whether the members of a group subscribe to the same, in the same manner. Decides whom to ask and what an answer
means; asks nobody.

A broker keeps one subscription table a group, that of the last heartbeat, so only the members themselves can tell.
Members that differ do harm in silence: each shares the queues of a topic with others that never read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rocketmq_spark.consumer.manner import differences, manner_of
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.wire.body.running_info import PROP_CHECKPOINT, ConsumerRunningInfo
from rocketmq_spark.wire.body.subscription import TAG, SubscriptionData

Wanted = dict[str, tuple[str, frozenset[str] | str]]
"""By topic: the kind of expression, and what it lets through."""

NOTHING: Final = "nothing"

MOST_QUESTIONS: Final = 2
"""Asked of a member that does not answer, however often it comes and goes: a Java consumer can hang over it."""


class SubscriptionCheck:
    """Compares the subscriptions of one member with the others', each time that the list of members changes.

    Who does not answer counts as equal, and is asked once more at the next change. The group's retry topic makes no
    difference here: Java's push consumers always read it, its pull consumers never do.

    Not thread-safe.
    """

    def __init__(
        self,
        group: str,
        client_id: str,
        subscriptions: Iterable[SubscriptionData],
        manner: Mapping[str, str],
        retry_topic: str,
    ) -> None:
        self._group = group
        self._client_id = client_id
        self._retry_topic = retry_topic
        self._ours = _wanted(subscriptions)
        self._our_manner = manner_of(manner)
        self._our_checkpoint = manner.get(PROP_CHECKPOINT)
        self._checkpoints: dict[str, str | None] = {}
        self._manners: dict[str, dict[str, str]] = {}
        self._listed: frozenset[str] = frozenset()
        self._theirs: dict[str, Wanted] = {}
        self._asked: Counter[str] = Counter()

    def to_ask(self, client_ids: Iterable[str]) -> frozenset[str]:
        """Whom to ask, now that the group has these members: those that are new, were silent or were different."""
        listed = frozenset(client_ids) - {self._client_id}
        if listed == self._listed:
            return frozenset()
        self._listed = listed
        self._theirs = {client_id: wanted for client_id, wanted in self._theirs.items() if client_id in listed}
        to_ask = frozenset(client_id for client_id in listed if self._is_to_be_asked(client_id))
        self._asked.update(to_ask)
        return to_ask

    def _is_to_be_asked(self, client_id: str) -> bool:
        if client_id in self._theirs:
            differs = self._differs(self._theirs[client_id]) or bool(self._other_manner(client_id))
            return differs or self._shares_checkpoint(client_id)
        return self._asked[client_id] < MOST_QUESTIONS

    def answered(self, infos: Mapping[str, ConsumerRunningInfo]) -> None:
        """What the members that were asked have answered, by client id."""
        for client_id, info in infos.items():
            self._theirs[client_id] = _wanted(info.subscriptions)
            self._manners[client_id] = manner_of(info.properties)
            self._checkpoints[client_id] = info.properties.get(PROP_CHECKPOINT)
            del self._asked[client_id]

    def _other_manner(self, client_id: str) -> list[str]:
        return differences(self._our_manner, self._manners[client_id])

    def _shares_checkpoint(self, client_id: str) -> bool:
        return self._our_checkpoint is not None and self._checkpoints[client_id] == self._our_checkpoint

    def difference(self) -> MembershipError | None:
        """The error that names a member which differs, and what both subscribe to, or which shares our checkpoint; None
        if there is none."""
        for client_id, theirs in sorted(self._theirs.items()):
            if self._differs(theirs):
                return MembershipError(
                    "SUBSCRIPTIONS_DIFFER",
                    group=self._group,
                    client_id=self._client_id,
                    ours=_described(self._ours),
                    other=client_id,
                    theirs=_described(theirs),
                )
            if options := self._other_manner(client_id):
                return MembershipError(
                    "MEMBERS_DIFFER",
                    group=self._group,
                    client_id=self._client_id,
                    ours=_settings(self._our_manner, options),
                    other=client_id,
                    theirs=_settings(self._manners[client_id], options),
                )
            if self._shares_checkpoint(client_id):
                return MembershipError(
                    "CHECKPOINT_SHARED", group=self._group, client_id=self._client_id, other=client_id
                )
        return None

    def at_odds_over_retries(self) -> list[str]:
        """Who reads the retry topic and we do not, or the other way round: its queues may go to one that does not."""
        reads_it = self._retry_topic in self._ours
        return sorted(
            client_id for client_id, theirs in self._theirs.items() if (self._retry_topic in theirs) != reads_it
        )

    def _differs(self, theirs: Wanted) -> bool:
        return _without(theirs, self._retry_topic) != _without(self._ours, self._retry_topic)


def _wanted(subscriptions: Iterable[SubscriptionData]) -> Wanted:
    return {
        one.topic: (one.expression_type, one.tags_set if one.expression_type == TAG else one.sub_string)
        for one in subscriptions
    }


def _without(wanted: Wanted, topic: str) -> Wanted:
    return {name: expression for name, expression in wanted.items() if name != topic}


def _settings(manner: Mapping[str, str], options: Iterable[str]) -> str:
    return ", ".join(f"{option}={manner[option]}" for option in options)


def _described(wanted: Wanted) -> str:
    texts = (f"{topic} ({_text(expression)})" for topic, (_, expression) in sorted(wanted.items()))
    return ", ".join(texts) or NOTHING


def _text(expression: frozenset[str] | str) -> str:
    return expression if isinstance(expression, str) else " || ".join(sorted(expression)) or "*"
