"""Inspection of a cluster: topics, queues, groups, members and the lag of groups, for Spark and the command line."""
