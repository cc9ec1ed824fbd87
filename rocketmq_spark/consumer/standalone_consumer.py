"""StandaloneConsumer: the place of GroupMembers in a query with ``assign``, which joins no group.

It sends no heartbeat, so brokers neither list nor notify it. It owns the assigned queues whatever the group's members
do, and uses the group's offsets as a member does.
"""

from __future__ import annotations

from rocketmq_spark.consumer.group_members import GroupMembers
from rocketmq_spark.consumer.heartbeats import Heartbeats
from rocketmq_spark.consumer.membership_state import MembershipAction
from rocketmq_spark.model import BrokerAddress


class StandaloneConsumer(GroupMembers):
    """GroupMembers of a query with ``assign``: it is the only member of its own list. Not thread-safe."""

    _checked: frozenset[BrokerAddress] = frozenset()
    """Masters at which the group was checked."""

    def heartbeat(self) -> None:
        """Send no heartbeat."""

    def send_first_heartbeats(self) -> None:
        """Send no heartbeat. Check the filter as ``GroupMembers.send_first_heartbeats`` does, and raise its errors."""
        self._warn_of_batch_queues()
        self._check_filter()

    def next_heartbeats(self) -> Heartbeats:
        """Return heartbeats to no address."""
        return Heartbeats(self._build_heartbeat(), ())

    def query_members(self) -> list[str]:
        """Return this consumer alone. With ``groupOffsets`` that may reset the group's offsets, first request the
        group's members, as ``GroupMembers.query_members`` does, for ``record_other_members``."""
        if self._options.group_offsets != "resume":
            super().query_members()
        return [self._client_id]

    def update_state(self, client_ids: list[str] | None) -> MembershipAction:
        """Return SHARE: assigned queues are owned without a group. Before, if a responsive master was not checked yet,
        run ``OutageAwareClient.check_group``, which requests all masters and waits, and raise its errors. A broker
        rejects offsets of a group that it does not have. The pulls of the check make it create the group."""
        if not self._checked.issuperset(self._outage_tracker.responsive_masters().values()):
            self._client.check_group()
            self._checked = frozenset(self._outage_tracker.responsive_masters().values())
        return MembershipAction.SHARE
