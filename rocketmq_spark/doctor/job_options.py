"""Parsing of a job's options, by the same tables as the job itself; a job with invalid options is parsed as far as
possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketmq_spark.doctor.facts import Job
from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import BROADCASTING, BatchReadOptions, ConnectionOptions, ReadOptions, WriteOptions
from rocketmq_spark.options.connection import connection_options
from rocketmq_spark.options.table import parse_table, unknown_names

GROUP = "consumergroup"
TOPICS = frozenset({"subscribe", "topic", "subscribepattern", "assign"})


class ParsedJob(NamedTuple):
    """``options``: None if an error leaves them unknown. ``endpoints``: gRPC addresses, instead of name servers."""

    job: Job
    options: ConnectionOptions | None
    endpoints: tuple[str, ...]
    errors: tuple[OptionError, ...]


def parse_job(configured: Mapping[str, str], *, is_writing: bool) -> ParsedJob:
    """Parse a job's options; names in any case. Unknown names become errors, and the rest is parsed without them. If
    that fails, its OptionError is the last error, ``options`` is None and ``job`` is empty. No OptionError is
    raised."""
    table = _table(configured, is_writing=is_writing)
    unknown = unknown_names(table, configured)
    errors = [error for name in unknown if (error := _error_of(table, name)) is not None]
    try:
        options = _parse(table, {name: value for name, value in configured.items() if name not in unknown})
    except OptionError as error:
        return ParsedJob(Job(), None, (), (*errors, error))
    endpoints = (options.endpoints or ()) if isinstance(options, ReadOptions) else ()
    return ParsedJob(_job(options), options, endpoints, tuple(errors))


def _table(configured: Mapping[str, str], *, is_writing: bool) -> type[ConnectionOptions]:
    """Return the class of the options. It is WriteOptions if ``is_writing``, BatchReadOptions for topics without a
    group, ReadOptions for a group or another option that is no connection option, otherwise ConnectionOptions."""
    names = {name.lower() for name in configured}
    if is_writing:
        return WriteOptions
    if GROUP not in names and names & TOPICS:
        return BatchReadOptions
    return ReadOptions if unknown_names(ConnectionOptions, configured) else ConnectionOptions


def _error_of(table: type[ConnectionOptions], name: str) -> OptionError | None:
    """Return the OptionError with which ``parse_table`` rejects the unknown option ``name``, with a suggestion of
    another name, or None if it accepts the name."""
    try:
        parse_table(table, {name: ""})
    except OptionError as error:
        return error
    return None


def _parse(table: type[ConnectionOptions], configured: Mapping[str, str]) -> ConnectionOptions:
    """Parse the options ``configured``, all of which ``table`` has. Raises OptionError as the job does."""
    if issubclass(table, ReadOptions | BatchReadOptions | WriteOptions):
        return table.parse(configured)
    return connection_options(configured)


def _job(options: ConnectionOptions) -> Job:
    """Return the Job with what servers have to allow for these options; an empty Job for connection options alone."""
    match options:
        case ReadOptions():
            return Job(
                topics=options.read_topics,
                group=options.consumer_group,
                is_member=not options.is_message_based and options.assigned is None,
                starts_at_group=_starts_at_group(options),
                is_message_based=options.is_message_based,
                message_model=options.message_model,
                message_filter=options.message_filter,
                reads_retry_topic=options.reads_retry_topic,
                read_from=options.read_from,
                waits_for_master=options.consume_orderly,
            )
        case BatchReadOptions():
            return Job(
                topics=options.listed_topics,
                group=options.consumer_group,
                message_filter=options.message_filter,
                read_from=options.read_from,
                waits_for_master=True,
            )
        case WriteOptions():
            topics = () if options.topic is None else (options.topic,)
            return Job(topics=topics, is_writing=True)
        case _:
            return Job()


def _starts_at_group(options: ReadOptions) -> bool:
    """Return whether a query without a checkpoint begins at offsets that brokers store of its group. False with
    broadcasting, message-based load balancing, and options by which it ignores them or commits none."""
    is_stored_at_brokers = options.commits_offsets and options.message_model != BROADCASTING
    return is_stored_at_brokers and not options.is_message_based and not options.ignores_group_offsets
