"""The one table of error conditions. Code raises them by name, see ``errors``. A dot separates a sub-condition.

The reference page ``docs/reference/errors.md`` is generated from this table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition
from rocketmq_spark.conditions.option_conditions import OPTION_CONDITIONS
from rocketmq_spark.conditions.query_conditions import QUERY_CONDITIONS
from rocketmq_spark.conditions.server_conditions import SERVER_CONDITIONS

CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {**OPTION_CONDITIONS, **SERVER_CONDITIONS, **QUERY_CONDITIONS}
)
