"""Write each batch to Parquet under its number, so that a batch that runs again after a crash replaces itself.

A new checkpoint counts from batch 0 again, and so wants a new folder.

Run it twice with the same ``--folder``: the second run reads what came in since the first.

python examples/03_foreach_batch_to_parquet.py                        an embedded broker with a few messages
python examples/03_foreach_batch_to_parquet.py --namesrv 127.0.0.1:9876 --topic orders --folder orders
"""

from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import DataFrame, SparkSession
from sample import name_server, parser

arguments = parser(__doc__)
arguments.add_argument("--folder", type=Path, help="for the table and the checkpoint (default: a temporary one)")
parsed = arguments.parse_args()
folder = (parsed.folder or Path(mkdtemp(prefix="foreach-batch-"))).absolute()


def write_batch(batch: DataFrame, batch_id: int) -> None:
    batch.write.mode("overwrite").parquet(f"{folder}/table/batch={batch_id}")


with name_server(parsed.namesrv, parsed.topic) as namesrv_addr:
    spark = SparkSession.builder.appName("foreachBatch to Parquet").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", namesrv_addr)
        .option("consumerGroup", parsed.group)
        .option("subscribe", parsed.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 10_000)
        .load()
    )
    query = (
        messages.writeStream.foreachBatch(write_batch)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    table = spark.read.parquet(f"{folder}/table")
    table.groupBy("batch", "brokerName", "queueId").count().orderBy("batch", "brokerName", "queueId").show()
    print(f"{table.count()} rows in {folder}/table")
    spark.stop()
