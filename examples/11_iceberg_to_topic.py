"""Write the rows of an Iceberg table, and those that are appended to it later, to a topic.

python examples/11_iceberg_to_topic.py                        an embedded broker, and a table with a few orders
python examples/11_iceberg_to_topic.py --namesrv HOST:PORT --topic orders --folder orders --every "10 seconds"

A row that is written again, after a crash, has the id that it had, because it is made of the columns that identify it:
how many cores the cluster has then, and how the table's files are cut into tasks, changes nothing.
"""

from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import SparkSession
from sample import name_server, parser

COLUMNS = "orderNo STRING, version LONG, status STRING"
ORDERS = [("A-1", 1, "paid"), ("A-2", 1, "paid"), ("A-1", 2, "shipped")]

arguments = parser(__doc__, "orders")
arguments.add_argument("--folder", type=Path, help="for the table and the checkpoint (default: a temporary one)")
arguments.add_argument("--every", help="keep running, a batch so often, such as '10 seconds' (default: read and end)")
parsed = arguments.parse_args()
folder = (parsed.folder or Path(mkdtemp(prefix="iceberg-to-topic-"))).absolute()
trigger = {"processingTime": parsed.every} if parsed.every else {"availableNow": True}

with name_server(parsed.namesrv, parsed.topic, bodies=()) as namesrv_addr:
    spark = (
        SparkSession.builder.appName("Iceberg table to a topic")
        .config("spark.jars.packages", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", f"file:{folder}/lake")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if not spark.catalog.tableExists("lake.shop.orders"):
        spark.createDataFrame(ORDERS, COLUMNS).writeTo("lake.shop.orders").create()
    messages = spark.readStream.table("lake.shop.orders").selectExpr(
        "to_json(struct(*)) AS body", "orderNo AS keys", "concat_ws(':', 'order', orderNo, version) AS id"
    )
    query = (
        messages.writeStream.format("rocketmq")
        .option("namesrvAddr", namesrv_addr)
        .option("topic", parsed.topic)
        .option("messageIdColumns", "id")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(**trigger)
        .start()
    )
    query.awaitTermination()
    print(f"{sum(batch.sink.numOutputRows for batch in query.recentProgress)} rows sent to topic {parsed.topic}")
    spark.stop()
