"""What goes from Spark back to RocketMQ: rows that could not be processed, to come again."""
