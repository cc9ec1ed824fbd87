"""A job for spark-submit: append what is new in a topic to a Parquet table, then end. For a scheduler to run again.

SPARK_CONF_DIR=conf spark-submit examples/04_spark_submit_job.py              an embedded broker with a few messages
SPARK_CONF_DIR=conf spark-submit examples/04_spark_submit_job.py \
    --options my.options --folder orders    your own; conf/connector.options.example shows the options

With Spark's file sink and the checkpoint, each message is in the table exactly once, while this job is the only member
of its consumer group.
"""

from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession
from sample import name_server, parser, with_start_position

arguments = parser(__doc__)
arguments.add_argument("--options", type=Path, help="file of the connector's options, one 'name=value' a line")
arguments.add_argument("--folder", type=Path, help="for the table and the checkpoint (default: a temporary one)")
parsed = arguments.parse_args()
folder = (parsed.folder or Path(mkdtemp(prefix="spark-submit-job-"))).absolute()


def read_options(file: Path) -> dict[str, str]:
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


options = {"consumerGroup": parsed.group, "subscribe": parsed.topic}
if parsed.options is not None:
    options |= read_options(parsed.options)
options = with_start_position(options)

with name_server(options.get("namesrvAddr", parsed.namesrv), parsed.topic) as namesrv_addr:
    spark = SparkSession.builder.appName("append a topic to a table").getOrCreate()
    messages = spark.readStream.format("rocketmq").options(**options).option("namesrvAddr", namesrv_addr).load()
    query = (
        messages.writeStream.format("parquet")
        .option("path", f"{folder}/table")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{spark.read.parquet(f'{folder}/table').count()} rows in {folder}/table")
    spark.stop()
