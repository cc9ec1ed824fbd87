"""Two ``.load()``s of one group in one query: two members, which Spark asks one after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame

from connector_tests.spark.conftest import StreamOf
from connector_tests.support.streams import Stream, Topic

pytestmark = pytest.mark.full

LIMIT_S = 120


@dataclass
class TwoLoads(Stream):
    def load(self) -> DataFrame:
        return super().load().unionAll(super().load())


@pytest.mark.parametrize("orderly", ["false", "true"])
def test_an_available_now_run_of_two_loads_reads_all_and_does_not_wait_for_itself(
    messages: Topic, stream: StreamOf, group: str, orderly: str
) -> None:
    """The load without anything to read waited for the other, which Spark did not ask meanwhile."""
    one = stream(consumeOrderly=orderly, clusterTimeoutMs=str(1_000 * LIMIT_S))
    both = TwoLoads(**vars(one))
    began_s = time.monotonic()
    sent = messages.send(8)
    both.run_to_end()
    assert set(both.bodies()) == set(sent)
    sent += messages.send(1)
    both.run_to_end()
    assert time.monotonic() - began_s < LIMIT_S
    assert set(both.bodies()) == set(sent)
    assert messages.lag(group) == 0
