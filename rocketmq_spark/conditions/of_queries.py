"""What queries find: losses, groups and other members, and the embedded broker. See the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition

OF_QUERIES: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        # ---- data
        "DATA_LOSS.OFFSETS_UNAVAILABLE": Condition(
            "{count} offsets are not in the brokers any more: {ranges}.",
            "Set 'failOnDataLoss' to false to go on without them, or begin anew: with a new checkpoint location (and, "
            "for a file sink, a new path), and 'groupOffsets' set to 'ignore', which moves the group to "
            "'startingOffsets' unless others are in it.",
        ),
        "DATA_LOSS.UNDELIVERED_MESSAGES": Condition(
            "{count} messages were deleted before group {group!r} was delivered them: {ranges}.",
            "Set 'failOnDataLoss' to false to go on without them, and have brokers keep messages for longer "
            "('fileReservedTime') than a query may stand still.",
        ),
        "MESSAGE_DELETED": Condition(
            "Its broker does not hold message {message} any more.",
            "Retention has deleted it before it was sent back; what is left of it is the row.",
        ),
        "SEND_BACK_FAILED": Condition(
            "{count} messages were not sent back for group {group!r}: {messages}; the first failure: {cause}",
            "Send these again, or let the batch fail: its replay sends back all that fails then.",
        ),
        "BATCH_SKIPPED": Condition(
            "Spark asks for another batch, and batch {number} of this start of the query, which it was given before, "
            "is not completed: its messages would be acknowledged, and be in no sink.",
            "Start the query again from its checkpoint: nothing is lost. Report this with the version of Spark.",
        ),
        # ---- the group
        "GROUP_HAS_OTHER_MEMBERS": Condition(
            "'groupOffsets' moves group {group!r} before anything is read, and others are in the group: {others}.",
            "Stop them, or take a group of your own, or set 'groupOffsets' to 'resume' to go on where the group is.",
        ),
        "DUPLICATE_CLIENT_ID": Condition(
            "Another live member of group {group!r} uses the client id {client_id!r}.",
            "Give one of the two queries another 'instanceName'.",
        ),
        "INCONSISTENT_SUBSCRIPTION": Condition(
            "Members of group {group!r} subscribe to different things: {client_id!r} to {ours}; {other!r} to {theirs}.",
            "Give all members the same topics and expressions, or this one another group. Each stream is a member by "
            "itself: two streams of one application that read different topics want a group each.",
        ),
        "INCONSISTENT_GROUP_SETTINGS": Condition(
            "Members of group {group!r} consume differently: {client_id!r} with {ours}; {other!r} with {theirs}.",
            "Give all members the same settings, or this one another group.",
        ),
        "CHECKPOINT_SHARED": Condition(
            "Members {client_id!r} and {other!r} of group {group!r} run from one checkpoint, or from a copy of it. A "
            "sink that skips batch numbers of a query that it has already, such as Delta's or Iceberg's, loses rows.",
            "Stop one of them, and start it with a new checkpoint location (and, for a file sink, a new path). If one "
            "is a former run of this query, wait until it has ended.",
        ),
        "GRACEFUL_STOP_TIMEOUT": Condition(
            "Query {query!r} was not drained within {timeout_s} s.",
            "Allow more time than one micro-batch and one trigger interval take; the query goes on.",
        ),
        "GRACEFUL_STOP_INCOMPLETE": Condition(
            "Query {query!r} was stopped after {timeout_s} s though {left} of its {sources} sources were not drained: "
            "the others had handed over.",
            "Allow more time. Where this query goes on or others read the group, its last batch of those comes twice.",
        ),
        "NOT_A_ROCKETMQ_QUERY": Condition(
            "Query {query!r} reads nothing from RocketMQ: no source of its last progress is a 'rocketmq'.",
            "Stop it by its own stop(): it has no group to commit to and no queues to hand over.",
        ),
        "STOP_FROM_OTHER_HOST": Condition(
            "Query {query!r} runs on {host}, and cannot be stopped gracefully from {here}: it is asked through its "
            "driver's folder {folder}.",
            "Call rocketmq_spark.stop on {host}. Or have a file 'drain' made in that folder, and call query.stop() "
            "once a file 'drained' is there beside it; without that the running batch comes twice.",
        ),
        "STOP_CONTROL_DIR_MISSING": Condition(
            "Query {query!r} could not be asked to stop within {timeout_s} s: its folder {folder} is not there on "
            "{host}.",
            "The query makes it again at each trigger if the temporary files were cleaned up: allow for one, and look "
            "whether it may write there. If its driver is on another machine or in a container of the same name, call "
            "rocketmq_spark.stop there.",
        ),
        "NOT_REGISTERED_IN_GROUP": Condition(
            "The brokers do not list {client_id!r} as a member of group {group!r}.",
            "Check that the group exists or may be created, that it may consume, and that no broker of the topics has "
            "'rejectPullConsumerEnable' set to true, which lists no member that pulls.",
        ),
        "UNKNOWN_MACHINE_ROOM": Condition(
            "The machine room resolver names no room for {subject}.",
            "It must know every broker and every client of the group; all members need the same resolver.",
        ),
        # ---- embedded broker
        "JAVA_NOT_FOUND": Condition(
            "No usable Java was found: {problem}.", "Install Java 17 or newer, or set JAVA_HOME."
        ),
        "JARS_UNAVAILABLE": Condition(
            "The jars of Apache RocketMQ {version} could not be fetched: {problem}.",
            "Connect to a Maven repository once, or set ROCKETMQ_HOME to an unpacked distribution.",
        ),
        "JAR_CHECKSUM_MISMATCH": Condition(
            "{jar} was fetched, and does not have its pinned SHA-256 sum.",
            "It was thrown away. Run again, and if that does not help, look at what your Maven repository delivers.",
        ),
        "EMBEDDED_SERVER_FAILED": Condition(
            "RocketMQ's embedded server failed: {problem}.",
            "Look whether its port is taken, or its store in use by another broker.",
        ),
        "EMBEDDED_JVM_FAILED": Condition(
            "The embedded broker's JVM failed: {problem}.", "Its log ends:\n{log_tail:lines}"
        ),
        "EMBEDDED_CLUSTER_INVALID_STATE": Condition("The embedded cluster cannot do this now: {problem}.", "{hint}"),
    }
)
