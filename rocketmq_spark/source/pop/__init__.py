"""Streams whose group shares messages: Spark's calls, a run, offsets and tasks."""
