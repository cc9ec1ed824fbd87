"""Append a topic to an Iceberg table: each message is there once, whatever was killed meanwhile.

python examples/09_iceberg_append.py                        an embedded broker with a few orders
python examples/09_iceberg_append.py --namesrv HOST:PORT --topic orders --folder orders --every "10 seconds"

Iceberg notes in the table which batch of which query it has, and skips one that is replayed. So each query needs a
checkpoint of its own: a copy of a checkpoint is the same query to Iceberg.
"""

from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession
from sample import ORDERS, name_server, pair, parser, with_start_position

from rocketmq_spark import run_available_now

arguments = parser(__doc__, "orders")
arguments.add_argument("--folder", type=Path, help="for the table and the checkpoint (default: a temporary one)")
arguments.add_argument("--every", help="keep running, a batch so often, such as '10 seconds' (default: read and end)")
arguments.add_argument("--option", type=pair, action="append", default=[], help="another of the source, NAME=VALUE")
parsed = arguments.parse_args()
folder = (parsed.folder or Path(mkdtemp(prefix="iceberg-append-"))).absolute()

with name_server(parsed.namesrv, parsed.topic, bodies=ORDERS) as namesrv_addr:
    spark = (
        SparkSession.builder.appName("append to an Iceberg table")
        .config("spark.jars.packages", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", f"file:{folder}/lake")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql(
        "CREATE TABLE IF NOT EXISTS lake.shop.orders (orderNo STRING, version LONG, status STRING, "
        "brokerName STRING, queueId INT, queueOffset LONG) USING iceberg"
    )
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
        orders.writeStream.format("iceberg").outputMode("append").option("checkpointLocation", f"{folder}/checkpoint")
    )
    if parsed.every:
        writer.trigger(processingTime=parsed.every).toTable("lake.shop.orders").awaitTermination()
    else:
        run_available_now(writer, lambda writer: writer.toTable("lake.shop.orders"))
    table = spark.table("lake.shop.orders")
    table.orderBy("orderNo", "version").show()
    print(f"{table.count()} rows in {folder}")
    spark.stop()
