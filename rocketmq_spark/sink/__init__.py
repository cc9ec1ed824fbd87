"""Writing to RocketMQ: rows of batch and streaming writes, and messages of ``rocketmq_spark.send``."""
