"""Our source in Python alone, beside the one that is built: another format in the same session.

Workers are shared by queries, so what reads and decodes is put back behind each partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from rocketmq_spark.source.datasource import RocketMQDataSource
from rocketmq_spark.source.stream.stream_reader import RocketMQStreamReader
from rocketmq_spark.wire.implementation import PYTHON, VARIABLE, column_decoder, response_template


class PythonDecodedSource(RocketMQDataSource):
    """``spark.readStream.format("rocketmq-python")``."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-python"

    def streamReader(self, schema: StructType) -> RocketMQStreamReader:
        return PythonDecodedReader(self.read_options(), schema)


class PythonDecodedReader(RocketMQStreamReader):
    """Plans as ever."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with decoding_in_python():
            yield from super().read(partition)


@contextmanager
def decoding_in_python() -> Iterator[None]:
    """Whatever the environment requests."""
    requested = os.environ.get(VARIABLE)
    _request_decoder(PYTHON)
    try:
        yield
    finally:
        _request_decoder(requested)


def _request_decoder(implementation: str | None) -> None:
    if implementation is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = implementation
    response_template.cache_clear()
    column_decoder.cache_clear()
