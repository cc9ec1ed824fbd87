"""Streaming reads with message-based load balancing: the Spark reader, its run, its offsets and its tasks."""
