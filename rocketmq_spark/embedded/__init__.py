"""Apache RocketMQ itself, in child JVMs: for tests, the demo, and a user's own experiments.

Nothing here is a mock. ``with EmbeddedCluster() as cluster`` is the door; ``pytest_plugin`` offers it as a fixture.
"""

from rocketmq_spark.embedded.acl import Right
from rocketmq_spark.embedded.cluster import EmbeddedCluster

__all__ = ["EmbeddedCluster", "Right"]
