"""Metrics of running queries, from their progress, for monitoring systems."""
