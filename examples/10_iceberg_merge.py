"""Keep the newest version of each order in an Iceberg table: MERGE by key, in foreachBatch.

python examples/10_iceberg_merge.py                        an embedded broker with a few orders
python examples/10_iceberg_merge.py --namesrv HOST:PORT --topic orders --folder orders --every "10 seconds"

A batch that is merged again changes nothing, because a row gives way only to a larger version. So the table is right
whatever was killed, also beside other members of the group, and with a copy of the checkpoint.
"""

from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from sample import ORDERS, name_server, pair, parser, with_start_position

from rocketmq_spark import run_available_now

arguments = parser(__doc__, "orders")
arguments.add_argument("--folder", type=Path, help="for the table and the checkpoint (default: a temporary one)")
arguments.add_argument("--every", help="keep running, a batch so often, such as '10 seconds' (default: read and end)")
arguments.add_argument("--option", type=pair, action="append", default=[], help="another of the source, NAME=VALUE")
parsed = arguments.parse_args()
folder = (parsed.folder or Path(mkdtemp(prefix="iceberg-merge-"))).absolute()
table = "lake.shop.orders"


def merge(batch: DataFrame, batch_id: int) -> None:
    newest = batch.groupBy("orderNo").agg(expr("max_by(struct(version, status), version)").alias("o"))
    newest.select("orderNo", "o.*").createOrReplaceTempView("newest")
    batch.sparkSession.sql(
        f"MERGE INTO {table} AS t USING newest AS n ON t.orderNo = n.orderNo "
        "WHEN MATCHED AND n.version > t.version THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


with name_server(parsed.namesrv, parsed.topic, bodies=ORDERS) as namesrv_addr:
    spark = (
        SparkSession.builder.appName("merge into an Iceberg table")
        .config("spark.jars.packages", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", f"file:{folder}/lake")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    columns = "orderNo STRING NOT NULL, version LONG NOT NULL, status STRING"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg")
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", namesrv_addr)
        .option("consumerGroup", parsed.group)
        .option("subscribe", parsed.topic)
        .option("maxOffsetsPerTrigger", 10_000)
        .options(**with_start_position(dict(parsed.option)))
        .load()
    )
    json = "from_json(CAST(body AS STRING), 'orderNo STRING, version LONG, status STRING', map('mode', 'FAILFAST'))"
    orders = messages.select(expr(json).alias("o")).select("o.*")
    writer = orders.writeStream.foreachBatch(merge).option("checkpointLocation", f"{folder}/checkpoint")
    if parsed.every:
        writer.trigger(processingTime=parsed.every).start().awaitTermination()
    else:
        run_available_now(writer)
    spark.table(table).orderBy("orderNo").show()
    print(f"{spark.table(table).count()} orders in {folder}")
    spark.stop()
