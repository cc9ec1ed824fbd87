"""Diagnosis of a job's connection, permissions and environment: ``rocketmq-spark doctor``.

Pure modules judge facts (``diagnosis``); ``cluster_facts`` and ``proxy_facts`` collect them from servers.
"""
