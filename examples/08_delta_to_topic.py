"""Write the rows of a Delta table, and those that are appended to it later, to a topic.

python examples/08_delta_to_topic.py                        an embedded broker, and a table with a few orders
python examples/08_delta_to_topic.py --namesrv HOST:PORT --topic orders --folder orders --every "10 seconds"

A row that is written again, after a crash, has the id that it had, because it is made of the columns that identify it:
how many cores the cluster has then, and how the table's files are cut into tasks, changes nothing.
"""

from pathlib import Path
from tempfile import mkdtemp

import pyspark
from pyspark.sql import SparkSession
from sample import name_server, parser

COLUMNS = "orderNo STRING, version LONG, status STRING"
ORDERS = [("A-1", 1, "paid"), ("A-2", 1, "paid"), ("A-1", 2, "shipped")]

arguments = parser(__doc__, "orders")
arguments.add_argument("--folder", type=Path, help="for the table and the checkpoint (default: a temporary one)")
arguments.add_argument("--every", help="keep running, a batch so often, such as '10 seconds' (default: read and end)")
parsed = arguments.parse_args()
folder = (parsed.folder or Path(mkdtemp(prefix="delta-to-topic-"))).absolute()
trigger = {"processingTime": parsed.every} if parsed.every else {"availableNow": True}
table = f"{folder}/table"

with name_server(parsed.namesrv, parsed.topic, bodies=()) as namesrv_addr:
    spark = (
        SparkSession.builder.appName("Delta table to a topic")
        .config("spark.jars.packages", f"io.delta:delta-spark_{pyspark.__version__[:3]}_2.13:4.4.0")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    if not Path(table).exists():
        spark.createDataFrame(ORDERS, COLUMNS).write.format("delta").save(table)
    messages = (
        spark.readStream.format("delta")
        .load(table)
        .selectExpr("to_json(struct(*)) AS body", "orderNo AS keys", "concat_ws(':', 'order', orderNo, version) AS id")
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
