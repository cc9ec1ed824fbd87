"""Batch reads: ``spark.read.format("rocketmq")``, which have no consumer group."""
