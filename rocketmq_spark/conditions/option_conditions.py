"""Conditions of options, schemas, checkpoints and the installation. See the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition

OPTION_CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        "UNKNOWN_OPTION": Condition(
            "Unknown option '{option:cut}'.", "{suggestion} Option names are not case-sensitive."
        ),
        "MISSING_OPTION": Condition("Required option '{option}' is not set.", "Set it to {expected}."),
        "OPTION_REQUIRES_OPTION": Condition(
            "Option '{option}' requires option '{needed}'. {reason}", "Set '{needed}', or remove '{option}'."
        ),
        "INVALID_OPTION_VALUE": Condition("Invalid value '{value:cut}' for '{option}'.", "Set it to {expected}."),
        "TIME_WITHOUT_ZONE": Condition(
            "Time without a zone in '{option}': {value:cut}.",
            "Append 'Z' for UTC, or the offset of the zone, for example '+01:00'.",
        ),
        "INCOMPATIBLE_OPTIONS": Condition(
            "Options '{first}' and '{second}' are incompatible. {reason}", "Change or remove one of them."
        ),
        "LISTED_QUEUES_MISMATCH": Condition(
            "Option '{option}' must list exactly the queues to read. Missing: {missing}. Unknown: {unknown}.",
            "Correct the list. To use one value for all queues of a topic, set the topic to it.",
        ),
        "ASSIGNED_QUEUES_NOT_FOUND": Condition(
            "{count:queue} of 'assign' not found, or not readable: {queues}.",
            "Correct the list. If a broker is unavailable, start it, or remove its queues.",
        ),
        "OFFSETS_OUT_OF_RANGE": Condition(
            "{count:offset} of '{option}' not available in the queues: {offsets}.",
            "Use offsets within the bounds in brackets. With 'failOnDataLoss' false, smaller offsets, whose messages "
            "retention has deleted, are no error.",
        ),
        "LISTED_QUEUES_UNKNOWN": Condition(
            "{count:queue} of '{option}' not among the queues to read: {queues}.", "Correct the list."
        ),
        "TIMESTAMP_NOT_MATCHED": Condition(
            "{count:queue} without a message at or after the time of '{option}': {queues}.",
            "Use an earlier time, or set 'startingOffsetsByTimestampStrategy' to latest: these queues then start at "
            "their end.",
        ),
        "COMMITTED_OFFSETS_NOT_FOUND": Condition(
            "Group '{group}' has no committed offset for {count:queue} of '{option}': {queues}.",
            "Check the name of the group. For queues that it has not read, use 'group:earliest' or 'group:latest'.",
        ),
        "OFFSETS_NOT_IN_QUEUES": Condition(
            "{count:offset} not in the queues: {offsets}.",
            "Use offsets within the bounds in brackets. No offset was set.",
        ),
        "CHECKPOINT_UNREADABLE": Condition(
            "Cannot read offsets from checkpoint '{path}': {problem}.",
            "Use the checkpoint location of a query that reads RocketMQ and has completed a micro-batch.",
        ),
        "DEAD_LETTERS_NOT_FOUND": Condition(
            "{count:message} not among the dead letters of group '{group}': {ids}.",
            "No message was sent. 'rocketmq-spark dlq list' shows the IDs of the dead letters.",
        ),
        "DEAD_LETTERS_AMBIGUOUS": Condition(
            "{count:dead letter} of group '{group}' with message ID '{id:cut}': {places}.",
            "Producers set these IDs. Select by place, with '--offset BROKER:QUEUE:OFFSET'. No message was sent.",
        ),
        "END_BEFORE_START": Condition(
            "{count:queue} would end before the start: {ranges}.",
            "Change '{start_option}' or '{end_option}'.",
        ),
        # ---- schemas and columns
        "UNKNOWN_COLUMN": Condition(
            "The schema has columns that the RocketMQ source does not have: {columns}.",
            "Use these columns: {available}. To read message properties as columns, name them in 'propertyColumns'.",
        ),
        "UNSUPPORTED_SINK_COLUMN": Condition(
            "Columns not supported by the RocketMQ sink: {columns}.",
            "Remove them with select(). Supported columns: {available}. Columns in 'messageIdColumns' are allowed too.",
        ),
        "UNSUPPORTED_COLUMN_TYPE": Condition(
            "Column '{column}' of the schema has type {given}; expected {expected}.",
            "Change its type in the schema. Columns of the source: {available}.",
        ),
        "EMPTY_SCHEMA": Condition(
            "The schema has no columns.", "Omit the schema, or name at least one of these columns: {available}."
        ),
        "NON_NULLABLE_COLUMN": Condition(
            "Column '{column}' is declared NOT NULL, but columns of the RocketMQ source can be null.",
            "Declare it without NOT NULL, and filter rows with '{column} IS NOT NULL'.",
        ),
        "MISSING_SEND_BACK_COLUMN": Condition(
            "Rows cannot be sent back: they lack columns {missing}.",
            "Include {needed} in the reader's schema, and keep these columns in the rows.",
        ),
        "UNSUPPORTED_SINK_COLUMN_TYPE": Condition(
            "Column '{column}' has type {given}; expected {expected}.",
            "Cast it. Columns of the sink: {available}.",
        ),
        "DUPLICATE_COLUMN_ALIAS": Condition(
            "Columns '{first}' and '{second}' both map to the sink column '{column}'.", "Keep one of them."
        ),
        "AMBIGUOUS_COLUMN": Condition(
            "Column '{column}' is ambiguous: the rows have {columns}.", "Rename or drop all but one."
        ),
        "MISSING_SINK_COLUMN": Condition(
            "Rows cannot be sent: missing {missing}.",
            "Add it to the DataFrame or the options. Columns of the sink: {available}.",
        ),
        "UNSUPPORTED_SAVE_MODE": Condition(
            "Save mode 'overwrite' is not supported for topic '{topic}': RocketMQ topics are append-only.",
            "Use mode('append').",
        ),
        # ---- checkpoints
        "INCOMPATIBLE_CHECKPOINT": Condition(
            "The checkpoint contains an offset that this version cannot read: {problem}.",
            "Use the version of rocketmq_spark that wrote it, or a new checkpoint location (for a file sink also a new "
            "path). With a new one, the query resumes from the group's committed offsets.",
        ),
        "CHECKPOINT_OPTION_CHANGED": Condition(
            "The checkpoint was written with {option}='{before:cut}'; the query now has {option}='{now:cut}'. Its "
            "offsets do not apply to the new value: resuming could skip or repeat messages.",
            "Restore the old value, or use a new checkpoint location (for a file sink also a new path). With a new "
            "one, the query resumes from the group's committed offsets. If it has loadBalance=queue, set "
            "'groupOffsets' to 'ignore' to start from 'startingOffsets' instead. If it has loadBalance=message, "
            "brokers redeliver the messages of an incomplete batch.",
        ),
        "OFFSET_FILE_UNUSABLE": Condition(
            "Cannot use {file}, the file with the offsets of this query: {problem}.",
            "Make it readable and writable, or change 'localOffsetStoreDir'. If it is damaged, delete it and its "
            "'.bak': the query then resumes from its checkpoint, or without one from its start position.",
        ),
        "SPOOL_DIR_UNUSABLE": Condition(
            "Cannot use the spool directory {folder}: {problem}.",
            "Make it writable for the driver, with space for several batches, or change 'spoolDir'. No data is lost: "
            "each batch is spooled before the checkpoint logs it.",
        ),
        # ---- what is installed
        "TLS_FILE_UNUSABLE": Condition(
            "Cannot use {path}, the file of option '{option}', on {host}: {problem}.",
            "Provide a readable PEM file at this path on the driver and on every executor. For an encrypted key, set "
            "'tlsKeyPassword'.",
        ),
        "UNSUPPORTED_SPARK_VERSION": Condition(
            "PySpark {version} is not supported: it has no {missing}, which Spark 4.0 introduced. It runs on {host} "
            "with {python}.",
            "On the driver and on every executor, install Spark 4.0 to 4.3 and Python 3.11 to 3.13. For the Python of "
            "'spark.pyspark.python' or PYSPARK_PYTHON, run pip install 'pyspark>=4.0,<4.4'. No version supports Spark "
            "3.5.",
        ),
        "UNSUPPORTED_SPARK_SETTING": Condition(
            "Setting 'spark.sql.streaming.triggerAvailableNowWrapper.enabled' is not supported with Spark {version}. "
            "Spark then fixes the end of the run before it reads the checkpoint, and its call {call} does not show the "
            "start of the batch.",
            "Unset it. To read all available messages in several batches, call rocketmq_spark.run_available_now, or "
            "use Spark 4.2 or newer. No message was read, and the checkpoint remains valid.",
        ),
        "MESSAGE_ID_UNAVAILABLE": Condition(
            "Cannot generate message IDs of a micro-batch: Spark provided no query ID or batch ID (query {query}, "
            "batch {batch}).",
            "Set 'messageIdColumns' to columns that identify a row.",
        ),
        "UNSUPPORTED_OPERATION": Condition(
            "{operation} is not supported: Spark does not pass the options of a table to a Python source.",
            "Use CREATE TEMPORARY VIEW <name> USING rocketmq OPTIONS (...): SELECT and INSERT INTO use its options.",
        ),
        "NATIVE_DECODER_UNAVAILABLE": Condition(
            "Cannot load the native decoder that {variable} selects: {problem}.",
            "Install a wheel that contains it, or build it with 'make native'. To use the Python decoder, unset "
            "{variable}: it returns the same rows, more slowly.",
        ),
    }
)
