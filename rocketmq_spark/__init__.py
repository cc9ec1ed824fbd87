"""Apache RocketMQ for PySpark: ``spark.readStream.format("rocketmq")``.

Importing this package opens nothing and imports neither Spark nor Arrow.
"""

from rocketmq_spark._version import __version__
from rocketmq_spark.failed_rows.send_back import send_back
from rocketmq_spark.metrics.lag_plot import plot_lag
from rocketmq_spark.model import RESERVED_PROPERTIES
from rocketmq_spark.sink.sending import send
from rocketmq_spark.source.stream.available_now_runs import run_available_now
from rocketmq_spark.source.stream.graceful_stop import stop
from rocketmq_spark.source.stream.shown_progress import progress_of

__all__ = [
    "RESERVED_PROPERTIES",
    "__version__",
    "plot_lag",
    "progress_of",
    "run_available_now",
    "send",
    "send_back",
    "stop",
]
