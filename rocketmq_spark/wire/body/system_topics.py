"""Topics that brokers have for themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketmq_spark.wire.body.routes import ClusterInfo

SYSTEM_TOPICS: Final = frozenset(
    {
        "BenchmarkTest",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
        "OFFSET_MOVED_EVENT",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "SELF_TEST_TOPIC",
        "TBW102",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)
"""Those of every cluster, and the topic over which proxies share their clients. Source:
``common/topic/TopicValidator.java``."""

SYSTEM_PREFIX: Final = "rmq_sys_"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"


def user_topics(topics: Iterable[str], cluster: ClusterInfo) -> list[str]:
    """Return the distinct ``topics``, ascending, without system topics. System topics are SYSTEM_TOPICS, names that
    begin with SYSTEM_PREFIX, and names of a broker, of a cluster, or of a cluster with REPLY_SUFFIX. Retry and
    dead-letter topics are kept. Source: ``broker/topic/TopicConfigManager.java#init``."""
    system = SYSTEM_TOPICS | cluster.brokers.keys() | cluster.clusters.keys()
    system |= {name + REPLY_SUFFIX for name in cluster.clusters}
    return sorted(topic for topic in set(topics) - system if not topic.startswith(SYSTEM_PREFIX))
