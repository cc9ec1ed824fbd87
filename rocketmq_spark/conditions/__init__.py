"""The one table of conditions: what errors say, and what a user can do. Code raises them by name, see ``errors``.

The reference page ``docs/reference/errors.md`` is generated from this table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition
from rocketmq_spark.conditions.of_options import OF_OPTIONS
from rocketmq_spark.conditions.of_queries import OF_QUERIES
from rocketmq_spark.conditions.of_servers import OF_SERVERS

CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType({**OF_OPTIONS, **OF_SERVERS, **OF_QUERIES})
