"""Conditions of running queries: data loss, the group, graceful stop and the embedded broker. See the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition

CONTINUE_OR_START_OVER: Final = (
    "Set 'failOnDataLoss' to false to continue without them. To start a batch read over, call load() again. To start a "
    "stream over, stop the other members of its group. Then use a new checkpoint location (for a file sink also a new "
    "path), and set 'groupOffsets' to 'ignore': the query resets the group to 'startingOffsets'."
)

QUERY_CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        # ---- data
        "DATA_LOSS.OFFSETS_UNAVAILABLE": Condition(
            "{count:offset} no longer available in the brokers: {ranges}.",
            CONTINUE_OR_START_OVER,
        ),
        "DATA_LOSS.TOPIC_RECREATED": Condition(
            "{count:offset} of re-created or emptied queues no longer exist: {ranges}.",
            CONTINUE_OR_START_OVER,
        ),
        "DATA_LOSS.QUEUE_TRUNCATED": Condition(
            "{count:offset} of truncated queues no longer exist: {ranges}.",
            CONTINUE_OR_START_OVER,
        ),
        "DATA_LOSS.OFFSETS_OMITTED": Condition(
            "{count:offset} are missing in the responses of the brokers: {ranges}.",
            CONTINUE_OR_START_OVER,
        ),
        "DATA_LOSS.OFFSETS_BEYOND_END": Condition(
            "Committed offsets of the group are beyond the ends of their queues, by {count:offset}: {ranges}.",
            "Check the disks and replicas of these brokers, and which clients commit offsets of the group. To resume "
            "from the checkpoint's offsets, set 'failOnDataLoss' to false. Queues without an offset in the checkpoint "
            "are then read from their first message.",
        ),
        "DATA_LOSS.UNDELIVERED_MESSAGES": Condition(
            "Brokers deleted {count:message} before delivery to group '{group}': {ranges}.",
            "Set 'failOnDataLoss' to false to continue without them. Set the brokers' retention ('fileReservedTime') "
            "above the longest downtime of the query.",
        ),
        "MESSAGE_DELETED": Condition(
            "Cannot send back message {message}: retention deleted it from its broker.",
            "The message cannot be redelivered. If you need the row, store it elsewhere.",
        ),
        "SEND_BACK_FAILED": Condition(
            "Cannot send back {count:message} for group '{group}': {messages}. First error: {cause}",
            "Send these rows back again, or let the batch fail: the restarted query replays it, and no data is lost.",
        ),
        "BATCH_SKIPPED": Condition(
            "Spark requested the next batch before batch {number} of this run was completed. The query stopped, "
            "because to acknowledge that batch now would lose its messages.",
            "Restart the query from its checkpoint: no data is lost. Report this error with the version of Spark.",
        ),
        # ---- the group
        "GROUP_HAS_OTHER_MEMBERS": Condition(
            "Cannot reset the offsets of group '{group}', because the group has other members: {others}.",
            "Stop them, use another group, or set 'groupOffsets' to 'resume' to start from the group's committed "
            "offsets.",
        ),
        "GROUP_IN_USE": Condition(
            "Cannot set the offsets of group '{group}' while it has {count:member}: {members}.",
            "Stop them first, or use '--force'. A running Spark query then resumes from the new offsets, and other "
            "consumers overwrite them.",
        ),
        "DUPLICATE_CLIENT_ID": Condition(
            "Another live member of group '{group}' has the client ID '{client_id}'.",
            "Set a different 'instanceName' on one of the two queries, and restart it.",
        ),
        "INCONSISTENT_SUBSCRIPTION": Condition(
            "Members of group '{group}' have different subscriptions: '{client_id}' subscribes to {ours}; '{other}' "
            "subscribes to {theirs}.",
            "Set the same topics and expressions on all members, or use another group. Each stream is a member of its "
            "own: two streams of one application that read different topics need a group each.",
        ),
        "INCONSISTENT_GROUP_SETTINGS": Condition(
            "Members of group '{group}' have different settings: '{client_id}' has {ours}; '{other}' has {theirs}.",
            "Set the same values on all members, or use another group.",
        ),
        "CHECKPOINT_SHARED": Condition(
            "Members '{client_id}' and '{other}' of group '{group}' run from one checkpoint, or from a copy of it. A "
            "sink that skips batch numbers it already has, such as Delta's or Iceberg's, loses rows.",
            "Stop one of them, and start it with a new checkpoint location (for a file sink also a new path). If one "
            "is an earlier run of this query, wait until it has ended.",
        ),
        "NOT_REGISTERED_IN_GROUP": Condition(
            "The brokers do not list client '{client_id}' as a member of group '{group}'.",
            "Check that the group exists or can be created, and that it may consume: 'mqadmin updateSubGroup -g "
            "{group} -c <cluster> -s true'. Check that no broker of the topics has 'rejectPullConsumerEnable' set to "
            "true. 'mqadmin consumerConnection -g {group}' shows the members.",
        ),
        "UNKNOWN_MACHINE_ROOM": Condition(
            "Cannot allocate queues: the machine room resolver returned no machine room for {subject}.",
            "Return a machine room for every broker and every client of the group, and use the same resolver on all "
            "members.",
        ),
        # ---- graceful stop
        "GRACEFUL_STOP_TIMEOUT": Condition(
            "Query '{query}' is still running: it did not complete its batch and release its queues within {timeout_s} "
            "s.",
            "Stop it again with a timeout_s (now {timeout_s}) above one micro-batch plus one trigger interval.",
        ),
        "GRACEFUL_STOP_INCOMPLETE": Condition(
            "Query '{query}' was stopped after {timeout_s} s, before {left} of its {sources} sources had completed "
            "their batch.",
            "No data is lost. When the query is restarted, or other members read the group, the last batch of these "
            "sources is read twice. Next time, increase timeout_s (now {timeout_s}).",
        ),
        "NOT_A_ROCKETMQ_QUERY": Condition(
            "Query '{query}' has no RocketMQ source: its last progress lists no 'rocketmq' source.",
            "Stop it with its own stop(): it has no group offsets to commit and no queues to release.",
        ),
        "STOP_FROM_OTHER_HOST": Condition(
            "Query '{query}' runs on {host} and cannot be stopped gracefully from {here}: its control directory "
            "{folder} is on the driver's host.",
            "Call rocketmq_spark.stop on {host}. Or create a file 'drain' in that directory, and call query.stop() "
            "when a file 'drained' appears beside it; otherwise the running batch is read twice.",
        ),
        "STOP_CONTROL_DIR_MISSING": Condition(
            "Query '{query}' is still running: it received no stop request within {timeout_s} s, because its control "
            "directory {folder} does not exist on {host}.",
            "Call rocketmq_spark.stop where the query's driver runs, perhaps on another host, or in a container with "
            "the same host name. If temporary files were deleted, the query's next trigger creates the directory: call "
            "it after that. If the directory is still missing, check that the query may write to its parent.",
        ),
        # ---- embedded broker
        "JAVA_NOT_FOUND": Condition("No usable Java found: {problem}.", "Install Java 17 or newer, or set JAVA_HOME."),
        "JARS_UNAVAILABLE": Condition(
            "Cannot download the jars of Apache RocketMQ {version}: {problem}.",
            "Connect to a Maven repository once, or set ROCKETMQ_HOME to an unpacked distribution.",
        ),
        "JAR_CHECKSUM_MISMATCH": Condition(
            "The downloaded {jar} does not have its pinned SHA-256 checksum, and was deleted.",
            "Run the command again. If this persists, check the files that your Maven repository returns.",
        ),
        "EMBEDDED_SERVER_FAILED": Condition(
            "The embedded RocketMQ server failed: {problem}.",
            "Check whether its port is in use, or its store is used by another broker.",
        ),
        "EMBEDDED_JVM_FAILED": Condition(
            "The embedded broker's JVM failed: {problem}.", "Check the end of its log:\n{log_tail:lines}"
        ),
        "EMBEDDED_CLUSTER_INVALID_STATE": Condition(
            "The embedded cluster cannot perform this operation: {problem}.", "Remove the cause, then try again."
        ),
    }
)
