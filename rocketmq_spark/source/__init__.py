"""Reading RocketMQ with Spark: the data source, its offsets and plans, and what executors run."""
