"""The one table of error conditions. Code raises them by name, see ``errors``. A dot separates a sub-condition.

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
