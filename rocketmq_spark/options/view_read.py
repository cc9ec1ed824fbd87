"""Options of a view: ``spark.read`` of the cluster's topics, queues, groups or members in place of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketmq_spark.options.connection import CONNECTION_CONFLICTS, CONNECTION_DEPENDENCIES, ConnectionOptions
from rocketmq_spark.options.kinds import choice
from rocketmq_spark.options.read import ReadOptions
from rocketmq_spark.options.table import Conflict, Section, accepted_by, checked, option, parse_table, row_of

TOPICS: Final = "topics"
QUEUES: Final = "queues"
GROUPS: Final = "groups"
MEMBERS: Final = "members"
VIEW: Final = "view"


@accepted_by("spark.read with view")
@dataclass(frozen=True, kw_only=True)
class ViewOptions(ConnectionOptions):
    """Options of ``spark.read.format("rocketmq").option("view", ...)``."""

    given_group: str | None = row_of(ReadOptions, "consumerGroup", required=False)
    view: str = option(
        VIEW,
        choice(TOPICS, QUEUES, GROUPS, MEMBERS),
        section=Section.SUBSCRIPTION,
        required=True,
        doc="Reads a view of the cluster in place of messages: its topics, its queues, the lag of its consumer groups, "
        "or their members. `subscribe` restricts it to topics, `consumerGroup` to a group; without them, it has all "
        "but the system's.",
    )
    given_topics: tuple[str, ...] | None = row_of(ReadOptions, "subscribe", required=False)
    log_level: str = row_of(ReadOptions, "logLevel")

    @classmethod
    def parse(cls, configured: Mapping[str, str]) -> ViewOptions:
        """Parse the options of a view; names in any case.

        Raises OptionError[UNKNOWN_OPTION | MISSING_OPTION | INVALID_OPTION_VALUE | INCOMPATIBLE_OPTIONS |
        OPTION_REQUIRES_OPTION].
        """
        return checked(cls(**parse_table(cls, configured)), CONNECTION_DEPENDENCIES, VIEW_CONFLICTS)

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups of the view; () for all."""
        return () if self.given_group is None else (self.given_group,)

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the topics of the view; () for all."""
        return self.given_topics or ()


VIEW_CONFLICTS: Final = (
    *CONNECTION_CONFLICTS,
    Conflict(
        VIEW,
        "consumerGroup",
        lambda options: options.view in (TOPICS, QUEUES) and options.given_group is not None,
        "Topics and queues belong to no group.",
    ),
    Conflict(
        VIEW,
        "subscribe",
        lambda options: options.view == MEMBERS and options.given_topics is not None,
        "Members belong to a group, not to a topic.",
    ),
)
"""Checked in this order."""
