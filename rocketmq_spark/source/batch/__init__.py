"""Batch reads: ``spark.read.format("rocketmq")``, which knows no consumer group."""
