"""Diagnoses of the consumer group: disabled, members that consume in another way, or offsets that are deleted."""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis
from rocketmq_spark.doctor.facts import BrokerFacts, Job, ServerFacts
from rocketmq_spark.model import TAG, QueueRange, retry_topic
from rocketmq_spark.options import BROADCASTING
from rocketmq_spark.wire.body.connections import GroupConnections
from rocketmq_spark.wire.body.subscription import SubscriptionData, exact_tags


def group_diagnoses(job: Job, servers: ServerFacts) -> list[Diagnosis]:
    """Return the problems of the job's group on each broker, of its switches, its members and its offsets in this
    order; [] without a group."""
    if job.group is None:
        return []
    return [
        diagnosis
        for broker in servers.brokers
        for diagnosis in (*_disabled(job, broker), *_inconsistent(job, broker), *_deleted(job, broker))
    ]


def disabled_group_diagnosis(job: Job, broker: BrokerFacts) -> Diagnosis:
    """Return the problem of the job's group with ``consumeEnable`` false on ``broker``, unchecked."""
    return Diagnosis(
        area=Area.GROUP,
        condition="GROUP_CONSUME_DISABLED",
        problem=f"Group '{job.group}' is not allowed to consume",
        cause=f"its 'consumeEnable' is false on broker '{broker.name}'",
        advice=f"Enable it on every broker: 'mqadmin updateSubGroup -g {job.group} -c <cluster> -s true'.",
        place=broker.name,
    )


def _disabled(job: Job, broker: BrokerFacts) -> Iterator[Diagnosis]:
    """Yield a problem if the group's ``consumeEnable`` is false on the broker, and one if ``consumeBroadcastEnable`` is
    false and the job has messageModel=BROADCASTING. Yield nothing if the switches are unknown."""
    switches = broker.switches
    if switches is None:
        return
    if not switches.is_consume_enabled:
        yield disabled_group_diagnosis(job, broker)
    if job.message_model == BROADCASTING and not switches.is_broadcast_enabled:
        yield Diagnosis(
            area=Area.GROUP,
            condition="GROUP_BROADCAST_DISABLED",
            problem=f"Group '{job.group}' is not allowed to consume with messageModel=BROADCASTING",
            cause=f"its 'consumeBroadcastEnable' is false on broker '{broker.name}'",
            advice=f"Enable it on every broker: 'mqadmin updateSubGroup -g {job.group} -c <cluster> -d true'.",
            place=broker.name,
        )


def _inconsistent(job: Job, broker: BrokerFacts) -> Iterator[Diagnosis]:
    """Yield a problem if the broker lists members of the group with another message model than the job's, else if they
    have another subscription. Nothing if the job is no member, or the broker lists none."""
    connections = broker.connections
    if connections is None or not job.is_member or not connections.members:
        return
    if connections.message_model != job.message_model:
        yield Diagnosis(
            area=Area.GROUP,
            condition="INCONSISTENT_GROUP_SETTINGS",
            problem=f"Group '{job.group}' has members with messageModel={connections.message_model}, and this job has "
            f"{job.message_model}",
            cause=f"{_members(connections)} on broker '{broker.name}'",
            advice="Use a group of its own for this job, or the same 'messageModel' as its members.",
            place=broker.name,
        )
    elif (difference := _difference(job, connections)) is not None:
        yield Diagnosis(
            area=Area.GROUP,
            condition="INCONSISTENT_SUBSCRIPTION",
            problem=f"Group '{job.group}' has members with another subscription: {difference}",
            cause=f"{_members(connections)} on broker '{broker.name}'",
            advice="Use a group of its own for this job, or the same topics and tags in all members: inconsistent "
            "members leave messages unread.",
            place=broker.name,
            subject=difference,
        )


def _deleted(job: Job, broker: BrokerFacts) -> Iterator[Diagnosis]:
    """Yield one problem if the broker has deleted offsets, of any of its queues, that the group has not read. Nothing
    if the job does not begin at the group's offsets."""
    deleted = _deleted_ranges(broker) if job.starts_at_group else []
    if deleted:
        among = f", the first of {len(deleted)} ranges" if len(deleted) > 1 else ""
        yield Diagnosis(
            area=Area.GROUP,
            condition="DATA_LOSS.OFFSETS_UNAVAILABLE",
            problem=f"Broker '{broker.name}' has deleted {sum(map(len, deleted))} offsets that group '{job.group}' has "
            "not read",
            cause=f"retention deleted {deleted[0]}{among}",
            advice="A query whose checkpoint is not ahead of them fails. Set 'failOnDataLoss' to false to continue "
            "without them, and the broker's 'fileReservedTime' to more hours than the group may be behind.",
            place=broker.name,
        )


def _deleted_ranges(broker: BrokerFacts) -> list[QueueRange]:
    """Return, in queue order, the range from the committed offset to the min offset, exclusive, of each queue whose min
    offset is larger. Queues without bounds are left out."""
    return [
        QueueRange(queue, offset, bounds.min_offset)
        for queue, offset in sorted(broker.committed.items(), key=lambda item: item[0].sort_key())
        if (bounds := broker.bounds.get(queue)) is not None and offset < bounds.min_offset
    ]


def _members(connections: GroupConnections) -> str:
    """Return as text the first client ID in alphabetical order, and the number of further members."""
    first, *rest = sorted(member.client_id for member in connections.members)
    return f"member {first}" + (f" and {len(rest)} more" if rest else "")


def _difference(job: Job, connections: GroupConnections) -> str | None:
    """Return as text the subscriptions of the members and of the job, topics with tags or SQL92 expression, or None if
    they are equal. The group's retry topic does not count."""
    ignored = retry_topic(job.group or "")
    own = job.message_filter
    selected = own.expression if own.is_sql else _shown(exact_tags(own.expression) or frozenset())
    ours = {topic: selected for topic in job.topics if topic != ignored}
    theirs = {topic: _expression(one) for topic, one in connections.subscriptions.items() if topic != ignored}
    return None if ours == theirs else f"{_listed(theirs)}, and this job has {_listed(ours)}"


def _expression(subscription: SubscriptionData) -> str:
    """Return the tags as ``_shown`` does or, unless it filters by tags, the SQL92 expression."""
    return _shown(subscription.tags_set) if subscription.expression_type == TAG else subscription.sub_string


def _shown(tags: frozenset[str]) -> str:
    """Return the tags in alphabetical order as ``A || B``; ``*`` without tags."""
    return " || ".join(sorted(tags)) or "*"


def _listed(subscribed: dict[str, str]) -> str:
    """Return ``topic (expression), ...`` in alphabetical order from expressions by topic; "nothing" without topics."""
    return ", ".join(f"{topic} ({expression})" for topic, expression in sorted(subscribed.items())) or "nothing"
