"""What is wrong with options, schemas, checkpoints and what is installed. See the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition

OF_OPTIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        "UNKNOWN_OPTION": Condition(
            "Unknown option {option!r}.",
            "{suggestion} docs/reference/options.md lists every option. Names are not case-sensitive, and Spark hands "
            "them over in lower case.",
        ),
        "MISSING_OPTION": Condition("Option {option!r} is required and was not given.", "{hint}"),
        "INVALID_OPTION_VALUE": Condition("Option {option!r} cannot be {value!r}.", "It must be {expected}."),
        "INCOMPATIBLE_OPTIONS": Condition("Options {first!r} and {second!r} contradict each other.", "{reason}"),
        "UNKNOWN_COLUMN": Condition(
            "The schema names columns that RocketMQ messages do not have: {columns}.",
            "There are: {available}. Properties are columns too where 'propertyColumns' names them.",
        ),
        "UNSUPPORTED_SINK_COLUMN": Condition(
            "Rows have columns that are nothing of a message to send: {columns}.",
            "Choose with select(...); there are: {available}. Beside them may only be what 'messageIdColumns' names.",
        ),
        "UNSUPPORTED_COLUMN_TYPE": Condition(
            "Column {column!r} cannot be read as {given}.", "Declare it as {expected}; there are: {available}."
        ),
        "EMPTY_SCHEMA": Condition(
            "The schema has no column, so no row could be read.",
            "Leave out the schema, or name columns; there are: {available}.",
        ),
        "NON_NULLABLE_COLUMN": Condition(
            "Column {column!r} is declared NOT NULL, and columns of this source may be null.",
            "Declare it without NOT NULL, and filter rows with '{column} IS NOT NULL'.",
        ),
        "MISSING_SEND_BACK_COLUMN": Condition(
            "Rows cannot be sent back without {missing}.",
            "Name {needed} in the reader's schema, and keep them in the rows.",
        ),
        "UNSUPPORTED_SINK_COLUMN_TYPE": Condition(
            "Column {column!r} is {given}, and cannot be sent as that.", "Make it {expected}; there are: {available}."
        ),
        "DUPLICATE_COLUMN_ALIAS": Condition(
            "Columns {first!r} and {second!r} both say {meaning!r} of a message.", "Drop one of them."
        ),
        "AMBIGUOUS_COLUMN": Condition(
            "Column {column!r} is ambiguous: the rows have {columns}.", "Rename or drop all but one."
        ),
        "MISSING_SINK_COLUMN": Condition("Rows cannot be sent without {missing}.", "There are: {available}."),
        "UNSUPPORTED_SAVE_MODE": Condition(
            "Topic {topic!r} cannot be overwritten: what is written comes behind what is there.", "Use mode('append')."
        ),
        "INCOMPATIBLE_CHECKPOINT": Condition(
            "The checkpoint holds an offset that this version cannot read: {problem}.",
            "Use the version of rocketmq_spark that wrote it, or start with a new checkpoint location (and, for a file "
            "sink, a new path); the consumer group's offsets then say where to go on.",
        ),
        "CHECKPOINT_OPTION_CHANGED": Condition(
            "The checkpoint was written with {option!r} {before!r}, and now it is {now!r}. {loses}",
            "Set it back, or start with a new checkpoint location (and, for a file sink, a new path): the query then "
            "goes on where the group is{or_else}.",
        ),
        "OFFSET_FILE_UNUSABLE": Condition(
            "The offsets of this query are kept in {file}, which cannot be used: {problem}.",
            "Make it readable and writable, or change 'localOffsetStoreDir'. If it is damaged, remove it and its "
            "'.bak': the query then goes on from its checkpoint, or begins anew without one.",
        ),
        "SPOOL_DIR_UNUSABLE": Condition(
            "Batches are kept in {folder} until they are done, which cannot be used: {problem}.",
            "Make it a folder that the driver may write to, with room for some batches, or change 'spoolDir'. The "
            "checkpoint has no batch that is not kept: nothing is lost.",
        ),
        "TLS_FILE_UNUSABLE": Condition(
            "Option {option!r} is {path}, which cannot be used on {host}: {problem}.",
            "It must be a PEM file that can be read at this path on the driver and on every executor; an encrypted key "
            "needs 'tlsKeyPassword'.",
        ),
        "UNSUPPORTED_SPARK_VERSION": Condition(
            "PySpark {version} runs on {host}, by {python}, and it has no {missing}: Python data sources came with "
            "Spark 4.0.",
            "On the driver and on every executor rocketmq_spark needs Spark 4.0 to 4.3 and Python 3.11 to 3.13: pip "
            "install 'pyspark>=4.0,<4.4' for the Python that 'spark.pyspark.python' or PYSPARK_PYTHON names. There is "
            "no version for Spark 3.5.",
        ),
        "UNSUPPORTED_SPARK_SETTING": Condition(
            "This query cannot run with 'spark.sql.streaming.triggerAvailableNowWrapper.enabled': Spark {version} then "
            "fixes where the run ends before it reads the checkpoint, and its call {call} does not show where the "
            "batch begins.",
            "Unset that setting. To read all that is there in several batches, call rocketmq_spark.run_available_now, "
            "or use Spark 4.2 or newer. Nothing was read; the checkpoint remains valid.",
        ),
        "MESSAGE_ID_UNAVAILABLE": Condition(
            "Ids need query and batch, of which Spark says {query} and {batch}.", "Set 'messageIdColumns'."
        ),
        "UNSUPPORTED_OPERATION": Condition("format('rocketmq') reads streams; it has no {subject} yet.", "{instead}"),
        "NATIVE_DECODER_UNAVAILABLE": Condition(
            "{variable} asks for the native decoder, which cannot be loaded: {problem}.",
            "Install a wheel that has it, or build it with 'make native'; without the variable the decoder in Python "
            "is used, which reads the same, slower.",
        ),
    }
)
