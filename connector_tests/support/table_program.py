"""Makes tables, adds rows to them and prints what is in them; a program, run by the Python of another Spark.

``fill FORMAT FOLDER FIRST COUNT FILES``: append orders with these numbers, in so many files;
``read FORMAT FOLDER``: print each row as JSON, a line each. FORMAT is ``delta`` or ``iceberg``, the table that of the
examples in this folder.
"""

import json
import sys

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


def main(what: str, table_format: str, folder: str, *more: str) -> None:
    spark = session(table_format, folder)
    if what == "fill":
        fill(spark, table_format, folder, *more)
    else:
        read(spark, table_format, folder)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
