"""How contestants are called, in the records and in the report."""

from __future__ import annotations

from typing import Final

from connector_tests.benchmarks.workload import RARE_EVERY

OURS: Final = "rocketmq_spark"
OUR_BODIES: Final = f"{OURS}, body and queueOffset"
OUR_LIKE_KAFKA: Final = f"{OURS}, Kafka's columns"
OUR_MAPS: Final = f"{OURS}, with properties"
OUR_RARE: Final = f"{OURS}, tag of 1 in {RARE_EVERY}"
PYTHON_SUFFIX: Final = ", pure Python"
"""Of what has a peer that decodes natively, where that is built."""
OUR_PULLS: Final = f"{OURS}, pull only"
OUR_PULLS_AT_ONCE: Final = f"{OUR_PULLS}, a task a core"
OUR_DECODES: Final = f"{OURS}, pull and decode"
OUR_LIKE_KAFKA_DECODES: Final = f"{OURS}, pull and decode Kafka's columns"
OUR_BODY_DECODES: Final = f"{OURS}, pull and decode body and queueOffset"
OUR_ENCODES: Final = f"{OURS}, encode only"
COUNTED: Final = "an Arrow writer that only counts"
KAFKA: Final = "Spark Kafka"
KAFKA_HEADERS: Final = f"{KAFKA}, with headers"
KAFKA_VALUES: Final = f"{KAFKA}, value and offset"
LITE_PULL: Final = "Java LitePull"
JAVA_PULL: Final = "Java Pull"
EMPTY: Final = "an empty Python source"
JAVA_BATCHES: Final = "Java producer, batches of 200"
JAVA_BATCHES_AT_ONCE: Final = f"{JAVA_BATCHES}, 4 threads"
UNCHECKED_SUFFIX: Final = ", Arrow unchecked"
DEFAULTS_SUFFIX: Final = ", default settings"
"""Of what is read with ``other_settings.SETTINGS``."""
