"""Reading RocketMQ with Spark: the data source, its offsets and plans, and the code that executors run."""
