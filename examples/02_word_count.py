"""Count words by the half minute in which the broker stored them.

``storeTimestamp`` comes from the broker's clock, so a watermark on it does not depend on the clocks of the producers.

python examples/02_word_count.py                                          an embedded broker with a few messages
python examples/02_word_count.py --namesrv 127.0.0.1:9876 --topic lines   your own
"""

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, explode, split, window
from sample import name_server, parser

arguments = parser(__doc__)
arguments.add_argument("--seconds", type=int, default=20, help="how long to read (default: %(default)s)")
parsed = arguments.parse_args()

with name_server(parsed.namesrv, parsed.topic) as namesrv_addr:
    spark = SparkSession.builder.appName("word count").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lines = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", namesrv_addr)
        .option("consumerGroup", parsed.group)
        .option("subscribe", parsed.topic)
        .option("startingOffsets", "earliest")
        .schema("body BINARY, storeTimestamp TIMESTAMP")  # only what is named here is decoded
        .load()
    )
    words = lines.select("storeTimestamp", explode(split(col("body").cast("string"), " ")).alias("word"))
    counts = (
        words.withWatermark("storeTimestamp", "1 minute")
        .groupBy(window("storeTimestamp", "30 seconds"), "word")
        .count()
        .select("window.start", "word", "count")
    )
    query = counts.writeStream.outputMode("update").format("console").start()
    query.awaitTermination(parsed.seconds)
    query.stop()
    spark.stop()
