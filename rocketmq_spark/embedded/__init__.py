"""Apache RocketMQ itself, in child JVMs: for tests, the demo, and experiments.

Nothing here is a mock. Use ``with EmbeddedCluster() as cluster``; ``pytest_plugin`` provides it as a fixture.
"""

from rocketmq_spark.embedded.acl import Right
from rocketmq_spark.embedded.cluster import EmbeddedCluster

__all__ = ["EmbeddedCluster", "Right"]
