"""Append a topic to a Delta table: each message is there once, whatever was killed meanwhile.

python examples/06_delta_append.py                        an embedded broker with a few orders
python examples/06_delta_append.py --namesrv HOST:PORT --topic orders --folder orders --every "10 seconds"

Delta notes in the table which batch of which query it has, and skips one that is replayed. So each query needs a
checkpoint of its own: a copy of a checkpoint is the same query to Delta.
"""

from pathlib import Path
from tempfile import mkdtemp

import pyspark
from pyspark.sql import SparkSession
from sample import ORDERS, name_server, pair, parser, with_start_position

from rocketmq_spark import run_available_now

arguments = parser(__doc__, "orders")
arguments.add_argument("--folder", type=Path, help="for the table and the checkpoint (default: a temporary one)")
arguments.add_argument("--every", help="keep running, a batch so often, such as '10 seconds' (default: read and end)")
arguments.add_argument("--option", type=pair, action="append", default=[], help="another of the source, NAME=VALUE")
parsed = arguments.parse_args()
folder = (parsed.folder or Path(mkdtemp(prefix="delta-append-"))).absolute()

with name_server(parsed.namesrv, parsed.topic, bodies=ORDERS) as namesrv_addr:
    spark = (
        SparkSession.builder.appName("append to a Delta table")
        .config("spark.jars.packages", f"io.delta:delta-spark_{pyspark.__version__[:3]}_2.13:4.4.0")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", namesrv_addr)
        .option("consumerGroup", parsed.group)
        .option("subscribe", parsed.topic)
        .option("maxOffsetsPerTrigger", 10_000)
        .options(**with_start_position(dict(parsed.option)))
        .load()
    )
    orders = messages.selectExpr(
        "from_json(CAST(body AS STRING), 'orderNo STRING, version LONG, status STRING', map('mode', 'FAILFAST')) AS o",
        "brokerName",
        "queueId",
        "queueOffset",
    ).select("o.*", "brokerName", "queueId", "queueOffset")
    writer = (
        orders.writeStream.format("delta").outputMode("append").option("checkpointLocation", f"{folder}/checkpoint")
    )
    if parsed.every:
        writer.trigger(processingTime=parsed.every).start(f"{folder}/table").awaitTermination()
    else:
        run_available_now(writer, lambda writer: writer.start(f"{folder}/table"))
    table = spark.read.format("delta").load(f"{folder}/table")
    table.orderBy("orderNo", "version").show()
    print(f"{table.count()} rows in {folder}")
    spark.stop()
