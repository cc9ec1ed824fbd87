"""The properties that no row may have are all those that RocketMQ names, but for what users may set."""

from __future__ import annotations

from typing import Any

from rocketmq_spark.model import RESERVED_PROPERTIES
from rocketmq_spark.wire.body.system_topics import REPLY_SUFFIX, SYSTEM_PREFIX, SYSTEM_TOPICS

NO_NAMES_OF_PROPERTIES = {
    "KEY_SEPARATOR", "INDEX_KEY_TYPE", "INDEX_TAG_TYPE", "INDEX_UNIQUE_TYPE",
    "TIMER_ENGINE_FILE_TIME_WHEEL", "TIMER_ENGINE_ROCKSDB_TIMELINE", "PROPERTY_TRANSIENT_PREFIX",
}  # fmt: skip
"""Constants that are a separator, types of an index, values of TIMER_ENGINE_TYPE and the beginning of names."""

OF_USERS = {"TRACE_CONTEXT": "the context of a distributed trace, which an application passes on; no server acts by it"}


def test_no_row_may_have_what_java_names_as_a_property(java: Any) -> None:
    """INNER_MULTI_DISPATCH and REDIRECT passed: Java refuses fewer of a user than servers act by."""
    fields = java.java.lang.Class.forName("org.apache.rocketmq.common.message.MessageConst").getFields()
    constants = {field.getName(): field.get(None) for field in fields if field.getType().getSimpleName() == "String"}
    named = {value for name, value in constants.items() if name not in NO_NAMES_OF_PROPERTIES}
    assert constants.keys() >= NO_NAMES_OF_PROPERTIES
    assert named - OF_USERS.keys() == RESERVED_PROPERTIES
    assert named >= OF_USERS.keys()


def test_views_omit_what_java_calls_a_system_topic(java: Any) -> None:
    theirs = set(java.org.apache.rocketmq.common.topic.TopicValidator.getSystemTopicSet())
    assert SYSTEM_TOPICS - theirs == {"DefaultHeartBeatSyncerTopic"}
    assert theirs <= SYSTEM_TOPICS
    assert java.org.apache.rocketmq.common.topic.TopicValidator.SYSTEM_TOPIC_PREFIX == SYSTEM_PREFIX
    assert java.org.apache.rocketmq.common.MixAll.getReplyTopic("c") == "c" + REPLY_SUFFIX


def test_no_row_may_have_what_java_refuses_of_a_user(java: Any) -> None:
    assert set(java.org.apache.rocketmq.common.message.MessageConst.STRING_HASH_SET) <= RESERVED_PROPERTIES
