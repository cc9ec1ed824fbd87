"""What goes from Spark to RocketMQ: rows that are written, and rows that could not be processed, to come again."""
