"""The demo's second pipeline: a query that reads orders and writes invoices, and one that reads these back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions

from rocketmq_spark.cli.demo_queries import TRIGGER, DemoQuery
from rocketmq_spark.cli.demo_report import OBSERVED, Invoice

BILLING: Final = "billing"
AUDIT: Final = "audit"
ORDER: Final = "order LONG, customer STRING, amount_cents LONG"


def invoices_of(orders: DataFrame) -> DataFrame:
    """The rows to write; every order's key goes into the query's progress."""
    order = functions.from_json(functions.col("body").cast("string"), ORDER)
    due = order["amount_cents"].alias("due_cents")
    invoice = functions.struct(order["order"].alias("invoice"), order["customer"].alias("customer"), due)
    observed = orders.observe(OBSERVED, functions.collect_list("keys").alias("keys"))
    return observed.select(functions.to_json(invoice).alias("body"), "tags", "keys")


def billing(orders: DataFrame, options: Mapping[str, str], folder: Path) -> DemoQuery:
    """Writes to the topic that ``options`` name. An order that is read again has an invoice of the same id."""
    output = invoices_of(orders).writeStream.queryName(BILLING).format("rocketmq").options(**options)
    return DemoQuery(BILLING, output.option("messageIdColumns", "keys").trigger(processingTime=TRIGGER), folder)


def auditing(invoices: DataFrame, folder: Path) -> DemoQuery:
    """Reads all that is there, and ends; ``audited`` has it then."""
    output = invoices.select("msgId", "keys").writeStream.queryName(AUDIT).format("memory")
    return DemoQuery(AUDIT, output.trigger(availableNow=True), folder)


def audited(spark: SparkSession) -> list[Invoice]:
    """What ``auditing`` has read."""
    return [Invoice(row.msgId, row["keys"]) for row in spark.table(AUDIT).collect()]
