"""Read a topic, write what becomes of it to another, and read that with each row once.

python examples/05_read_transform_write.py              an embedded broker with a few messages
python examples/05_read_transform_write.py --namesrv HOST:PORT --topic orders --into shipped

A row that is written again, after a failure, has the id that it had. So it is dropped on reading, whatever happened.
"""

from pathlib import Path
from tempfile import mkdtemp

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import current_timestamp, expr
from sample import name_server, parser

arguments = parser(__doc__)
arguments.add_argument("--into", default="words", help="the topic to write to (default: words)")
parsed = arguments.parse_args()
folder = Path(mkdtemp(prefix="read-transform-write-"))

with name_server(parsed.namesrv, parsed.topic, parsed.into) as namesrv_addr:
    spark = SparkSession.builder.appName("from one topic to another").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")

    def read(topic: str, group: str) -> DataFrame:
        reader = spark.readStream.format("rocketmq").option("namesrvAddr", namesrv_addr).option("subscribe", topic)
        return reader.option("consumerGroup", group).option("startingOffsets", "earliest").load()

    words = read(parsed.topic, parsed.group).select(
        expr("explode(split(CAST(body AS STRING), ' '))").alias("body"),
        expr("'word'").alias("tags"),
        expr("msgId").alias("shardingKey"),  # the words of a message are in one queue, in their order
    )
    writer = words.writeStream.format("rocketmq").option("namesrvAddr", namesrv_addr).option("topic", parsed.into)
    writer = writer.option("checkpointLocation", f"{folder}/writing").trigger(availableNow=True)
    writer.start().awaitTermination()

    written = read(parsed.into, f"{parsed.group}-reader").withColumn("readTimestamp", current_timestamp())
    once = written.withWatermark("readTimestamp", "10 minutes").dropDuplicatesWithinWatermark(["msgId"])
    query = (
        once.selectExpr("CAST(body AS STRING) AS word")
        .writeStream.format("parquet")
        .option("path", f"{folder}/words")
        .option("checkpointLocation", f"{folder}/reading")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"{spark.read.parquet(f'{folder}/words').count()} words in topic {parsed.into}")
    spark.stop()
