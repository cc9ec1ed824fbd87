"""Makes tables, adds rows to them and prints what is in them; a program, run by the Python of another Spark.

``fill FORMAT FOLDER FIRST COUNT FILES``: append orders with these numbers, in so many files;
``read FORMAT FOLDER``: print each row as JSON, a line each;
``version FORMAT FOLDER``: print Delta's current version or Iceberg's current snapshot ID;
``restore FORMAT FOLDER VERSION``: make it current again, by the table's own command;
``expire FORMAT FOLDER``: commit an empty append, and expire all snapshots before it (Iceberg only).
FORMAT is ``delta`` or ``iceberg``, the table that of the examples in this folder.
"""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pyspark
from pyspark.sql import DataFrame, SparkSession

ICEBERG = "lake.shop.orders"


def session(table_format: str, folder: str) -> SparkSession:
    builder = SparkSession.builder.appName("tables of the tests")
    if table_format == "delta":
        settings = {
            "spark.jars.packages": f"io.delta:delta-spark_{pyspark.__version__[:3]}_2.13:4.4.0",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    else:
        settings = {
            "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": f"file:{folder}/lake",
        }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def table(spark: SparkSession, table_format: str, folder: str) -> DataFrame:
    return spark.read.format("delta").load(f"{folder}/table") if table_format == "delta" else spark.table(ICEBERG)


def fill(spark: SparkSession, table_format: str, folder: str, first: str, count: str, files: str) -> None:
    numbers = spark.range(int(first), int(first) + int(count), numPartitions=int(files))
    rows = numbers.selectExpr("CONCAT('A-', id) AS orderNo", "1L AS version", "'paid' AS status")
    if table_format == "delta":
        rows.write.format("delta").mode("append").save(f"{folder}/table")
    elif spark.catalog.tableExists(ICEBERG):
        rows.writeTo(ICEBERG).append()
    else:
        rows.writeTo(ICEBERG).create()


def read(spark: SparkSession, table_format: str, folder: str) -> None:
    for row in table(spark, table_format, folder).collect():
        sys.stdout.write(f"{json.dumps(row.asDict())}\n")


def version(spark: SparkSession, table_format: str, folder: str) -> None:
    newest = {
        "delta": f"DESCRIBE HISTORY delta.`{folder}/table` LIMIT 1",
        "iceberg": f"SELECT snapshot_id FROM {ICEBERG}.snapshots ORDER BY committed_at DESC LIMIT 1",
    }
    (row,) = spark.sql(newest[table_format]).collect()
    sys.stdout.write(f"version {row[0]}\n")


def restore(spark: SparkSession, table_format: str, folder: str, version: str) -> None:
    command = {
        "delta": f"RESTORE TABLE delta.`{folder}/table` TO VERSION AS OF {version}",
        "iceberg": f"CALL lake.system.rollback_to_snapshot('shop.orders', {version})",
    }
    spark.sql(command[table_format]).collect()


def expire(spark: SparkSession, table_format: str, folder: str) -> None:
    assert table_format == "iceberg", f"the table in {folder} has no snapshots to expire"
    spark.sql(f"INSERT INTO {ICEBERG} SELECT * FROM {ICEBERG} WHERE false")
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    spark.sql(f"CALL lake.system.expire_snapshots('shop.orders', TIMESTAMP '{now} UTC', 1)").collect()


COMMANDS: dict[str, Callable[..., None]] = {
    "fill": fill,
    "read": read,
    "version": version,
    "restore": restore,
    "expire": expire,
}


def main(what: str, table_format: str, folder: str, *more: str) -> None:
    spark = session(table_format, folder)
    COMMANDS[what](spark, table_format, folder, *more)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
