"""What differs between the Sparks that run this connector: one table, in docs/compatibility.md. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

SPARKS: Final = ("4.0", "4.1", "4.2", "4.3")

PYTHONS: Final = dict.fromkeys(SPARKS, "3.11 to 3.13")
"""Versions of Python on which the connector runs with each."""


class Feature(NamedTuple):
    """``since``: the first Spark that has it; None where none has. ``instead``: what holds without it."""

    name: str
    since: str | None
    instead: str

    def cell(self, spark: str) -> str:
        """What the table has below ``spark``."""
        return "yes" if self.since is not None and SPARKS.index(spark) >= SPARKS.index(self.since) else "no"


RUN_TO_THE_END: Final = "rocketmq_spark.run_available_now"

FEATURES: Final = (
    Feature(
        "`availableNow` reads everything up to its start, in micro-batches of `maxOffsetsPerTrigger`",
        "4.2",
        "One micro-batch of at most `maxOffsetsPerTrigger` offsets; with `loadBalance=message` of the messages that "
        f"arrive first. The query logs how many are left. `{RUN_TO_THE_END}(writer)` reads all, on every Spark.",
    ),
    Feature(
        "the group's lag up to the end offsets is 0 after `availableNow`",
        "4.2",
        "The next start commits the last batch to the group. Until then the group's lag includes it, and "
        f"another member that joins reads it again. `{RUN_TO_THE_END}(writer)` commits it.",
    ),
    Feature(
        "the group's lag up to the end offsets is 0 after `once`",
        None,
        "As above: Spark sends the source no request after the batch of `once`. Use `availableNow`.",
    ),
    Feature(
        "an offset reset during the last batch of a run is applied",
        "4.2",
        "The next start applies it, because the run repeats the reset at the broker when it ends. With ACL that needs "
        "UPDATE permission on topic and group. Without it the reset is lost: check the lag, and reset again.",
    ),
    Feature(
        "`spark.sql.streaming.triggerAvailableNowWrapper.enabled` can be set",
        "4.2",
        "The query fails before anything is read, with `UNSUPPORTED_SPARK_SETTING`.",
    ),
    Feature(
        "`progress_of(query)` has `maxOffsets`, `lagByQueue` and `outages`; its lag is as of the last planned batch",
        "4.2",
        "It has `clientId`, `lag`, `completedAfterRebalance`, `lost` and `control`, as of the last planned batch. "
        "The log has the servers that the query waits for.",
    ),
    Feature(
        "`rocketmq_spark.stop(query)` before the first batch of a new query",
        "4.2",
        "`GRACEFUL_STOP_TIMEOUT` after `timeout_s`. Such a query has read nothing: use `query.stop()`. The same holds "
        "for a checkpoint whose last batch a newer Spark has planned, until there is a batch.",
    ),
    Feature(
        "streaming writers get Arrow by `DataSourceStreamArrowWriter`",
        "4.1",
        "Spark 4.0 has no such class, and passes Arrow without it.",
    ),
    Feature(
        "Unix domain sockets between the JVM and Python",
        "4.1",
        "TCP on the loopback interface.",
    ),
    Feature(
        "Spark Declarative Pipelines",
        "4.1",
        "Spark 4.0 does not have them.",
    ),
    Feature(
        "filters of a stream are passed to a Python source",
        None,
        "Spark filters rows that were read; `subExpression` filters tags and properties at the broker.",
    ),
)
