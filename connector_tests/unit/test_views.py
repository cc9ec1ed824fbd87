"""The table of views and their rows agree."""

from __future__ import annotations

from typing import Final

import pytest

from rocketmq_spark.inspection.rows import GroupRow, MemberRow, QueueRow, TopicRow
from rocketmq_spark.inspection.views import VIEWS
from rocketmq_spark.options.view_read import GROUPS, MEMBERS, QUEUES, TOPICS

Row = TopicRow | QueueRow | GroupRow | MemberRow
ROWS: Final[dict[str, type[Row]]] = {TOPICS: TopicRow, QUEUES: QueueRow, GROUPS: GroupRow, MEMBERS: MemberRow}


def test_each_view_has_rows() -> None:
    assert VIEWS.keys() == ROWS.keys()


@pytest.mark.parametrize("view", ROWS)
def test_columns_are_the_fields_of_the_rows(view: str) -> None:
    assert [column.field for column in VIEWS[view].values()] == list(ROWS[view]._fields)


@pytest.mark.parametrize("view", ROWS)
def test_each_column_has_a_meaning(view: str) -> None:
    assert all(column.doc.endswith(".") for column in VIEWS[view].values())
