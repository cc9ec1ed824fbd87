"""Spark imports every module named ``pyspark_*`` and takes its ``DefaultSource``: so ``format("rocketmq")`` is
found."""

from rocketmq_spark.source.datasource import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
