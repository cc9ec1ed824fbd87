"""Apache RocketMQ for PySpark: ``spark.readStream.format("rocketmq")``.

Importing this package opens nothing and imports neither Spark nor Arrow.
"""

from rocketmq_spark._version import __version__
from rocketmq_spark.model import RESERVED_PROPERTIES
from rocketmq_spark.sink.failed_rows import send_back
from rocketmq_spark.sink.sending import send
from rocketmq_spark.source.stream.graceful_stop import stop

__all__ = ["RESERVED_PROPERTIES", "__version__", "send", "send_back", "stop"]
