"""Print messages as they come in.

python examples/01_console_stream.py                                          an embedded broker with a few messages
python examples/01_console_stream.py --namesrv 127.0.0.1:9876 --topic orders  your own
"""

from pyspark.sql import SparkSession
from sample import name_server, parser

arguments = parser(__doc__)
arguments.add_argument("--seconds", type=int, default=20, help="how long to read (default: %(default)s)")
parsed = arguments.parse_args()

with name_server(parsed.namesrv, parsed.topic) as namesrv_addr:
    spark = SparkSession.builder.appName("console stream").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", namesrv_addr)
        .option("consumerGroup", parsed.group)
        .option("subscribe", parsed.topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    shown = messages.selectExpr("brokerName", "queueId", "queueOffset", "keys", "tags", "CAST(body AS STRING) AS body")
    query = shown.writeStream.format("console").option("truncate", "false").start()
    query.awaitTermination(parsed.seconds)
    query.stop()
    spark.stop()
